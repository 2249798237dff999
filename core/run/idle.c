/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/idle.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/base/json_read.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/energy/powercap.h"
#include "core/run/bench.h"

static const char FILE_NAME[] = "idle.json";

static void wait_for(double seconds)
{
    const double whole = floor(seconds);
    const struct timespec time = {(time_t)whole, (long)(1e9 * (seconds - whole))};
    nanosleep(&time, NULL); /* a signal makes it shorter, and the clock is read */
}

static cadre_status write_file(const char *path, double seconds, double joules,
                               struct cadre_error *err)
{
    struct cadre_text text = {0};
    struct cadre_json json;
    cadre_json_init_text(&json, &text, true);
    cadre_json_begin_object(&json);
    cadre_json_put_head(&json, 1);
    cadre_json_put_f64(&json, "seconds", seconds);
    cadre_json_put_f64(&json, "package_j", joules);
    cadre_json_put_f64(&json, "package_w", joules / seconds);
    cadre_json_end_object(&json);
    cadre_status rc = cadre_json_finish(&json);
    if (rc == CADRE_OK)
        rc = cadre_path_write_file(path, cadre_text_str(&text), text.len, err);
    else
        rc = cadre_no_memory(err, "%s", FILE_NAME);
    cadre_text_fini(&text);
    return rc;
}

cadre_status cadre_idle_measure(const struct cadre_spec *spec, bool external,
                                struct cadre_error *err)
{
    const double wanted = spec->config.energy.idle;
    struct cadre_powercap counters;
    cadre_status rc = CADRE_OK;
    char *path = cadre_path_join(spec->out, FILE_NAME);
    if (!path)
        return cadre_no_memory(err, "a path");
    if (unlink(path) != 0 && errno != ENOENT)
        rc = cadre_fail_errno(err, CADRE_E_IO, errno, "cannot remove '%s'", path);
    if (rc == CADRE_OK && !external && wanted > 0 &&
        !cadre_bench_wanted(&spec->config.bench)) {
        const double begin = cadre_now_s();
        cadre_powercap_open(&counters, NULL, begin);
        if (counters.n > 0) {
            wait_for(wanted);
            const double end = cadre_now_s();
            const double joules = cadre_powercap_read(&counters, end);
            if (joules > 0)
                rc = write_file(path, end - begin, joules, err);
        }
    }
    free(path);
    return rc;
}

double cadre_idle_read(const char *dir)
{
    json_t *root;
    cadre_json_try_file(dir, FILE_NAME, &root, NULL);
    const json_t *value = json_object_get(root, "package_w");
    const double watts = json_is_number(value) ? json_number_value(value) : NAN;
    json_decref(root);
    return watts;
}
