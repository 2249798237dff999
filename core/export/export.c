/* SPDX-License-Identifier: Apache-2.0 */
#include "core/export/export.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/path.h"
#include "core/export/openmetrics.h"
#include "core/export/tfevents.h"

#define PAUSE_S 1.0 /* between looks at the process's memory, and texts */

struct cadre_export {
    const struct cadre_spec *spec;
    const struct cadre_rank *rank;
    struct cadre_tfevents *events; /* NULL: none */
    char *path; /* of the text; NULL: none */
    struct cadre_openmetrics now;
    double looked_s; /* 0: never */
    bool failed; /* to write the text, as was told */
};

/* The steps before the first are those of a run that continues: no figures yet. */
static struct cadre_openmetrics nothing_yet(const struct cadre_spec *spec,
                                            const struct cadre_rank *rank,
                                            int64_t first_step)
{
    return (struct cadre_openmetrics){
        .run = spec->name,
        .stack = spec->stack,
        .device = rank->device->ops->name,
        .ranks = spec->run.ranks,
        .step = first_step,
        .tokens = first_step * spec->run.global_batch * spec->run.time,
        .loss = NAN,
        .valid_loss = NAN,
        .grad_norm = NAN,
        .lr = NAN,
        .tokens_per_s = NAN,
        .step_s = NAN,
        .ledger_peak_bytes = (double)rank->ledger.peak_bytes,
        .resident_bytes = NAN,
        .step_unix_s = NAN,
    };
}

static cadre_status open_text(struct cadre_export *export, struct cadre_error *err)
{
    const char *path = export->spec->config.log.openmetrics;
    if (!*path)
        return CADRE_OK;
    export->path = cadre_path_join(export->spec->out, path);
    if (!export->path)
        return cadre_no_memory(err, "a path");
    cadre_status rc = cadre_openmetrics_write(export->path, &export->now, err);
    if (rc == CADRE_E_IO)
        cadre_error_prefix(err, "log.openmetrics");
    return cadre_error_of_input(rc, err);
}

cadre_status cadre_export_open(const struct cadre_spec *spec,
                               const struct cadre_rank *rank, int64_t first_step,
                               struct cadre_export **out, struct cadre_error *err)
{
    struct cadre_export *export = calloc(1, sizeof *export);
    cadre_status rc = CADRE_OK;
    if (!export)
        return cadre_no_memory(err, "the figures of steps");
    export->spec = spec;
    export->rank = rank;
    export->now = nothing_yet(spec, rank, first_step);
    if (spec->config.log.tensorboard)
        rc = cadre_tfevents_open(spec->out, first_step + 1, &export->events, err);
    if (rc == CADRE_OK)
        rc = open_text(export, err);
    if (rc == CADRE_OK) {
        *out = export;
        return CADRE_OK;
    }
    free(export->path);
    cadre_tfevents_close(export->events);
    free(export);
    return rc;
}

static void take(struct cadre_openmetrics *now, const struct cadre_spec *spec,
                 int64_t step, const struct cadre_step_report *report,
                 const struct cadre_valid_result *valid)
{
    double tokens = (double)(spec->run.global_batch * spec->run.time);
    now->step = step;
    now->tokens = step * spec->run.global_batch * spec->run.time;
    now->loss = report->loss;
    now->grad_norm = report->skipped ? NAN : report->grad_norm;
    now->lr = report->lr;
    now->step_s = report->times.step_s;
    now->tokens_per_s = tokens / report->times.step_s;
    now->training_s += report->times.step_s;
    now->step_unix_s = cadre_wall_clock_s();
    if (valid->has)
        now->valid_loss = valid->loss;
}

static void write_text(struct cadre_export *export)
{
    struct cadre_error why;
    if (!export->path || export->failed ||
        cadre_openmetrics_write(export->path, &export->now, &why) == CADRE_OK)
        return;
    export->failed = true;
    cadre_log(CADRE_LOG_WARN, "log", "%s; training continues without that file",
              why.text);
}

cadre_status cadre_export_step(struct cadre_export *export, int64_t step,
                               const struct cadre_step_report *report,
                               const struct cadre_valid_result *valid,
                               struct cadre_error *err)
{
    struct cadre_openmetrics *now = &export->now;
    if (!export->events && !export->path)
        return CADRE_OK;
    double s = cadre_now_s();
    bool look = export->looked_s == 0 || s - export->looked_s >= PAUSE_S;
    take(now, export->spec, step, report, valid);
    now->ledger_peak_bytes = (double)export->rank->ledger.peak_bytes;
    if (look) {
        uint64_t bytes;
        cadre_memory_resident(&bytes, NULL);
        now->resident_bytes = bytes > 0 ? (double)bytes : NAN;
        export->looked_s = s;
        write_text(export);
    }
    if (!export->events)
        return CADRE_OK;
    struct cadre_scalar scalars[8 + CADRE_PREFERENCE_FIGURES] = {
        {"loss", now->loss},
        {"grad_norm", now->grad_norm},
        {"lr", now->lr},
        {"tokens_per_s", now->tokens_per_s},
        {"step_s", now->step_s},
        {"valid_loss", valid->has ? valid->loss : NAN},
        {"peak_bytes", now->ledger_peak_bytes},
        {"resident_bytes", look ? now->resident_bytes : NAN},
    };
    size_t n = 8;
    for (int i = CADRE_PREFERENCE_LOSS + 1;
         export->spec->run.preference.on && i < CADRE_PREFERENCE_FIGURES; i++)
        scalars[n++] =
            (struct cadre_scalar){cadre_preference_name(i), report->preference[i]};
    return cadre_tfevents_step(export->events, step, scalars, n, err);
}

void cadre_export_close(struct cadre_export *export)
{
    if (!export)
        return;
    write_text(export);
    free(export->path);
    cadre_tfevents_close(export->events);
    free(export);
}
