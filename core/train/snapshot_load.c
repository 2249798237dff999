/* SPDX-License-Identifier: Apache-2.0 */
/* Loading snapshots, and finding the one to resume from. */
#include "core/train/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/hf.h"
#include "core/train/snapshot_parts.h"
#include "core/train/states.h"
#include "core/tensor/dtype.h"

/* Where values come from: a checkpoint part, or a Hugging Face folder. */
struct source {
    struct cadre_checkpoint *checkpoint;
    enum cadre_checkpoint_part part;
    const struct cadre_hf *hf;
    struct cadre_arena *staging;
};

static cadre_status read_run(const struct cadre_rank *rank, const struct source *from,
                             const char *name, uint64_t at, uint64_t n, void *to,
                             struct cadre_error *err)
{
    uint32_t dtype = rank->store.wide;
    if (from->hf)
        return cadre_hf_read(from->hf, name, at, n, dtype, to, err);
    return cadre_checkpoint_read(from->checkpoint, from->part, name, at, n, dtype, to,
                                 err);
}

/* To `to`, device memory; NULL: as new values of the parameter. */
static cadre_status read_range(struct cadre_rank *rank, const struct source *from,
                               uint32_t param, const struct cadre_share *share,
                               void *to, struct cadre_error *err)
{
    const char *name = rank->model->params[param].name;
    size_t bytes = share->count * rank->store.wide_bytes;
    size_t mark = cadre_arena_mark(from->staging);
    char *host = cadre_arena_alloc(from->staging, bytes);
    cadre_status rc = CADRE_OK;
    for (uint64_t done = 0, n, at; rc == CADRE_OK && done < share->count; done += n) {
        n = cadre_snapshot_run(rank->model, param, share->begin + done,
                               share->count - done, &at);
        rc = read_run(rank, from, name, at, n, host + done * rank->store.wide_bytes,
                      err);
    }
    if (rc == CADRE_OK && !to)
        rc = cadre_store_put(&rank->store, param, host);
    else if (rc == CADRE_OK)
        rc = rank->device->ops->to_device(rank->device, to, host, bytes);
    cadre_arena_release(from->staging, mark);
    return rc;
}

static cadre_status read_params(struct cadre_rank *rank, const struct source *from,
                                struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    for (uint32_t i = 0; rc == CADRE_OK && i < rank->model->n_params; i++) {
        struct cadre_share share = cadre_store_share(&rank->store, i, CADRE_KIND_PARAM);
        if (share.count)
            rc = read_range(rank, from, i, &share, NULL, err);
    }
    return rc;
}

static cadre_status read_states(struct cadre_rank *rank, const struct source *from,
                                struct cadre_error *err)
{
    int moments = cadre_snapshot_moments(rank->spec);
    struct source avg = *from, sq = *from;
    avg.part = CADRE_CHECKPOINT_EXP_AVG;
    sq.part = CADRE_CHECKPOINT_EXP_AVG_SQ;
    cadre_status rc = CADRE_OK;
    for (size_t s = 0; rc == CADRE_OK && s < rank->update.n_slices; s++) {
        const struct cadre_rank_slice *slice = &rank->update.slices[s];
        struct cadre_share own =
            cadre_store_share(&rank->store, slice->param, CADRE_KIND_OPT);
        if (moments > 0)
            rc = read_range(rank, &avg, slice->param, &own,
                            rank->store.param[slice->param].exp_avg, err);
        if (rc == CADRE_OK && moments > 1)
            rc = read_range(rank, &sq, slice->param, &own,
                            rank->store.param[slice->param].exp_avg_sq, err);
    }
    return rc;
}

/* The run must go on as the checkpoint's did: what the data cursor and the states rest
 * on has to be the same. */
static cadre_status check_state(const struct cadre_spec *spec,
                                const struct cadre_checkpoint *checkpoint,
                                const char *path, struct cadre_error *err)
{
    const struct cadre_checkpoint_state *state = cadre_checkpoint_state(checkpoint);
    const char *optimizer = cadre_checkpoint_value(checkpoint, "optimizer");
    const char *data = cadre_checkpoint_value(checkpoint, "data_fingerprint");
    const char *mine = cadre_options_str(spec->options, "optim.name");
    char hex[17];
    if (state->samples != state->step * (uint64_t)spec->run.global_batch)
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' stands at sample %llu after %llu steps, this run has "
                          "train.global_batch = %lld; use the one it was trained with",
                          path, (unsigned long long)state->samples,
                          (unsigned long long)state->step,
                          (long long)spec->run.global_batch);
    if (state->seed != spec->run.seed)
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' was trained with run.seed = %llu, this run has %llu; "
                          "use the same",
                          path, (unsigned long long)state->seed,
                          (unsigned long long)spec->run.seed);
    if (optimizer && strcmp(optimizer, mine) != 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' was trained with optim.name = %s, this run has %s; use "
                          "the same",
                          path, optimizer, mine);
    cadre_hash_hex(spec->data_info.fingerprint, hex);
    if (data && strcmp(data, hex) != 0)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "'%s' was trained on other data (data files or data.* options "
            "differ); use the same, or start anew from it with model.init",
            path);
    return CADRE_OK;
}

/* The checkpoint, once it is known to fit this rank's model and this run. */
static cadre_status open_fitting(const struct cadre_rank *rank,
                                 const struct cadre_spec *spec, const char *path,
                                 struct cadre_checkpoint **out, struct cadre_error *err)
{
    size_t n = 0;
    struct cadre_safetensors_spec *table = cadre_snapshot_table(rank->model, &n);
    if (!table)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory for the tensor table");
    cadre_status rc = cadre_checkpoint_open(path, out, err);
    if (rc == CADRE_OK)
        rc = cadre_checkpoint_check(*out, table, n, err);
    if (rc == CADRE_OK)
        rc = check_state(spec, *out, path, err);
    if (rc == CADRE_OK)
        rc = cadre_states_check(rank, *out, path, err);
    free(table);
    return rc;
}

/* The model folder, once it is known to fit this rank's model. */
static cadre_status open_folder(const struct cadre_rank *rank, const char *dir,
                                struct cadre_hf **out, struct cadre_error *err)
{
    size_t n = 0;
    struct cadre_safetensors_spec *table = cadre_snapshot_table(rank->model, &n);
    if (!table)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory for the tensor table");
    cadre_status rc = cadre_hf_open(dir, out, err);
    if (rc == CADRE_OK)
        rc = cadre_hf_check(*out, table, n, rank->model->config.tied, err);
    free(table);
    return rc;
}

cadre_status cadre_snapshot_check(const struct cadre_rank *rank,
                                  const struct cadre_spec *spec, const char *path,
                                  struct cadre_error *err)
{
    struct cadre_checkpoint *checkpoint = NULL;
    cadre_status rc = open_fitting(rank, spec, path, &checkpoint, err);
    if (rc == CADRE_OK)
        rc = cadre_checkpoint_verify(checkpoint, err);
    cadre_checkpoint_close(checkpoint);
    return rc;
}

/* A model folder that is a checkpoint carries checksums. */
static cadre_status verify_checksums(const char *dir, struct cadre_error *err)
{
    struct cadre_checkpoint *checkpoint = NULL;
    char *state = cadre_path_join(dir, "state.json");
    bool there = state && cadre_path_exists(state);
    free(state);
    if (!there)
        return CADRE_OK;
    cadre_status rc = cadre_checkpoint_open(dir, &checkpoint, err);
    if (rc == CADRE_OK)
        rc = cadre_checkpoint_verify(checkpoint, err);
    cadre_checkpoint_close(checkpoint);
    return rc;
}

cadre_status cadre_snapshot_check_init(const struct cadre_rank *rank, const char *dir,
                                       struct cadre_error *err)
{
    struct cadre_hf *hf = NULL;
    cadre_status rc = open_folder(rank, dir, &hf, err);
    if (rc == CADRE_OK)
        rc = verify_checksums(dir, err);
    cadre_hf_close(hf);
    return rc;
}

/* Goes on as it was; a run without losses scaled keeps the count of steps skipped. */
static cadre_status read_scale(struct cadre_rank *rank,
                               const struct cadre_checkpoint *checkpoint,
                               const char *path, struct cadre_error *err)
{
    const char *scale = cadre_checkpoint_value(checkpoint, "loss_scale");
    const char *good = cadre_checkpoint_value(checkpoint, "loss_scale_good");
    const char *skipped = cadre_checkpoint_value(checkpoint, "skipped");
    struct cadre_loss_scale kept = rank->loss_scale;
    uint64_t steps = cadre_checkpoint_state(checkpoint)->step;
    kept.skipped = skipped ? strtoull(skipped, NULL, 10) : 0;
    if (scale && good && rank->model->config.dtype == CADRE_F16) {
        kept.scale = strtod(scale, NULL);
        kept.good = strtoull(good, NULL, 10);
    }
    if (!cadre_loss_scale_valid(kept.scale) || kept.skipped > steps)
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s': loss_scale = %s after %s of %llu steps skipped, "
                          "expected a power of two from 1 to 2^32; state.json is not "
                          "what a run wrote",
                          path, scale ? scale : "-", skipped ? skipped : "0",
                          (unsigned long long)steps);
    rank->loss_scale = kept;
    return CADRE_OK;
}

/* What an exact run rests on beside its options. A checkpoint of before has none. */
static void compare_gemm(const struct cadre_rank *rank,
                         const struct cadre_checkpoint *checkpoint, const char *path)
{
    const char *before = cadre_checkpoint_value(checkpoint, "gemm");
    char now[CADRE_GEMM_CHARS];
    cadre_snapshot_gemm(&rank->tuning, now);
    if (rank->index == 0 && rank->spec->exact && before && strcmp(before, now) != 0)
        cadre_log(CADRE_LOG_WARN, "train",
                  "run.exact: '%s' was trained with %s, and goes on with %s: its bits "
                  "may be others than those of a run that never stopped",
                  path, before, now);
}

cadre_status cadre_snapshot_load(struct cadre_rank *rank, const struct cadre_spec *spec,
                                 const char *path, struct cadre_error *err)
{
    struct cadre_checkpoint *checkpoint = NULL;
    struct cadre_arena staging = {0};
    cadre_status rc;
    CADRE_TRY(open_fitting(rank, spec, path, &checkpoint, err));
    struct source from = {
        .checkpoint = checkpoint,
        .part = CADRE_CHECKPOINT_PARAM,
        .staging = &staging,
    };
    CADRE_TRY(read_scale(rank, checkpoint, path, err));
    CADRE_TRY(cadre_snapshot_staging(&staging, rank, err));
    CADRE_TRY(read_params(rank, &from, err));
    CADRE_TRY(read_states(rank, &from, err));
    CADRE_TRY(cadre_states_load(rank, checkpoint, path, err));
    compare_gemm(rank, checkpoint, path);
fail:
    cadre_arena_fini(&staging);
    cadre_checkpoint_close(checkpoint);
    return rc;
}

cadre_status cadre_snapshot_init(struct cadre_rank *rank, const char *dir,
                                 struct cadre_error *err)
{
    struct cadre_hf *hf = NULL;
    struct cadre_arena staging = {0};
    cadre_status rc;
    CADRE_TRY(open_folder(rank, dir, &hf, err));
    struct source from = {.hf = hf, .staging = &staging};
    CADRE_TRY(cadre_snapshot_staging(&staging, rank, err));
    CADRE_TRY(read_params(rank, &from, err));
fail:
    cadre_arena_fini(&staging);
    cadre_hf_close(hf);
    return rc;
}

static cadre_status steps_of(const char *path, int64_t *step, struct cadre_error *err)
{
    struct cadre_checkpoint *checkpoint = NULL;
    cadre_status rc = cadre_checkpoint_open(path, &checkpoint, err);
    if (rc == CADRE_OK)
        *step = (int64_t)cadre_checkpoint_state(checkpoint)->step;
    cadre_checkpoint_close(checkpoint);
    return rc;
}

/* The run's own newest checkpoint; *path is NULL where there is none. */
static cadre_status find_own(const struct cadre_spec *spec, char **path,
                             struct cadre_error *err)
{
    char *root = cadre_snapshot_root(spec);
    cadre_status rc = CADRE_OK;
    *path = NULL;
    if (root && cadre_path_is_dir(root))
        rc = cadre_checkpoint_find_latest(root, path, err);
    free(root);
    return rc;
}

cadre_status cadre_snapshot_find_own(const struct cadre_spec *spec, char **path,
                                     int64_t *step, struct cadre_error *err)
{
    cadre_status rc = find_own(spec, path, err);
    *step = 0;
    if (rc != CADRE_OK || !*path)
        return rc;
    rc = steps_of(*path, step, err);
    if (rc != CADRE_OK) {
        free(*path);
        *path = NULL;
    }
    return rc;
}

cadre_status cadre_snapshot_refuse_older(const struct cadre_spec *spec, int64_t step,
                                         struct cadre_error *err)
{
    char *own = NULL;
    int64_t newest = 0;
    cadre_status rc = cadre_snapshot_find_own(spec, &own, &newest, err);
    if (rc == CADRE_OK && newest > step)
        rc = cadre_fail(
            err, CADRE_E_INVALID,
            "'%s' is later than the %lld steps to resume from; go on with it "
            "by checkpoint.resume=auto, remove it, or choose another --out",
            own, (long long)step);
    free(own);
    return rc;
}

cadre_status cadre_snapshot_find(const struct cadre_spec *spec, char **path,
                                 int64_t *step, struct cadre_error *err)
{
    const char *resume = cadre_options_str(spec->options, "checkpoint.resume");
    cadre_status rc = CADRE_OK;
    *path = NULL;
    *step = 0;
    if (strcmp(resume, "no") == 0)
        return CADRE_OK;
    if (strcmp(resume, "auto") == 0) {
        rc = find_own(spec, path, err);
    } else if (cadre_path_is_dir(resume)) {
        *path = cadre_strdup(resume);
    } else {
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "checkpoint.resume: there is no folder '%s'; name one such as "
                        "runs/x/checkpoints/step-00000100, or say auto",
                        resume);
    }
    if (rc != CADRE_OK || !*path)
        return rc;
    rc = steps_of(*path, step, err);
    if (rc != CADRE_OK) {
        cadre_error_prefix(err, "checkpoint.resume");
        free(*path);
        *path = NULL;
    }
    return rc;
}
