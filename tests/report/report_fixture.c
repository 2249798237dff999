/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/report/report_fixture.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/memory.h"
#include "tests/support/check_main.h"

static void put(const char *dir, const char *name, struct cadre_text *text)
{
    test_file_put(dir, name, cadre_text_str(text), text->len);
    cadre_text_fini(text);
}

static void put_config(const char *dir, const struct report_run *run)
{
    struct cadre_text text = {0};
    cadre_text_printf(&text,
                      "[run]\nname = %s\nout = %s\n[strategy]\nstack = ddp:2\n[data]\n"
                      "path = /data/%s\n[train]\nsteps = 6\n%s",
                      run->name, dir, run->name, run->config ? run->config : "");
    put(dir, "config.ini", &text);
}

static void put_summary(const char *dir, const struct report_run *run, int steps)
{
    struct cadre_text text = {0};
    cadre_text_printf(
        &text,
        "{\"name\": \"%s\", \"ranks\": 2, \"device\": \"cpu\", \"first_step\": 1, "
        "\"steps\": %d, \"tokens\": %d, \"time_s\": 3.5, \"tokens_per_s\": 640, "
        "\"peak_bytes\": [1048576, 2097152], \"memory\": {\"parameters\": [1048576, "
        "1000000], \"<activations>\": [0, 1048576]}, \"params\": 1234, "
        "\"mfu\": 0.25, \"energy\": {\"j_per_token\": 0.5, "
        "\"j_per_step\": 8, \"idle_w\": 12, \"scope\": \"package-0\"}, "
        "\"price\": {\"per_million_tokens\": 2}, "
        "\"data_fingerprint\": \"%s\", \"machine\": {\"hosts\": [\"%s\"], \"cpu\": "
        "\"A CPU\", \"cores\": 2}",
        run->name, steps, 64 * steps, run->fingerprint ? run->fingerprint : "f",
        run->host ? run->host : "here");
    if (run->build)
        cadre_text_printf(&text, ", \"build\": \"%s\"", run->build);
    cadre_text_printf(&text, "}\n");
    put(dir, "summary.json", &text);
}

static void put_metrics(const char *dir, const struct report_run *run, int steps)
{
    struct cadre_text text = {0};
    for (int k = 1; k <= steps; k++) {
        double step_s = (run->step_s > 0 ? run->step_s : 0.1) * (k <= 2 ? 10 : 1);
        cadre_text_printf(&text,
                          "{\"step\": %d, \"loss\": %.17g, \"grad_norm\": %d, \"lr\": "
                          "1e-3, \"step_s\": %.17g, \"tokens_per_s\": %.17g",
                          k, run->loss + 1.0 / k, k, step_s, 64 / step_s);
        if (!run->old)
            cadre_text_printf(
                &text, ", \"wait_data_s\": 0.01, \"wait_ranks_s\": 0, "
                       "\"bubble_s\": 0, \"optim_s\": 0.02, \"optim_wait_s\": 0, "
                       "\"compute_s\": 0.05, \"comm_exposed_axis_s\": {\"dp\": "
                       "0.01}");
        if (k % 3 == 0)
            cadre_text_printf(&text, ", \"valid_loss\": %.17g",
                              run->loss + 1.0 / k + 0.5);
        cadre_text_printf(&text, "}\n");
    }
    put(dir, "metrics.jsonl", &text);
}

const char *report_run(const char *dir, const struct report_run *run)
{
    int steps = run->steps ? run->steps : 6;
    static char paths[8][512];
    static size_t next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", dir, run->name);
    ck_assert_int_eq(mkdir(path, 0777), 0);
    put_config(path, run);
    put_metrics(path, run, steps);
    if (!run->no_summary)
        put_summary(path, run, steps);
    return path;
}
