/* SPDX-License-Identifier: Apache-2.0 */
#include "core/export/chakra.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/path.h"
#include "core/base/protobuf.h"

#define VERSION "0.0.4" /* of the schema, as Chakra's own writers have it */
#define GROUPS "comm_groups.json"

/* Fields and values of the schema. */
enum { META_VERSION = 1, META_ATTR = 2 };
enum {
    NODE_ID = 1,
    NODE_NAME = 2,
    NODE_TYPE = 3,
    NODE_DATA_DEPS = 5,
    NODE_START_US = 6,
    NODE_DURATION_US = 7,
    NODE_ATTR = 10,
};
enum {
    ATTR_NAME = 1,
    ATTR_F64 = 3,
    ATTR_I32 = 7,
    ATTR_I64 = 9,
    ATTR_U64 = 13,
    ATTR_BOOL = 27,
    ATTR_STRING = 29,
};
enum { TYPE_COMPUTE = 4, TYPE_SEND = 5, TYPE_RECEIVE = 6, TYPE_COLLECTIVE = 7 };
enum {
    COLLECTIVE_ALL_REDUCE = 0,
    COLLECTIVE_ALL_GATHER = 2,
    COLLECTIVE_BROADCAST = 5,
    COLLECTIVE_ALL_TO_ALL = 6,
    COLLECTIVE_REDUCE_SCATTER = 7,
    COLLECTIVE_BARRIER = 9,
};

/* A file while it is made. */
struct sheet {
    const struct cadre_chakra_step *step;
    const int *id; /* (n_groups) of each in the files */
    int ids; /* that there are */
    double origin_s; /* time 0 of all files: the first begin of any rank */
    int rank;
    struct cadre_text file, node, attr, deps;
};

/* ---- messages ---- */

/* The attribute that `attr` has a value of is the message's. */
static void end_attr(struct sheet *sheet, struct cadre_text *message, unsigned field)
{
    cadre_protobuf_put_message(message, field, &sheet->attr);
}

static struct cadre_text *begin_attr(struct sheet *sheet, const char *name)
{
    cadre_text_reset(&sheet->attr);
    cadre_protobuf_put_string(&sheet->attr, ATTR_NAME, name);
    return &sheet->attr;
}

static void put_number(struct sheet *sheet, const char *name, unsigned type,
                       int64_t value)
{
    cadre_protobuf_put_i64(begin_attr(sheet, name), type, value);
    end_attr(sheet, &sheet->node, NODE_ATTR);
}

static void put_string(struct sheet *sheet, const char *name, const char *value)
{
    cadre_protobuf_put_string(begin_attr(sheet, name), ATTR_STRING, value);
    end_attr(sheet, &sheet->node, NODE_ATTR);
}

/* The message that was made, behind its length. */
static void put_message(struct sheet *sheet)
{
    sheet->file.failed |= sheet->node.failed;
    cadre_protobuf_varint(&sheet->file, sheet->node.len);
    cadre_text_append(&sheet->file, cadre_text_str(&sheet->node), sheet->node.len);
    cadre_text_reset(&sheet->node);
}

static void put_metadata(struct sheet *sheet)
{
    const struct cadre_step_graph *graph = &sheet->step->graph[sheet->rank];
    struct cadre_text *meta = &sheet->node;
    const struct {
        const char *name, *value;
    } text[] = {{"producer", "cadre plan --simulate"},
                {"stack", sheet->step->stack},
                {"hardware", sheet->step->hardware}};
    cadre_text_reset(meta);
    cadre_protobuf_put_string(meta, META_VERSION, VERSION);
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++) {
        cadre_protobuf_put_string(begin_attr(sheet, text[i].name), ATTR_STRING,
                                  text[i].value);
        end_attr(sheet, meta, META_ATTR);
    }
    cadre_protobuf_put_u64(begin_attr(sheet, "simulated"), ATTR_BOOL, true);
    end_attr(sheet, meta, META_ATTR);
    cadre_protobuf_put_i64(begin_attr(sheet, "rank"), ATTR_I32, sheet->rank);
    end_attr(sheet, meta, META_ATTR);
    cadre_protobuf_put_i64(begin_attr(sheet, "ranks"), ATTR_I32, sheet->step->ranks);
    end_attr(sheet, meta, META_ATTR);
    cadre_protobuf_put_i64(begin_attr(sheet, "steps"), ATTR_I32, graph->steps);
    end_attr(sheet, meta, META_ATTR);
    cadre_protobuf_put_f64(begin_attr(sheet, "seconds"), ATTR_F64,
                           graph->end_s - graph->begin_s);
    end_attr(sheet, meta, META_ATTR);
    put_message(sheet);
}

/* ---- nodes ---- */

/* Moments are rounded, not durations: what follows without a gap does so in the file.
 */
static uint64_t us(const struct sheet *sheet, double s)
{
    const double since = 1e6 * (s - sheet->origin_s);
    return since > 0 ? (uint64_t)llround(since) : 0;
}

static void put_head(struct sheet *sheet, uint64_t id, const char *name, int type,
                     double begin_s, double end_s)
{
    struct cadre_text *node = &sheet->node;
    const uint64_t begin = us(sheet, begin_s), end = us(sheet, end_s);
    cadre_protobuf_put_u64(node, NODE_ID, id);
    cadre_protobuf_put_string(node, NODE_NAME, name);
    cadre_protobuf_put_u64(node, NODE_TYPE, (uint64_t)type);
    if (sheet->deps.len > 0)
        cadre_protobuf_put_message(node, NODE_DATA_DEPS, &sheet->deps);
    cadre_protobuf_put_u64(node, NODE_START_US, begin);
    cadre_protobuf_put_u64(node, NODE_DURATION_US, end - begin);
}

static int type_of(const struct cadre_step_node *node)
{
    if (node->kind != CADRE_STEP_COMM)
        return TYPE_COMPUTE;
    return node->op == CADRE_COMM_SEND   ? TYPE_SEND
           : node->op == CADRE_COMM_RECV ? TYPE_RECEIVE
                                         : TYPE_COLLECTIVE;
}

static int collective_of(enum cadre_comm_kind kind)
{
    switch (kind) {
    case CADRE_COMM_ALL_GATHER:
        return COLLECTIVE_ALL_GATHER;
    case CADRE_COMM_BROADCAST:
        return COLLECTIVE_BROADCAST;
    case CADRE_COMM_ALL_TO_ALL:
        return COLLECTIVE_ALL_TO_ALL;
    case CADRE_COMM_REDUCE_SCATTER:
        return COLLECTIVE_REDUCE_SCATTER;
    case CADRE_COMM_BARRIER:
        return COLLECTIVE_BARRIER;
    default:
        return COLLECTIVE_ALL_REDUCE;
    }
}

/* A roofline takes FLOPs over bytes, which is no number for what only moves bytes: one
 * operation makes it the time of those. */
static void put_work(struct sheet *sheet, const struct cadre_step_node *node)
{
    const bool host = node->kind == CADRE_STEP_IDLE;
    put_number(sheet, "is_cpu_op", ATTR_BOOL, host);
    if (host)
        return;
    put_number(sheet, "num_ops", ATTR_I64, llround(fmax(node->flops, 1)));
    put_number(sheet, "tensor_size", ATTR_U64, llround(node->bytes));
}

static void put_comm(struct sheet *sheet, const struct cadre_step_node *node)
{
    char name[16];
    const int type = type_of(node), id = sheet->id[node->group];
    const bool sends = type == TYPE_SEND;
    put_number(sheet, "is_cpu_op", ATTR_BOOL, false);
    put_number(sheet, "comm_size", ATTR_I64, (int64_t)node->size);
    put_number(sheet, "sent_bytes", ATTR_U64, (int64_t)node->sent);
    snprintf(name, sizeof name, "%d", id);
    if (id > 0)
        put_string(sheet, "pg_name", name);
    if (type != TYPE_COLLECTIVE) {
        put_number(sheet, "comm_src", ATTR_I32, sends ? sheet->rank : node->peer);
        put_number(sheet, "comm_dst", ATTR_I32, sends ? node->peer : sheet->rank);
        put_number(sheet, "comm_tag", ATTR_I32,
                   (int64_t)(node->ordinal * (uint64_t)sheet->ids + (uint64_t)id) &
                       INT32_MAX);
        return;
    }
    put_number(sheet, "comm_type", ATTR_I64, collective_of(node->op));
    if (node->op == CADRE_COMM_BROADCAST)
        put_number(sheet, "comm_src", ATTR_I32, node->peer);
}

/* Ids are those of the graph + 1; 0 is what a rank whose step begins later than that of
 * others does before. */
static void put_node(struct sheet *sheet, size_t i)
{
    const struct cadre_step_graph *graph = &sheet->step->graph[sheet->rank];
    const struct cadre_step_node *node = &graph->node[i];
    cadre_text_reset(&sheet->deps);
    for (size_t d = 0; d < node->n_deps; d++)
        cadre_protobuf_varint(&sheet->deps, graph->dep[node->dep + d] + 1);
    if (node->n_deps == 0 && us(sheet, graph->begin_s) > 0)
        cadre_protobuf_varint(&sheet->deps, 0);
    sheet->node.failed |= sheet->deps.failed;
    put_head(sheet, i + 1, node->name, type_of(node), node->begin_s, node->end_s);
    if (node->kind == CADRE_STEP_COMM)
        put_comm(sheet, node);
    else
        put_work(sheet, node);
    put_message(sheet);
}

static void put_begin(struct sheet *sheet)
{
    const struct cadre_step_graph *graph = &sheet->step->graph[sheet->rank];
    if (us(sheet, graph->begin_s) == 0)
        return;
    cadre_text_reset(&sheet->deps);
    put_head(sheet, 0, "before the step", TYPE_COMPUTE, sheet->origin_s,
             graph->begin_s);
    put_number(sheet, "is_cpu_op", ATTR_BOOL, true);
    put_message(sheet);
}

/* ---- files ---- */

/* step.N.et */
static bool is_ours(const char *name)
{
    size_t digits;
    if (strncmp(name, "step.", 5) != 0)
        return strcmp(name, GROUPS) == 0;
    digits = strspn(name + 5, "0123456789");
    return digits > 0 && strcmp(name + 5 + digits, ".et") == 0;
}

/* A simulator would take files of a step with more ranks for this one's. */
static cadre_status remove_files(const char *path, struct cadre_error *err)
{
    DIR *dir = opendir(path);
    cadre_status rc = CADRE_OK;
    struct dirent *entry;
    if (!dir)
        return cadre_fail_errno(err, CADRE_E_IO, errno, "cannot read '%s'", path);
    while (rc == CADRE_OK && (entry = readdir(dir)))
        if (is_ours(entry->d_name) && unlinkat(dirfd(dir), entry->d_name, 0) != 0)
            rc = cadre_fail_errno(err, CADRE_E_IO, errno, "cannot remove '%s/%s'", path,
                                  entry->d_name);
    closedir(dir);
    return rc;
}

static cadre_status write_file(const char *dir, const char *name,
                               const struct cadre_text *text, struct cadre_error *err)
{
    char *path = text->failed ? NULL : cadre_path_join(dir, name);
    cadre_status rc = path
                          ? cadre_path_write_file(path, text->data, text->len, err)
                          : cadre_no_memory(err, "the Chakra trace '%s/%s'", dir, name);
    free(path);
    return rc;
}

static cadre_status write_rank(struct sheet *sheet, const char *dir,
                               struct cadre_error *err)
{
    char name[32];
    const struct cadre_step_graph *graph = &sheet->step->graph[sheet->rank];
    cadre_text_reset(&sheet->file);
    put_metadata(sheet);
    put_begin(sheet);
    for (size_t i = 0; i < graph->n; i++)
        put_node(sheet, i);
    sheet->file.failed |= graph->failed;
    snprintf(name, sizeof name, "step.%d.et", sheet->rank);
    return write_file(dir, name, &sheet->file, err);
}

/* The group of all ranks has no name: readers differ in what they take for one. */
static cadre_status write_groups(struct sheet *sheet, const char *dir,
                                 struct cadre_error *err)
{
    struct cadre_text *out = &sheet->file;
    bool any = false;
    cadre_text_reset(out);
    cadre_text_printf(out, "{");
    for (int g = 1; g < sheet->step->n_groups; g++) {
        const struct cadre_step_group *group = &sheet->step->group[g];
        if (sheet->id[g] == 0)
            continue;
        cadre_text_printf(out, "%s\n  \"%d\": [", any ? "," : "", sheet->id[g]);
        for (int m = 0; m < group->size; m++)
            cadre_text_printf(out, m ? ", %d" : "%d", group->rank[m]);
        cadre_text_printf(out, "]");
        any = true;
    }
    cadre_text_printf(out, any ? "\n}\n" : "}\n");
    return write_file(dir, GROUPS, out, err);
}

/* ---- the step ---- */

/* Groups that the step uses, from 1 on in the order of their numbers. */
static void number_groups(struct sheet *sheet, int *id)
{
    const struct cadre_chakra_step *step = sheet->step;
    sheet->id = id;
    sheet->ids = 1;
    for (int r = 0; r < step->ranks; r++)
        for (size_t i = 0; i < step->graph[r].n; i++)
            if (step->graph[r].node[i].kind == CADRE_STEP_COMM)
                id[step->graph[r].node[i].group] = 1;
    id[0] = 0;
    for (int g = 1; g < step->n_groups; g++)
        if (id[g] > 0)
            id[g] = sheet->ids++;
}

cadre_status cadre_chakra_write(const struct cadre_chakra_step *step, const char *dir,
                                struct cadre_error *err)
{
    struct sheet sheet = {.step = step, .origin_s = step->graph[0].begin_s};
    int *id = cadre_calloc((size_t)step->n_groups + 1, sizeof *id);
    cadre_status rc;
    if (!id)
        return cadre_no_memory(err, "a Chakra trace");
    number_groups(&sheet, id);
    for (int r = 1; r < step->ranks; r++)
        sheet.origin_s = fmin(sheet.origin_s, step->graph[r].begin_s);
    CADRE_TRY_OR(cadre_path_make_dirs(dir, err), out);
    CADRE_TRY_OR(remove_files(dir, err), out);
    for (; sheet.rank < step->ranks && rc == CADRE_OK; sheet.rank++)
        rc = write_rank(&sheet, dir, err);
    if (rc == CADRE_OK)
        rc = write_groups(&sheet, dir, err);
    if (rc != CADRE_OK)
        remove_files(dir, NULL);
out:
    cadre_text_fini(&sheet.file);
    cadre_text_fini(&sheet.node);
    cadre_text_fini(&sheet.attr);
    cadre_text_fini(&sheet.deps);
    free(id);
    return rc;
}
