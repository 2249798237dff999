/* SPDX-License-Identifier: Apache-2.0 */
#include "core/export/kineto.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/path.h"
#include "core/run/gather.h"

enum { THREAD = 1, COMPUTE = 7, FIRST_STREAM = 20, DEPTH = 32 };

/* A file while it is made. */
struct sheet {
    const struct cadre_trace_record *record;
    struct cadre_text *out;
    uint64_t correlation; /* of the last kernel */
};

static int64_t us(const struct sheet *sheet, double s)
{
    return llround(cadre_trace_record_us(sheet->record, s));
}

/* Up to its arguments, which the caller ends with "}}". `tid`: the thread, or a stream.
 */
static void open_event(struct sheet *sheet, const char *kind, const char *name, int pid,
                       int tid, int64_t begin, int64_t end)
{
    cadre_text_printf(sheet->out, ",\n{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"", kind);
    cadre_trace_put_name(sheet->out, name);
    cadre_text_printf(sheet->out,
                      "\",\"pid\":%d,\"tid\":%d,\"ts\":%" PRId64 ",\"dur\":%" PRId64
                      ",\"args\":{",
                      pid, tid, begin, end - begin);
}

/* The launch of a kernel at `posted`, and the kernel up to further arguments, which the
 * caller ends with "}}". */
static void open_kernel(struct sheet *sheet, const char *name, int stream,
                        int64_t posted, int64_t begin, int64_t end)
{
    uint64_t number = ++sheet->correlation;
    open_event(sheet, "cuda_runtime", "cudaLaunchKernel", THREAD, THREAD, posted,
               posted);
    cadre_text_printf(sheet->out,
                      "\"External id\":%" PRIu64 ",\"correlation\":%" PRIu64 "}}",
                      number, number);
    open_event(sheet, "kernel", name, 0, stream, begin, end);
    cadre_text_printf(sheet->out,
                      "\"External id\":%" PRIu64 ",\"device\":0,\"context\":1,"
                      "\"stream\":%d,\"correlation\":%" PRIu64,
                      number, stream, number);
}

/* ---- the rank's thread ---- */

static int by_nesting(const void *a, const void *b)
{
    const struct cadre_span *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end > y->end ? -1 : x->end < y->end;
}

/* What the thread did from `begin` to `end`; span NULL: the step's own. */
static void put_work(struct sheet *sheet, const struct cadre_span *span, double begin,
                     double end)
{
    char name[CADRE_TRACE_NAME] = "step";
    int64_t from = us(sheet, begin), to = us(sheet, end);
    if (to <= from || (span && span->kind == CADRE_SPAN_WAIT))
        return;
    if (span)
        cadre_trace_span_name(sheet->record->rank, span, name);
    open_kernel(sheet, name, COMPUTE, from, from, to);
    cadre_text_printf(sheet->out, "}}");
}

/* The innermost span of every moment of a step; spans (n) by nesting. */
static void put_stream(struct sheet *sheet, const struct cadre_trace_step *step,
                       const struct cadre_span *span, size_t n)
{
    const struct cadre_span *open[DEPTH] = {NULL};
    double at = step->begin;
    int depth = 0;
    for (size_t i = 0; i <= n; i++) {
        double next = i < n ? span[i].begin : step->end;
        for (; depth > 0 && open[depth - 1]->end <= next; depth--) {
            put_work(sheet, open[depth - 1], at, open[depth - 1]->end);
            at = fmax(at, open[depth - 1]->end);
        }
        put_work(sheet, depth > 0 ? open[depth - 1] : NULL, at, next);
        at = fmax(at, next);
        if (i < n && depth < DEPTH)
            open[depth++] = &span[i];
    }
}

/* The thread writes metrics then, and does not wait. Waits of an evaluation or a
 * checkpoint are not recorded, so such a time stays empty. */
static void put_between(struct sheet *sheet, const struct cadre_trace_step *step,
                        const struct cadre_trace_step *next)
{
    static const struct cadre_span work = {.kind = CADRE_SPAN_WORK,
                                           .name = "between steps"};
    const struct cadre_trace_record *record = sheet->record;
    for (size_t i = 0; i < record->n_others; i++)
        if (record->other[i].step == step->step)
            return;
    put_work(sheet, &work, step->end, next->begin);
}

static void put_thread(struct sheet *sheet, const struct cadre_trace_step *step,
                       const struct cadre_span *span, size_t n)
{
    char name[CADRE_TRACE_NAME];
    snprintf(name, sizeof name, "ProfilerStep#%" PRId64, step->step);
    open_event(sheet, "user_annotation", name, THREAD, THREAD, us(sheet, step->begin),
               us(sheet, step->end));
    if (isfinite(step->comm_s))
        cadre_text_printf(sheet->out, "\"comm_s\":%.9g,\"comm_exposed_s\":%.9g,",
                          step->comm_s, step->comm_exposed_s);
    cadre_text_printf(sheet->out,
                      "\"spans_lost\":%" PRIu64 ",\"operations_lost\":%" PRIu64 "}}",
                      step->spans_lost, step->ops_lost);
    for (size_t i = 0; i < n; i++) {
        open_event(sheet,
                   span[i].kind < CADRE_SPAN_PASSES ? "user_annotation" : "cpu_op",
                   cadre_trace_span_name(sheet->record->rank, &span[i], name), THREAD,
                   THREAD, us(sheet, span[i].begin), us(sheet, span[i].end));
        cadre_text_printf(sheet->out, "}}");
    }
}

/* ---- communicators ---- */

/* A communicator of the rank. */
struct group {
    const char *name;
    int number; /* from 0: the world, then the axes */
    const struct cadre_axis *axis; /* NULL: the world, or not known */
};

static struct group find_group(const struct cadre_rank *rank,
                               const struct cadre_comm *comm)
{
    const struct cadre_mesh *mesh = &rank->mesh;
    if (comm == rank->world)
        return (struct group){.name = "world"};
    for (int a = 0; a < mesh->n + mesh->n_derived; a++) {
        const struct cadre_axis *axis =
            a < mesh->n ? &mesh->axis[a] : &mesh->derived[a - mesh->n];
        if (axis->comm == comm)
            return (struct group){axis->name, a + 1, axis};
    }
    return (struct group){.name = "other", .number = mesh->n + mesh->n_derived + 1};
}

/* The ranks of a group, where they are known. */
static void put_ranks(struct sheet *sheet, const struct group *group, int size)
{
    const struct cadre_rank *rank = sheet->record->rank;
    if (!group->axis && group->number > 0)
        return;
    cadre_text_printf(sheet->out, ",\"Process Group Ranks\":\"[");
    for (int r = 0; r < size; r++)
        cadre_text_printf(
            sheet->out, r ? ", %d" : "%d",
            group->axis ? cadre_mesh_rank_along(&rank->mesh, group->axis, r) : r);
    cadre_text_printf(sheet->out, "]\"");
}

/* NCCL's kernel and PyTorch's name of an operation. */
static const char *const names[][3] = {
    {"all_reduce", "ncclKernel_AllReduce", "allreduce"},
    {"reduce_scatter", "ncclKernel_ReduceScatter", "_reduce_scatter_base"},
    {"all_gather", "ncclKernel_AllGather", "_allgather_base"},
    {"broadcast", "ncclKernel_Broadcast", "broadcast"},
    {"all_to_all", "ncclKernel_SendRecv", "all_to_all"},
    {"barrier", "ncclKernel_AllReduce_barrier", "barrier"},
    {"send", "ncclKernel_SendRecv", "send"},
    {"recv", "ncclKernel_SendRecv", "recv"},
};

static const char *dtype_of(uint32_t dtype)
{
    return dtype == CADRE_F32    ? "Float"
           : dtype == CADRE_F64  ? "Double"
           : dtype == CADRE_BF16 ? "BFloat16"
           : dtype == CADRE_F16  ? "Half"
           : dtype == CADRE_I32  ? "Int"
                                 : "Byte";
}

static void put_op(struct sheet *sheet, const struct cadre_trace_op *op)
{
    struct group group = find_group(sheet->record->rank, op->comm);
    size_t i = 0, n = sizeof names / sizeof *names;
    while (i < n && strcmp(names[i][0], op->kind) != 0)
        i++;
    if (i == n) /* a split moves nothing */
        return;
    int messages = strcmp(op->kind, "send") == 0 || strcmp(op->kind, "recv") == 0;
    open_kernel(sheet, names[i][1], FIRST_STREAM + 2 * group.number + messages,
                us(sheet, op->posted_s), us(sheet, op->began_s),
                us(sheet, op->ended_s));
    cadre_text_printf(sheet->out,
                      ",\"Collective name\":\"%s\",\"In msg nelems\":%" PRIu64
                      ",\"Out msg nelems\":%" PRIu64 ",\"Group size\":%d,"
                      "\"dtype\":\"%s\",\"Seq\":%" PRIu64 ",\"bytes\":%" PRIu64
                      ",\"Process Group Name\":\"",
                      names[i][2], op->in_count, op->out_count, op->comm->size,
                      dtype_of(op->dtype), op->sequence, op->bytes);
    cadre_trace_put_name(sheet->out, group.name);
    cadre_text_printf(sheet->out, "\"");
    put_ranks(sheet, &group, op->comm->size);
    cadre_text_printf(sheet->out, ",\"label\":\"");
    cadre_trace_put_name(sheet->out, op->label);
    cadre_text_printf(sheet->out, "\"}}");
}

/* ---- the file ---- */

/* Did it run outside of the steps, as those of an evaluation do? */
static bool outside(const struct cadre_trace_step *step,
                    const struct cadre_trace_op *op)
{
    return op->ended_s <= step->begin;
}

static void put_step(struct sheet *sheet, const struct cadre_trace_step *step)
{
    struct cadre_span *span = sheet->record->span + step->span;
    if (step->n_spans > 0)
        qsort(span, step->n_spans, sizeof *span, by_nesting);
    put_thread(sheet, step, span, step->n_spans);
    put_stream(sheet, step, span, step->n_spans);
    for (size_t i = 0; i < step->n_ops; i++)
        if (!outside(step, &sheet->record->op[step->op + i]))
            put_op(sheet, &sheet->record->op[step->op + i]);
}

/* Readers look for `"rank": N`, with the blank, and take the first. */
static void put_head(const struct cadre_trace_record *record, struct cadre_text *out)
{
    const struct cadre_rank *rank = record->rank;
    cadre_text_printf(out,
                      "{\"schemaVersion\": 1,\n"
                      "\"deviceProperties\": [{\"id\": 0, \"name\": \"%s\"}],\n"
                      "\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": %d, "
                      "\"world_size\": %d},\n"
                      "\"displayTimeUnit\": \"ms\", \"baseTimeNanoseconds\": %.0f,\n"
                      "\"traceName\": \"rank-%d.json\",\n\"traceEvents\": [\n",
                      rank->device->ops->name, rank->index, rank->mesh.ranks,
                      1e9 * record->origin_unix_s, rank->index);
    cadre_text_printf(out,
                      "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"tid\":0,"
                      "\"ts\":0,\"args\":{\"name\":\"cadre\"}},\n"
                      "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":0,\"tid\":0,"
                      "\"ts\":0,\"args\":{\"labels\":\"rank %d\"}}",
                      THREAD, rank->index);
}

/* Where the files of all ranks go; on rank 0. */
struct folder {
    const char *path;
    cadre_status rc;
    struct cadre_error *err;
};

static void write_file(void *arg, int from, const char *text, size_t bytes)
{
    struct folder *folder = arg;
    char name[32];
    snprintf(name, sizeof name, "rank-%d.json", from);
    char *path = cadre_path_join(folder->path, name);
    if (folder->rc == CADRE_OK && !path)
        folder->rc = cadre_no_memory(folder->err, "%s", name);
    if (folder->rc == CADRE_OK)
        folder->rc = cadre_path_write_file(path, text, bytes, folder->err);
    free(path);
}

/* Files of a run with more ranks would be read with these. */
static cadre_status empty_folder(const char *path, struct cadre_error *err)
{
    CADRE_TRY(cadre_path_make_dirs(path, err));
    DIR *dir = opendir(path);
    if (!dir)
        return cadre_fail_errno(err, CADRE_E_IO, errno, "cannot read '%s'", path);
    cadre_status rc = CADRE_OK;
    struct dirent *entry;
    while (rc == CADRE_OK && (entry = readdir(dir))) {
        const char *dot = strrchr(entry->d_name, '.');
        if (strncmp(entry->d_name, "rank-", 5) != 0 || !dot ||
            strcmp(dot, ".json") != 0)
            continue;
        if (unlinkat(dirfd(dir), entry->d_name, 0) != 0)
            rc = cadre_fail_errno(err, CADRE_E_IO, errno, "cannot remove '%s/%s'", path,
                                  entry->d_name);
    }
    closedir(dir);
    return rc;
}

cadre_status cadre_kineto_write(const struct cadre_trace_record *record,
                                struct cadre_rank *rank, const char *dir,
                                struct cadre_error *err)
{
    struct cadre_text mine = {0};
    struct sheet sheet = {.record = record, .out = &mine};
    char *path = cadre_path_join(dir, "trace");
    struct folder folder = {.path = path, .err = err};
    if (!path)
        return cadre_no_memory(err, "a path");
    put_head(record, &mine);
    for (size_t i = 0; i < record->n_steps; i++) {
        put_step(&sheet, &record->step[i]);
        if (i + 1 < record->n_steps)
            put_between(&sheet, &record->step[i], &record->step[i + 1]);
    }
    cadre_text_printf(&mine, "\n]}\n");
    if (rank->index == 0)
        folder.rc = empty_folder(path, err);
    cadre_status rc =
        cadre_gather_each(rank, "traces", &mine, write_file, &folder, err);
    cadre_text_fini(&mine);
    free(path);
    return rc == CADRE_OK ? folder.rc : rc;
}
