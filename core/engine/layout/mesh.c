/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/layout/mesh.h"

#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/comm/nodes.h"

static int find_request(const struct cadre_axis_request *requests, int n,
                        const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(requests[i].name, name) == 0)
            return i;
    return -1;
}

/* An axis that is named twice must have one size; a plugin without an axis has one
 * rank. */
static cadre_status unify(struct cadre_axis_request *requests, int n,
                          struct cadre_error *err)
{
    for (int i = 0; i < n; i++) {
        if (!*requests[i].name) {
            if (requests[i].size > 1)
                return cadre_fail(
                    err, CADRE_E_INVALID,
                    "strategy.stack: '%s:%d' has no axis, expected no number of ranks; "
                    "leave ':%d' out, or name an axis ('%s@AXIS:%d')",
                    requests[i].plugin, requests[i].size, requests[i].size,
                    requests[i].plugin, requests[i].size);
            requests[i].size = 1;
        }
        struct cadre_axis_request *first =
            &requests[find_request(requests, i + 1, requests[i].name)];
        if (first->size == 0)
            first->size = requests[i].size;
        if (requests[i].size == 0)
            requests[i].size = first->size;
        if (requests[i].size != first->size)
            return cadre_fail(
                err, CADRE_E_INVALID,
                "strategy.stack: '%s:%d' and '%s:%d' share the axis '%s', "
                "expected equal sizes",
                first->plugin, first->size, requests[i].plugin, requests[i].size,
                first->name);
    }
    return CADRE_OK;
}

cadre_status cadre_mesh_resolve(struct cadre_axis_request *requests, int n, int given,
                                int most, int *ranks, struct cadre_error *err)
{
    CADRE_TRY(unify(requests, n, err));
    int64_t product = 1;
    int open = -1;
    for (int i = 0; i < n; i++) {
        if (find_request(requests, i, requests[i].name) >= 0)
            continue;
        if (requests[i].size > 0) {
            product *= requests[i].size;
        } else if (open >= 0) {
            return cadre_fail(
                err, CADRE_E_INVALID,
                "strategy.stack: '%s' and '%s' both leave their size open, "
                "expected at most one; write a number",
                requests[open].plugin, requests[i].plugin);
        } else {
            open = i;
        }
        if (product > most)
            return cadre_fail(err, CADRE_E_INVALID,
                              "strategy.stack: %lld ranks, expected at most %d",
                              (long long)product, most);
    }
    if (given > 0 && given % product != 0)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "strategy.stack makes %lld ranks, but the launcher started %d",
            (long long)product, given);
    int rest = given > 0 ? (int)(given / product) : 1;
    for (int i = 0; i < n; i++)
        if (requests[i].size == 0)
            requests[i].size = rest;
    if (open >= 0)
        product *= rest;
    else if (rest != 1)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "strategy.stack makes %lld ranks, but the launcher started %d",
            (long long)product, given);
    *ranks = (int)product;
    return CADRE_OK;
}

/* ---- this rank's view ---- */

/* Coordinate of a rank of the world along an axis. */
static int index_of(const struct cadre_axis *axis, int rank)
{
    int index = 0;
    for (int f = 0; f < axis->n_factors; f++)
        index = index * axis->factor[f].size +
                rank / axis->factor[f].stride % axis->factor[f].size;
    return index;
}

cadre_status cadre_mesh_init(struct cadre_mesh *mesh,
                             const struct cadre_axis_request *requests, int n, int rank,
                             struct cadre_error *err)
{
    memset(mesh, 0, sizeof *mesh);
    mesh->ranks = 1;
    mesh->rank = rank;
    for (int i = 0; i < n; i++) {
        if (!*requests[i].name || find_request(requests, i, requests[i].name) >= 0)
            continue;
        if (mesh->n == CADRE_MAX_AXES)
            return cadre_fail(err, CADRE_E_INVALID, "strategy.stack: more than %d axes",
                              CADRE_MAX_AXES);
        struct cadre_axis *axis = &mesh->axis[mesh->n++];
        snprintf(axis->name, sizeof axis->name, "%s", requests[i].name);
        axis->size = requests[i].size;
        mesh->ranks *= axis->size;
    }
    int stride = 1;
    for (int i = mesh->n - 1; i >= 0; i--) {
        struct cadre_axis *axis = &mesh->axis[i];
        axis->n_factors = 1;
        axis->factor[0] = (struct cadre_axis_factor){stride, axis->size};
        axis->index = index_of(axis, rank);
        stride *= axis->size;
    }
    return CADRE_OK;
}

static struct cadre_axis *find_axis(struct cadre_axis *axes, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(axes[i].name, name) == 0)
            return &axes[i];
    return NULL;
}

struct cadre_axis *cadre_mesh_axis(struct cadre_mesh *mesh, const char *name)
{
    struct cadre_axis *found = find_axis(mesh->axis, mesh->n, name);
    return found ? found : find_axis(mesh->derived, mesh->n_derived, name);
}

struct cadre_axis *cadre_mesh_axis_at(struct cadre_mesh *mesh, int a)
{
    return a < mesh->n ? &mesh->axis[a] : &mesh->derived[a - mesh->n];
}

const struct cadre_axis *cadre_mesh_own_runs(const struct cadre_mesh *mesh)
{
    for (int i = 0; i < mesh->n; i++)
        if (mesh->axis[i].own_runs)
            return &mesh->axis[i];
    return NULL;
}

/* ---- axes made of axes ---- */

void cadre_mesh_reset(struct cadre_mesh *mesh)
{
    mesh->n_derived = mesh->n_data = 0;
    for (int i = 0; i < mesh->n; i++) {
        struct cadre_axis *axis = &mesh->axis[i];
        axis->split_batch = axis->split_time = axis->own_runs = false;
        axis->user = NULL;
        axis->inner = 0;
    }
}

static bool overlap(const struct cadre_axis_factor *a,
                    const struct cadre_axis_factor *b)
{
    return a->size > 1 && b->size > 1 && a->stride < b->stride * b->size &&
           b->stride < a->stride * a->size;
}

static bool overlaps(const struct cadre_axis *one, const struct cadre_axis *two)
{
    for (int i = 0; i < one->n_factors; i++)
        for (int k = 0; k < two->n_factors; k++)
            if (overlap(&one->factor[i], &two->factor[k]))
                return true;
    return false;
}

/* Add an axis unless it is there; one of that name made otherwise is refused. */
static cadre_status add_derived(struct cadre_mesh *mesh, struct cadre_axis *made,
                                struct cadre_error *err)
{
    const struct cadre_axis *old = cadre_mesh_axis(mesh, made->name);
    if (old && (old->n_factors != made->n_factors ||
                memcmp(old->factor, made->factor, sizeof made->factor) != 0))
        return cadre_fail(
            err, CADRE_E_UNSUPPORTED,
            "the axis '%s' has %d ranks already, and was to be made again "
            "of %d; plugins that split an axis must split it alike",
            made->name, old->size, made->size);
    if (old)
        return CADRE_OK;
    if (mesh->n_derived == CADRE_MAX_DERIVED)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "'%s' is one axis too many: at most %d can be made of the "
                          "axes of strategy.stack",
                          made->name, CADRE_MAX_DERIVED);
    made->index = index_of(made, mesh->rank);
    mesh->derived[mesh->n_derived++] = *made;
    return CADRE_OK;
}

/* Let the ranks of one more axis be ranks of the product. */
static cadre_status multiply(struct cadre_mesh *mesh, struct cadre_axis *product,
                             const char *name, struct cadre_error *err)
{
    const struct cadre_axis *axis = cadre_mesh_axis(mesh, name);
    if (!axis)
        return cadre_fail(
            err, CADRE_E_UNSUPPORTED,
            "'%s' is to be made of the axis '%s', which this run does not "
            "have",
            product->name, name);
    if (overlaps(product, axis))
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "'%s' has ranks of the axis '%s' twice; name each axis once",
                          product->name, name);
    if (product->n_factors + axis->n_factors > CADRE_MAX_AXES)
        return cadre_fail(err, CADRE_E_UNSUPPORTED, "'%s' is made of more than %d axes",
                          product->name, CADRE_MAX_AXES);
    memcpy(product->factor + product->n_factors, axis->factor,
           (size_t)axis->n_factors * sizeof *axis->factor);
    product->n_factors += axis->n_factors;
    product->size *= axis->size;
    return CADRE_OK;
}

cadre_status cadre_mesh_product(struct cadre_mesh *mesh, const char *product,
                                const char *user, struct cadre_error *err)
{
    struct cadre_axis made = {.size = 1, .user = user};
    char part[CADRE_AXIS_CHARS];
    if (!strchr(product, '*') || strlen(product) >= sizeof made.name)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "'%.64s' is no product of axes, expected at most %zu "
                          "characters such as \"rep*dp\"",
                          product, sizeof made.name - 1);
    snprintf(made.name, sizeof made.name, "%s", product);
    for (const char *at = product;; at++) {
        size_t n = strcspn(at, "*");
        snprintf(part, sizeof part, "%.*s", (int)n, at);
        CADRE_TRY(multiply(mesh, &made, part, err));
        at += n;
        if (!*at)
            return add_derived(mesh, &made, err);
    }
}

cadre_status cadre_mesh_split(struct cadre_mesh *mesh, const char *name, uint32_t inner,
                              const char *user, struct cadre_error *err)
{
    struct cadre_axis *axis = find_axis(mesh->axis, mesh->n, name);
    if (!axis)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "'%.64s' is to be split, expected an axis of strategy.stack",
                          name);
    if (inner == 0 || (uint32_t)axis->size % inner != 0)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "the axis '%s' of %d ranks is to be split into groups of %u, "
                          "which do not divide it; choose another number",
                          name, axis->size, inner);
    int stride = axis->factor[0].stride, n = (int)inner;
    struct cadre_axis outside = {.size = axis->size / n,
                                 .n_factors = 1,
                                 .factor = {{stride * n, axis->size / n}},
                                 .user = user};
    struct cadre_axis inside = {
        .size = n, .n_factors = 1, .factor = {{stride, n}}, .user = user};
    size_t chars = sizeof outside.name;
    if ((size_t)snprintf(outside.name, chars, "%s.outer", name) >= chars ||
        (size_t)snprintf(inside.name, chars, "%s.inner", name) >= chars)
        return cadre_fail(
            err, CADRE_E_UNSUPPORTED,
            "the axis '%s' is to be split, which makes names of more than "
            "%zu characters; give it a shorter one in strategy.stack",
            name, chars - 1);
    CADRE_TRY(add_derived(mesh, &outside, err));
    CADRE_TRY(add_derived(mesh, &inside, err));
    axis->inner = n;
    return CADRE_OK;
}

/* ---- groups ---- */

static cadre_status connect_axis(const struct cadre_mesh *mesh, struct cadre_axis *axis,
                                 struct cadre_comm *world, struct cadre_error *err)
{
    int color = mesh->rank;
    for (int f = 0; f < axis->n_factors; f++) {
        const struct cadre_axis_factor *factor = &axis->factor[f];
        color -= mesh->rank / factor->stride % factor->size * factor->stride;
    }
    if (axis->size == 1)
        return CADRE_OK;
    CADRE_TRY(cadre_comm_split(world, color, axis->index, &axis->comm, err));
    axis->comm->name = axis->name;
    return CADRE_OK;
}

/* The inner part of an axis is for links that are fast: not so between nodes. */
static void warn_of_nodes(const struct cadre_axis *part)
{
    const char *dot = strrchr(part->name, '.');
    if (!dot || strcmp(dot, ".inner") != 0 || !part->comm || part->index > 0 ||
        cadre_nodes_count(part->comm) == 1)
        return;
    cadre_log(CADRE_LOG_WARN, "strategy",
              "the %d adjacent ranks of '%s', which '%s' takes for one node, are on %d "
              "nodes; let its number divide the ranks of a node",
              part->size, part->name, part->user ? part->user : "?",
              cadre_nodes_count(part->comm));
}

cadre_status cadre_mesh_connect(struct cadre_mesh *mesh, struct cadre_comm *world,
                                struct cadre_error *err)
{
    for (int i = mesh->n - 1; i >= 0; i--)
        CADRE_TRY(connect_axis(mesh, &mesh->axis[i], world, err));
    for (int i = 0; i < mesh->n_derived; i++) {
        CADRE_TRY(connect_axis(mesh, &mesh->derived[i], world, err));
        warn_of_nodes(&mesh->derived[i]);
    }
    return CADRE_OK;
}

static void disconnect_axis(struct cadre_axis *axis)
{
    if (axis->comm)
        cadre_comm_destroy(axis->comm);
    axis->comm = NULL;
}

void cadre_mesh_fini(struct cadre_mesh *mesh)
{
    for (int i = 0; i < mesh->n; i++)
        disconnect_axis(&mesh->axis[i]);
    for (int i = 0; i < mesh->n_derived; i++)
        disconnect_axis(&mesh->derived[i]);
}

/* ---- parts of the mesh ---- */

int cadre_mesh_parts(const struct cadre_mesh *mesh,
                     struct cadre_axis_part out[CADRE_MAX_PARTS])
{
    int n = 0;
    for (int i = 0; i < mesh->n; i++) {
        const struct cadre_axis *axis = &mesh->axis[i];
        int stride = axis->factor[0].stride, inner = axis->inner ? axis->inner : 1;
        const struct cadre_axis_factor of[] = {{stride * inner, axis->size / inner},
                                               {stride, inner}};
        for (int k = 0; k < 2; k++)
            if (of[k].size > 1)
                out[n++] = (struct cadre_axis_part){axis, of[k]};
    }
    return n;
}

static bool lies_along(const struct cadre_axis *axis,
                       const struct cadre_axis_factor *factor)
{
    for (int f = 0; f < axis->n_factors; f++)
        if (overlap(&axis->factor[f], factor))
            return true;
    return false;
}

bool cadre_axis_has(const struct cadre_axis *axis, const struct cadre_axis_part *part)
{
    return lies_along(axis, &part->factor);
}

bool cadre_mesh_is_first(const struct cadre_mesh *mesh,
                         const struct cadre_axis *const *axes, int n)
{
    struct cadre_axis_part part[CADRE_MAX_PARTS];
    int parts = cadre_mesh_parts(mesh, part);
    for (int p = 0; p < parts; p++) {
        const struct cadre_axis_factor *factor = &part[p].factor;
        bool along = false;
        for (int i = 0; i < n; i++)
            along = along || cadre_axis_has(axes[i], &part[p]);
        if (!along && mesh->rank / factor->stride % factor->size != 0)
            return false;
    }
    return true;
}

/* ---- data ranks ---- */

void cadre_mesh_number(struct cadre_mesh *mesh, const struct cadre_axis *const *axes,
                       int n)
{
    mesh->n_data = 0;
    for (int i = 0; i < n; i++)
        for (int f = 0; f < axes[i]->n_factors; f++)
            for (int a = 0; a < mesh->n; a++)
                if (mesh->axis[a].split_batch &&
                    overlap(&axes[i]->factor[f], &mesh->axis[a].factor[0]))
                    mesh->data[mesh->n_data++] = axes[i]->factor[f];
}

/* Until a plan is finished the mesh's own order holds. Returns how many. */
static int data_factors(const struct cadre_mesh *mesh,
                        struct cadre_axis_factor out[CADRE_MAX_PARTS])
{
    int n = 0;
    if (mesh->n_data > 0) {
        memcpy(out, mesh->data, sizeof mesh->data);
        return mesh->n_data;
    }
    for (int a = 0; a < mesh->n; a++)
        if (mesh->axis[a].split_batch)
            out[n++] = mesh->axis[a].factor[0];
    return n;
}

int cadre_mesh_data_size(const struct cadre_mesh *mesh)
{
    int size = 1;
    for (int i = 0; i < mesh->n; i++)
        if (mesh->axis[i].split_batch)
            size *= mesh->axis[i].size;
    return size;
}

int cadre_mesh_data_index(const struct cadre_mesh *mesh)
{
    struct cadre_axis_factor factor[CADRE_MAX_PARTS];
    int index = 0, n = data_factors(mesh, factor);
    for (int f = 0; f < n; f++)
        index = index * factor[f].size + mesh->rank / factor[f].stride % factor[f].size;
    return index;
}

int cadre_mesh_data_rank(const struct cadre_mesh *mesh, int index)
{
    struct cadre_axis_factor factor[CADRE_MAX_PARTS];
    int rank = mesh->rank, n = data_factors(mesh, factor);
    for (int f = n - 1; f >= 0; f--) {
        int own = mesh->rank / factor[f].stride % factor[f].size;
        rank += factor[f].stride * (index % factor[f].size - own);
        index /= factor[f].size;
    }
    return rank;
}

int cadre_mesh_rank_along(const struct cadre_mesh *mesh, const struct cadre_axis *axis,
                          int rank)
{
    int world = mesh->rank;
    for (int f = axis->n_factors - 1; f >= 0; f--) {
        const struct cadre_axis_factor *factor = &axis->factor[f];
        int own = mesh->rank / factor->stride % factor->size;
        world += factor->stride * (rank % factor->size - own);
        rank /= factor->size;
    }
    return world;
}

void cadre_mesh_data_group(const struct cadre_mesh *mesh, const struct cadre_axis *axis,
                           int rank, int *first, int *last)
{
    struct cadre_axis_factor factor[CADRE_MAX_PARTS];
    int n = data_factors(mesh, factor), world = cadre_mesh_rank_along(mesh, axis, rank);
    int inner = n; /* factors from here on are of levels below */
    while (inner > 0 && !lies_along(axis, &factor[inner - 1]))
        inner--;
    *first = *last = 0;
    for (int f = 0; f < n; f++) {
        int own = world / factor[f].stride % factor[f].size, size = factor[f].size;
        bool below = inner > 0 && f >= inner;
        *first = *first * size + (below ? 0 : own);
        *last = *last * size + (below ? size - 1 : own);
    }
}

int cadre_mesh_time_size(const struct cadre_mesh *mesh)
{
    int size = 1;
    for (int i = 0; i < mesh->n; i++)
        if (mesh->axis[i].split_time)
            size *= mesh->axis[i].size;
    return size;
}

int cadre_mesh_time_index(const struct cadre_mesh *mesh)
{
    int index = 0;
    for (int i = 0; i < mesh->n; i++)
        if (mesh->axis[i].split_time)
            index = index * mesh->axis[i].size + mesh->axis[i].index;
    return index;
}
