/* SPDX-License-Identifier: Apache-2.0 */
/* From a stack with an axis of independent runs to these runs. */
#include "core/sweep/sweep.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cores.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/engine/place.h"

struct making {
    const struct cadre_sweep_request *request;
    struct cadre_sweep *sweep;
    char axis[CADRE_AXIS_CHARS];
};

static cadre_status no_memory(struct cadre_error *err)
{
    return cadre_no_memory(err, "the instances");
}

/* ---- the axis ---- */

/* The name of the axis and its size, 0 for none. */
static int find_axis(const struct cadre_spec *spec, char name[CADRE_AXIS_CHARS])
{
    struct cadre_rank rank;
    if (spec->run.n_plugins == 0 ||
        cadre_rank_plan(&rank, &spec->run, 0, NULL) != CADRE_OK)
        return 0;
    const struct cadre_axis *axis = cadre_mesh_own_runs(&rank.mesh);
    const int size = axis ? axis->size : 0;
    if (axis)
        snprintf(name, CADRE_AXIS_CHARS, "%s", axis->name);
    cadre_rank_fini(&rank);
    return size;
}

/* The plugin whose `sweep` applies: the axis is its own. */
static const char *owner_of(const struct cadre_spec *spec, const char *axis)
{
    for (int i = 0; i < spec->run.n_plugins; i++)
        if (strcmp(spec->run.axis[i].name, axis) == 0)
            return spec->run.instance[i].name;
    return "";
}

/* The stack without the plugins of the axis, each as the user wrote it, by name or
 * path. */
static cadre_status make_stack(const struct making *m, struct cadre_error *err)
{
    const struct cadre_spec *spec = m->sweep->spec;
    struct cadre_stack stack;
    char *out = m->sweep->stack;
    size_t used = 0, room = sizeof m->sweep->stack;
    CADRE_TRY(cadre_stack_parse(spec->config.strategy.stack, &stack, err));
    for (int i = 0; i < stack.n && used < room; i++) {
        if (strcmp(spec->run.axis[i].name, m->axis) == 0)
            continue;
        if (used > 0)
            used += (size_t)snprintf(out + used, room - used, ", ");
        if (used < room)
            used += (size_t)cadre_stack_print(&stack.entry[i], spec->run.axis[i].size,
                                              out + used, room - used);
    }
    if (used >= room)
        return cadre_fail(err, CADRE_E_INVALID,
                          "strategy.stack of an instance takes more than %zu "
                          "characters; name plugins instead of paths",
                          room - 1);
    if (used == 0)
        snprintf(out, room, "single");
    return CADRE_OK;
}

static cadre_status make_sweep(const struct making *m, struct cadre_error *err)
{
    struct cadre_sweep *sweep = m->sweep;
    const struct cadre_spec *spec = sweep->spec;
    const char *more[CADRE_MAX_INSTANCES + 1] = {NULL};
    size_t n = 0;
    char name[96];
    for (int i = 0; i < spec->run.n_plugins; i++)
        if (strcmp(spec->run.axis[i].name, m->axis) != 0)
            more[n++] = spec->run.plugin[i]->name;
    snprintf(name, sizeof name, "%s.sweep", sweep->plugin);
    const char *text = cadre_options_raw(spec->options, name);
    return cadre_sweep_values_parse(name, text ? text : "", sweep->n, more,
                                    &sweep->values, err);
}

/* ---- placement of an instance ---- */

static cadre_status add_variable(struct cadre_sweep_instance *instance,
                                 const char *variable, const char *plugin, size_t k,
                                 struct cadre_error *err)
{
    const size_t name = strcspn(variable, "=") + 1;
    for (size_t i = 0; i < instance->n_variables; i++) {
        const char *other = instance->variable[i];
        if (strncmp(other, variable, name) != 0)
            continue;
        if (strcmp(other, variable) == 0)
            return CADRE_OK;
        return cadre_fail(err, CADRE_E_INVALID,
                          "plugin '%s' requests %s and %s for ranks of instance %zu, "
                          "whose ranks begin in one process with one environment",
                          plugin, other, variable, k);
    }
    void *grown = cadre_realloc(instance->variable, instance->n_variables + 2,
                                sizeof *instance->variable);
    if (!grown)
        return no_memory(err);
    instance->variable = grown;
    char *copy = cadre_strdup(variable);
    instance->variable[instance->n_variables] = copy;
    if (!copy)
        return no_memory(err);
    instance->variable[++instance->n_variables] = NULL;
    return CADRE_OK;
}

static cadre_status take_place(struct cadre_sweep *sweep, size_t k,
                               const struct cadre_launch_place *place,
                               struct cadre_error *err)
{
    struct cadre_sweep_instance *instance = &sweep->instance[k];
    cadre_status rc = CADRE_OK;
    if (place->pinned) {
        if (!instance->pinned)
            CPU_ZERO(&instance->cpus);
        instance->pinned = true;
        CPU_OR(&instance->cpus, &instance->cpus, &place->cpus);
    }
    for (int i = 0; rc == CADRE_OK && place->variable[i]; i++)
        rc = add_variable(instance, place->variable[i], sweep->plugin, k, err);
    return rc;
}

/* The instance of a rank is its index on the axis. */
static size_t instance_of(const struct making *m, int rank)
{
    const struct cadre_run_spec *run = &m->sweep->spec->run;
    struct cadre_mesh mesh;
    if (cadre_mesh_init(&mesh, run->axis, run->n_plugins, rank, NULL) != CADRE_OK)
        return 0;
    const struct cadre_axis *axis = cadre_mesh_axis(&mesh, m->axis);
    return axis ? (size_t)axis->index : 0;
}

static cadre_status find_places(const struct making *m, struct cadre_error *err)
{
    struct cadre_sweep *sweep = m->sweep;
    const struct cadre_run_spec *run = &sweep->spec->run;
    struct cadre_places places;
    const struct cadre_places_request request = {
        .spec = run, .processes = true, .gpu = sweep->spec->gpu};
    cadre_status rc = cadre_places_collect(&places, &request, err);
    for (int r = 0; rc == CADRE_OK && r < run->ranks && places.rank; r++)
        rc = take_place(sweep, instance_of(m, r), &places.rank[r], err);
    cadre_places_fini(&places);
    for (size_t k = 0; rc == CADRE_OK && k < sweep->n; k++) {
        char name[48];
        snprintf(name, sizeof name, "CADRE_INSTANCE=%zu", k);
        rc = add_variable(&sweep->instance[k], name, sweep->plugin, k, err);
    }
    return rc;
}

/* ---- arguments of an instance ---- */

static cadre_status add_argument(struct cadre_sweep_instance *instance, char *text,
                                 struct cadre_error *err)
{
    void *grown =
        text ? cadre_realloc(instance->argv, instance->argc + 2, sizeof *instance->argv)
             : NULL;
    if (!grown) {
        free(text);
        return no_memory(err);
    }
    instance->argv = grown;
    instance->argv[instance->argc++] = text;
    instance->argv[instance->argc] = NULL;
    return CADRE_OK;
}

static cadre_status add_pair(struct cadre_sweep_instance *instance, const char *flag,
                             char *value, struct cadre_error *err)
{
    cadre_status rc = add_argument(instance, cadre_strdup(flag), err);
    if (rc == CADRE_OK)
        return add_argument(instance, value, err);
    free(value);
    return rc;
}

/* The data cache of the sweep, which its instances share. */
static char *shared_cache(const struct cadre_spec *spec)
{
    const char *cache = spec->config.data.cache;
    if (strcmp(cache, "auto") != 0)
        return cadre_format("data.cache=%s", cache);
    char *parent = cadre_path_dirname(spec->out);
    char *text = parent ? cadre_format("data.cache=%s/cache", parent) : NULL;
    free(parent);
    return text;
}

/* --set of the plugin's own section does not apply to an instance. */
static bool is_own(const struct making *m, const char *set)
{
    const size_t length = strlen(m->sweep->plugin);
    return strncasecmp(set, m->sweep->plugin, length) == 0 && set[length] == '.';
}

static cadre_status make_arguments(const struct making *m, size_t k,
                                   struct cadre_error *err)
{
    const struct cadre_sweep *sweep = m->sweep;
    const struct cadre_sweep_values *values = &sweep->values;
    struct cadre_sweep_instance *instance = &sweep->instance[k];
    CADRE_TRY(add_argument(instance, cadre_strdup("cadre"), err)); /* shown by ps */
    CADRE_TRY(add_argument(instance, cadre_strdup("train"), err));
    CADRE_TRY(add_argument(instance, cadre_strdup(m->request->conf), err));
    CADRE_TRY(add_pair(instance, "--out", cadre_strdup(instance->folder), err));
    if (m->request->run)
        CADRE_TRY(add_pair(instance, "--run", cadre_strdup(m->request->run), err));
    for (char *const *set = m->request->sets; set && *set; set++)
        if (!is_own(m, *set))
            CADRE_TRY(add_pair(instance, "--set", cadre_strdup(*set), err));
    CADRE_TRY(add_pair(instance, "--set",
                       cadre_format("strategy.stack=%s", sweep->stack), err));
    CADRE_TRY(add_pair(instance, "--set",
                       cadre_format("run.name=%s-%zu", sweep->spec->name, k), err));
    CADRE_TRY(add_pair(instance, "--set", shared_cache(sweep->spec), err));
    CADRE_TRY(add_pair(instance, "--set", cadre_strdup("log.progress=no"),
                       err)); /* one bar */
    for (size_t i = 0; i < values->n; i++)
        CADRE_TRY(add_pair(instance, "--set",
                           cadre_format("%s=%s", values->key[i],
                                        values->value[i * values->instances + k]),
                           err));
    return CADRE_OK;
}

static cadre_status describe(const struct cadre_sweep *sweep, size_t k,
                             struct cadre_error *err)
{
    const struct cadre_sweep_values *values = &sweep->values;
    struct cadre_text text = {0};
    for (size_t i = 0; i < values->n; i++)
        cadre_text_printf(&text, "%s%s = %s", i ? ", " : "", values->key[i],
                          values->value[i * values->instances + k]);
    sweep->instance[k].options = cadre_strdup(cadre_text_str(&text));
    bool failed = text.failed || !sweep->instance[k].options;
    cadre_text_fini(&text);
    return failed ? no_memory(err) : CADRE_OK;
}

/* ---- checks ---- */

/* Cores of an instance's ranks, as its process will count them. */
static int threads_of(const struct cadre_sweep_instance *instance,
                      const struct cadre_spec *spec)
{
    const int64_t wanted = spec->config.device.threads;
    const int cores =
        instance->pinned ? cadre_cores_of(&instance->cpus, "") : cadre_cores_physical();
    const int share = cores / spec->run.ranks;
    return wanted ? (int)wanted : share > 1 ? share : 1;
}

static cadre_status take_spec(struct cadre_sweep_instance *instance,
                              const struct cadre_spec *spec, struct cadre_error *err)
{
    struct cadre_rank rank;
    cadre_status rc = cadre_rank_plan(&rank, &spec->run, 0, err);
    if (rc != CADRE_OK)
        return CADRE_E_INVALID;
    cadre_rank_fini(&rank);
    instance->ranks = spec->run.ranks;
    instance->threads = threads_of(instance, spec);
    instance->steps = spec->steps;
    return CADRE_OK;
}

/* The options of an instance, as its process will resolve them. */
static cadre_status check_instance(const struct making *m, size_t k,
                                   struct cadre_error *err)
{
    struct cadre_sweep_instance *instance = &m->sweep->instance[k];
    struct cadre_options *options = cadre_options_clone(m->request->options);
    struct cadre_spec *spec = NULL;
    char *name = cadre_format("%s-%zu", m->sweep->spec->name, k);
    const struct cadre_spec_request request = {
        .out = instance->folder, .name = name, .need_data = true};
    cadre_status rc = options && name ? CADRE_OK : no_memory(err);
    for (size_t i = 0; rc == CADRE_OK && i + 1 < instance->argc; i++)
        if (strcmp(instance->argv[i], "--set") == 0)
            rc = cadre_options_set(options, instance->argv[++i], "command line", err);
    if (rc == CADRE_OK)
        rc = cadre_sweep_values_apply(&m->sweep->values, k, options, err);
    if (rc == CADRE_OK)
        rc = cadre_options_allow_section(options, m->sweep->plugin, err);
    if (rc == CADRE_OK) {
        rc = cadre_spec_create(options, &request, &spec, err);
        options = NULL;
    }
    if (rc == CADRE_OK)
        rc = take_spec(instance, spec, err);
    if (rc != CADRE_OK)
        cadre_error_prefix(err, "instance %zu", k);
    cadre_spec_destroy(spec);
    cadre_options_destroy(options);
    free(name);
    return rc;
}

static cadre_status make_instance(const struct making *m, size_t k,
                                  struct cadre_error *err)
{
    struct cadre_sweep_instance *instance = &m->sweep->instance[k];
    instance->folder = cadre_format("%s/instance-%zu", m->sweep->spec->out, k);
    if (!instance->folder)
        return no_memory(err);
    CADRE_TRY(describe(m->sweep, k, err));
    CADRE_TRY(make_arguments(m, k, err));
    return check_instance(m, k, err);
}

cadre_status cadre_sweep_create(const struct cadre_sweep_request *request,
                                const struct cadre_spec *spec, struct cadre_sweep **out,
                                struct cadre_error *err)
{
    struct making m = {.request = request};
    const int size = find_axis(spec, m.axis);
    cadre_status rc = CADRE_OK;
    *out = NULL;
    if (size == 0)
        return CADRE_OK;
    struct cadre_sweep *sweep = cadre_calloc(1, sizeof *sweep);
    if (!sweep)
        return no_memory(err);
    m.sweep = sweep;
    sweep->spec = spec;
    sweep->plugin = owner_of(spec, m.axis);
    sweep->instance = cadre_calloc((size_t)size, sizeof *sweep->instance);
    if (!sweep->instance) {
        rc = no_memory(err);
        goto fail;
    }
    sweep->n = (size_t)size;
    CADRE_TRY_OR(make_stack(&m, err), fail);
    CADRE_TRY_OR(make_sweep(&m, err), fail);
    CADRE_TRY_OR(find_places(&m, err), fail);
    for (size_t k = 0; k < sweep->n; k++)
        CADRE_TRY_OR(make_instance(&m, k, err), fail);
    *out = sweep;
    return CADRE_OK;
fail:
    cadre_sweep_destroy(sweep);
    return rc;
}

static void free_texts(char **texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(texts[i]);
    free(texts);
}

void cadre_sweep_destroy(struct cadre_sweep *sweep)
{
    if (!sweep)
        return;
    for (size_t k = 0; sweep->instance && k < sweep->n; k++) {
        struct cadre_sweep_instance *instance = &sweep->instance[k];
        free(instance->folder);
        free(instance->options);
        free_texts(instance->argv, instance->argc);
        free_texts(instance->variable, instance->n_variables);
        json_decref(instance->summary);
    }
    cadre_sweep_values_fini(&sweep->values);
    free(sweep->instance);
    free(sweep);
}
