/* SPDX-License-Identifier: Apache-2.0 */
#include "core/export/openmetrics.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/memory.h"

/* A label's value; the format escapes three characters. */
static void put_label(struct cadre_text *out, const char *name, const char *value)
{
    cadre_text_printf(out, "%s=\"", name);
    for (; *value; value++) {
        if (*value == '\n')
            cadre_text_append(out, "\\n", 2);
        else
            cadre_text_printf(out, *value == '"' || *value == '\\' ? "\\%c" : "%c",
                              *value);
    }
    cadre_text_append(out, "\"", 1);
}

/* A metric: its name without the suffix of a counter. */
struct metric {
    const char *name, *type, *unit, *help;
    double value;
};

static void put_metric(struct cadre_text *out, const char *run,
                       const struct metric *metric)
{
    if (!isfinite(metric->value))
        return;
    cadre_text_printf(out, "# TYPE %s %s\n", metric->name, metric->type);
    if (*metric->unit)
        cadre_text_printf(out, "# UNIT %s %s\n", metric->name, metric->unit);
    cadre_text_printf(out, "# HELP %s %s\n%s%s{", metric->name, metric->help,
                      metric->name, *metric->type == 'c' ? "_total" : "");
    put_label(out, "run", run);
    cadre_text_printf(out, "} %.17g\n", metric->value);
}

static void put_text(struct cadre_text *out, const struct cadre_openmetrics *run)
{
    const struct metric metrics[] = {
        {"cadre_steps", "counter", "", "Optimizer steps of the run.",
         (double)run->step},
        {"cadre_tokens", "counter", "", "Tokens that the run has trained on.",
         (double)run->tokens},
        {"cadre_training_seconds", "counter", "seconds",
         "Time of the steps of this process.", run->training_s},
        {"cadre_step_seconds", "gauge", "seconds", "Time of the last step.",
         run->step_s},
        {"cadre_tokens_per_second", "gauge", "",
         "Tokens of the last step over its time.", run->tokens_per_s},
        {"cadre_loss", "gauge", "", "Training loss of the last step in nats.",
         run->loss},
        {"cadre_validation_loss", "gauge", "",
         "Validation loss of the last evaluation in nats.", run->valid_loss},
        {"cadre_gradient_norm", "gauge", "",
         "Norm of the last step's gradient before clipping.", run->grad_norm},
        {"cadre_learning_rate", "gauge", "", "Learning rate of the last step.",
         run->lr},
        {"cadre_rank_peak_memory_bytes", "gauge", "bytes",
         "Most memory that rank 0 has allocated.", run->ledger_peak_bytes},
        {"cadre_resident_memory_bytes", "gauge", "bytes", "Memory of rank 0's process.",
         run->resident_bytes},
        {"cadre_last_step_timestamp_seconds", "gauge", "seconds",
         "When the last step ended, in seconds since 1970.", run->step_unix_s},
    };
    cadre_text_printf(out, "# TYPE cadre_run info\n"
                           "# HELP cadre_run What is trained, and on what.\n"
                           "cadre_run_info{");
    put_label(out, "run", run->run);
    cadre_text_append(out, ",", 1);
    put_label(out, "stack", run->stack);
    cadre_text_append(out, ",", 1);
    put_label(out, "device", run->device);
    cadre_text_printf(out, ",ranks=\"%d\"} 1\n", run->ranks);
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++)
        put_metric(out, run->run, &metrics[i]);
    cadre_text_printf(out, "# EOF\n");
}

cadre_status cadre_openmetrics_write(const char *path,
                                     const struct cadre_openmetrics *run,
                                     struct cadre_error *err)
{
    struct cadre_text text = {0};
    char *draft = cadre_format("%s.%ld.new", path, (long)getpid());
    put_text(&text, run);
    if (!draft || text.failed) {
        free(draft);
        cadre_text_fini(&text);
        return cadre_no_memory(err, "'%s'", path);
    }
    FILE *file = fopen(draft, "we");
    bool ok = file && fwrite(text.data, 1, text.len, file) == text.len;
    if (file && fclose(file) != 0)
        ok = false;
    ok = ok && rename(draft, path) == 0;
    cadre_status rc =
        ok ? CADRE_OK
           : cadre_fail_errno(err, CADRE_E_IO, errno, "cannot write '%s'", path);
    if (!ok && file)
        unlink(draft);
    free(draft);
    cadre_text_fini(&text);
    return rc;
}
