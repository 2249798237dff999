/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/verdict/certificate.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "config.h"
#include "core/base/hash.h"
#include "core/base/json_read.h"
#include "core/base/path.h"
#include "core/compare/verdict/judge.h"
#include "core/compare/verdict/machine.h"
#include "core/compare/verdict/seeds.h"

enum { FILE_LIMIT = 1 << 26 }; /* bytes of a certificate that is read */
static const char FORMAT[] = "cadre certificate 2";
enum { SCHEMA_VERSION = 2 };
/* Read too: its "digest" is called "seal". */
static const char FORMAT_1[] = "cadre certificate 1";

/* Where the hash of a state is kept. */
static const char *const state_keys[CADRE_STATES] = {"param_hash", "exp_avg_hash",
                                                     "exp_avg_sq_hash"};

/* ---- writing ---- */

static void put_hash(struct cadre_json *json, const char *key, uint64_t value)
{
    char hex[17];
    cadre_json_put_string(json, key, cadre_hash_hex(value, hex));
}

static void put_states(struct cadre_json *json, const struct cadre_state_diffs *diff)
{
    for (size_t s = 0; s < CADRE_STATES; s++)
        if (diff->of[s].elements > 0)
            put_hash(json, state_keys[s], diff->of[s].hash);
}

/* The processor is the run's own where its record has it; the libraries are this
 * program's. */
static void put_machine(struct cadre_json *json, const struct cadre_record *record)
{
    struct cadre_text libraries = {0};
    struct utsname system;
    char cpu[128];
    memset(&system, 0, sizeof system);
    uname(&system);
    cadre_machine_libraries(&libraries);
    cadre_json_key(json, "machine");
    cadre_json_begin_object(json);
    const char *recorded = cadre_record_cpu(record);
    cadre_json_put_string(json, "cpu",
                          recorded ? recorded : cadre_machine_cpu(cpu, sizeof cpu));
    cadre_json_put_string(json, "architecture", system.machine);
    cadre_json_put_string(json, "libraries", cadre_text_str(&libraries));
    cadre_json_put_string(json, "build", PACKAGE_STRING);
    cadre_json_end_object(json);
    cadre_text_fini(&libraries);
}

/* Keys of "gemm". */
static const char *const gemm_keys[] = {"library", "algorithms"};

static void put_gemm(struct cadre_json *json, const struct cadre_record *record)
{
    cadre_json_key(json, "gemm");
    cadre_json_begin_object(json);
    for (size_t i = 0; i < sizeof gemm_keys / sizeof gemm_keys[0]; i++)
        cadre_json_put_string(json, gemm_keys[i],
                              cadre_record_gemm(record, gemm_keys[i]));
    cadre_json_end_object(json);
}

/* Leaves out sections that do not change training, and the texts that name things. */
static void put_option(void *arg, const char *section,
                       const struct cadre_option *option, const char *value)
{
    static const char *const left_out[] = {"compare", "log", "checkpoint"};
    struct cadre_json *json = arg;
    char name[128];
    for (size_t i = 0; i < sizeof left_out / sizeof left_out[0]; i++)
        if (strcmp(section, left_out[i]) == 0)
            return;
    if (strcmp(section, "run") == 0 && strcmp(option->key, "seed") != 0 &&
        strcmp(option->key, "exact") != 0 && strcmp(option->key, "exact_parts") != 0)
        return;
    snprintf(name, sizeof name, "%s.%s", section, option->key);
    cadre_json_put_string(json, name, value);
}

/* Links 1, 2, 4, 8 ... and the last: two certificates show roughly where their runs
 * diverge. */
static void put_links(struct cadre_json *json, const struct cadre_record *record)
{
    cadre_json_key(json, "chain");
    cadre_json_begin_array(json);
    for (int64_t step = 1, n = (int64_t)record->n; step <= n;
         step = step < n && 2 * step > n ? n : 2 * step) {
        cadre_json_begin_object(json);
        cadre_json_put_i64(json, "step", step);
        put_hash(json, "link", cadre_record_chain(record, step));
        cadre_json_end_object(json);
    }
    cadre_json_end_array(json);
}

static void put_perturbations(struct cadre_json *json, const struct cadre_comparison *c)
{
    cadre_json_put_f64(json, "factor", c->factor);
    cadre_json_key(json, "perturbations");
    cadre_json_begin_array(json);
    for (size_t p = 0; p < c->n_perturbations; p++) {
        const struct cadre_perturbation *one = &c->perturbation[p];
        cadre_json_begin_object(json);
        if (one->micro_batch)
            cadre_json_put_i64(json, "train.micro_batch", one->micro_batch);
        else
            cadre_json_put_i64(json, "run.perturb", one->seed);
        cadre_json_put_string(json, "folder", cadre_path_basename(one->record.dir));
        cadre_json_end_object(json);
    }
    cadre_json_end_array(json);
}

static void put_limits(struct cadre_json *json, const struct cadre_comparison *c,
                       const struct cadre_compared_run *run)
{
    cadre_json_key(json, "limits");
    cadre_json_begin_object(json);
    cadre_json_put_string(json, "kind", cadre_limit_name(run->limit));
    if (run->limit == CADRE_LIMIT_MEASURED)
        put_perturbations(json, c);
    if (run->limit == CADRE_LIMIT_MEASURED || run->limit == CADRE_LIMIT_STATED)
        cadre_json_put_i64(json, "judged_steps", c->judged_steps);
    for (int q = 0; q < CADRE_QUANTITIES; q++) {
        const struct cadre_margin *margin = &run->margin[q];
        cadre_json_key(json, cadre_quantity_name((enum cadre_quantity)q));
        cadre_json_begin_object(json);
        cadre_json_put_f64(json, "difference", margin->diff);
        cadre_json_put_f64(json, "limit", margin->limit);
        cadre_json_put_i64(json, "step", margin->step);
        cadre_json_end_object(json);
    }
    cadre_json_end_object(json);
}

static void put_baseline(struct cadre_json *json, const struct cadre_compared_run *base)
{
    cadre_json_key(json, "baseline");
    cadre_json_begin_object(json);
    cadre_json_put_string(json, "name", base->name);
    cadre_json_put_string(json, "strategy", base->strategy);
    put_hash(json, "loss_chain", base->chain);
    put_states(json, &base->diff);
    put_hash(json, "digest", base->digest);
    cadre_json_end_object(json);
}

void cadre_certificate_put(struct cadre_json *json, const struct cadre_comparison *c,
                           size_t i)
{
    const struct cadre_compared_run *run = &c->run[i];
    bool held = run->limit != CADRE_LIMIT_NONE;
    cadre_json_begin_object(json);
    cadre_json_put_i64(json, "schema_version", SCHEMA_VERSION);
    cadre_json_put_string(json, "format", FORMAT);
    cadre_json_put_string(json, "run", run->name);
    cadre_json_put_string(json, "comparison", c->title);
    cadre_json_put_string(json, "verdict", cadre_equal_name(run->equal));
    cadre_json_put_string(json, "why", *run->why ? run->why : NULL);
    cadre_json_put_bool(json, "by_design", run->by_design);
    cadre_json_put_string(json, "changed_by",
                          *run->changes.by ? run->changes.by : NULL);
    cadre_json_put_string(json, "strategy", run->strategy);
    cadre_json_put_string(json, "layout", run->layout);
    cadre_json_put_string(json, "sums", run->sums);
    cadre_json_put_i64(json, "ranks", run->ranks);
    cadre_json_put_bool(json, "exact", run->exact);
    cadre_json_put_i64(json, "steps", (int64_t)run->record.n);
    put_hash(json, "data", run->data);
    put_hash(json, "loss_chain", run->chain);
    put_states(json, &run->diff);
    put_hash(json, "digest", run->digest);
    cadre_json_key(json, "ulp_max");
    if (held)
        cadre_json_u64(json, run->diff.of[0].ulp_max);
    else
        cadre_json_null(json);
    put_links(json, &run->record);
    put_baseline(json, &c->run[cadre_seeds_baseline(c, i)]);
    cadre_json_put_string(json, "other_training",
                          *run->other_training ? run->other_training : NULL);
    put_limits(json, c, run);
    put_machine(json, &run->record);
    put_gemm(json, &run->record);
    cadre_json_key(json, "options");
    cadre_json_begin_object(json);
    if (run->options)
        cadre_options_each(run->options, put_option, json);
    cadre_json_end_object(json);
    cadre_json_end_object(json);
}

char *cadre_certificate_file(const struct cadre_compared_run *run)
{
    return cadre_format("certificate-%s.json", run->name);
}

/* ---- checking ---- */

static json_t *read_file(const char *path, struct cadre_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    json_t *found = NULL;
    if (cadre_path_read_file(path, FILE_LIMIT, &text, &bytes, err) != CADRE_OK)
        return NULL;
    cadre_json_read(text, bytes, path, &found, err);
    free(text);
    const char *format = json_string_value(json_object_get(found, "format"));
    if (format && (strcmp(format, FORMAT) == 0 || strcmp(format, FORMAT_1) == 0))
        return found;
    if (found)
        cadre_fail(err, CADRE_E_INVALID,
                   "'%s' is no certificate: expected \"format\": \"%s\"", path, FORMAT);
    json_decref(found);
    return NULL;
}

bool cadre_certificate_is(const char *path)
{
    json_t *found = read_file(path, NULL);
    json_decref(found);
    return found != NULL;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "-";
}

static void describe(const json_t *certificate, struct cadre_text *out)
{
    const json_t *base = json_object_get(certificate, "baseline");
    const json_t *limits = json_object_get(certificate, "limits");
    const json_t *gemm = json_object_get(certificate, "gemm");
    bool by_design = json_is_true(json_object_get(certificate, "by_design"));
    cadre_text_printf(
        out,
        "certificate of run %s: %s, %s, %lld steps\n"
        "  verdict: %s%s, compared with %s (%s)\n",
        text_of(certificate, "run"), text_of(certificate, "strategy"),
        text_of(certificate, "layout"),
        (long long)json_integer_value(json_object_get(certificate, "steps")),
        text_of(certificate, "verdict"), by_design ? " by design" : "",
        text_of(base, "name"), text_of(base, "strategy"));
    if (json_is_string(json_object_get(certificate, "why")))
        cadre_text_printf(out, "  because %s\n", text_of(certificate, "why"));
    if (json_is_string(json_object_get(gemm, "library")))
        cadre_text_printf(out, "  multiplied with %s%s%s\n", text_of(gemm, "library"),
                          *text_of(gemm, "algorithms") ? ", algorithms " : "",
                          text_of(gemm, "algorithms"));
    for (int q = 0; q < CADRE_QUANTITIES; q++) {
        const char *name = cadre_quantity_name((enum cadre_quantity)q);
        const json_t *margin = json_object_get(limits, name);
        const json_t *limit = json_object_get(margin, "limit");
        const json_t *difference = json_object_get(margin, "difference");
        if (!json_is_number(difference))
            continue;
        cadre_text_printf(out, "  %-10s differs by %.3g", name,
                          json_number_value(difference));
        if (json_is_number(limit))
            cadre_text_printf(out, ", the limit is %.3g", json_number_value(limit));
        cadre_text_printf(out, "\n");
    }
}

static cadre_status expect(const json_t *certificate, const char *key, uint64_t found,
                           struct cadre_error *err)
{
    char hex[17];
    const char *stated = text_of(certificate, key);
    if (strcmp(stated, cadre_hash_hex(found, hex)) == 0)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_DIFFERS,
                      "%s of run %s is %s in its folder, and %s in the certificate",
                      key, text_of(certificate, "run"), hex, stated);
}

/* Certificates and folders of earlier builds lack these keys. */
static cadre_status expect_gemm(const json_t *certificate,
                                const struct cadre_record *record,
                                struct cadre_error *err)
{
    const json_t *gemm = json_object_get(certificate, "gemm");
    for (size_t i = 0; i < sizeof gemm_keys / sizeof gemm_keys[0]; i++) {
        const char *stated = json_string_value(json_object_get(gemm, gemm_keys[i]));
        const char *found = cadre_record_gemm(record, gemm_keys[i]);
        if (stated && (!found || strcmp(stated, found) != 0))
            return cadre_fail(err, CADRE_E_DIFFERS,
                              "gemm.%s of run %s is '%s' in its folder, and '%s' in "
                              "the certificate",
                              gemm_keys[i], text_of(certificate, "run"),
                              found ? found : "-", stated);
    }
    return CADRE_OK;
}

static cadre_status check_folder(const json_t *certificate, const char *folder,
                                 struct cadre_error *err)
{
    struct cadre_record record = {0};
    struct cadre_state_diffs states;
    cadre_status rc;
    CADRE_TRY_OR(cadre_record_read(folder, &record, err), fail);
    CADRE_TRY_OR(cadre_judge_states(&record, &record, &states, err), fail);
    uint64_t chain = cadre_record_chain(&record, (int64_t)record.n);
    CADRE_TRY_OR(expect(certificate, "loss_chain", chain, err), fail);
    for (size_t s = 0; s < CADRE_STATES; s++)
        if (states.of[s].elements > 0)
            CADRE_TRY_OR(expect(certificate, state_keys[s], states.of[s].hash, err),
                         fail);
    const char *digest = json_object_get(certificate, "digest") ? "digest" : "seal";
    CADRE_TRY_OR(expect(certificate, digest, cadre_judge_digest(chain, &states), err),
                 fail);
    rc = expect_gemm(certificate, &record, err);
fail:
    cadre_record_fini(&record);
    return rc;
}

cadre_status cadre_certificate_check(const char *path, struct cadre_text *out,
                                     struct cadre_error *err)
{
    json_t *certificate = read_file(path, err);
    if (!certificate)
        return CADRE_E_INVALID;
    const char *name = cadre_path_basename(path);
    char *folder = cadre_format("%.*sruns/%s", (int)(name - path), path,
                                text_of(certificate, "run"));
    cadre_status rc = CADRE_OK;
    describe(certificate, out);
    if (!folder) {
        rc = cadre_no_memory(err, "a path");
    } else if (!cadre_path_is_dir(folder)) {
        cadre_text_printf(out, "  '%s' is gone: nothing was checked again\n", folder);
    } else {
        rc = check_folder(certificate, folder, err);
        if (rc == CADRE_OK)
            cadre_text_printf(out, "  '%s' has the hashes that it states\n", folder);
    }
    free(folder);
    json_decref(certificate);
    return rc;
}
