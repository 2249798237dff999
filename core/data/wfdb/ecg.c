/* SPDX-License-Identifier: Apache-2.0 */
/* The key of the cache covers the options and the name, size and time of every file
 * that the tokens come from. */
#include "core/data/wfdb/ecg.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/data/wfdb/ecg_record.h"
#include "core/data/wfdb/record_list.h"
#include "core/data/wfdb/wfdb_header.h"

enum { KEY_VERSION = 1 }; /* raise when the same files would give other tokens */

static char *beside_header(const struct cadre_ecg_record *rec, const char *file)
{
    const char *slash = strrchr(rec->header_path, '/');
    return cadre_format("%.*s/%s", (int)(slash - rec->header_path), rec->header_path,
                        file);
}

/* Takes ownership of path. A missing file has size 0 and fails when it is read. */
static cadre_status hash_file_take(struct cadre_hash *hash, char *path)
{
    struct stat st;
    int64_t facts[3] = {-1, 0, 0};
    if (!path)
        return CADRE_E_RESOURCE;
    if (stat(path, &st) == 0) {
        facts[0] = st.st_size;
        facts[1] = st.st_mtim.tv_sec;
        facts[2] = st.st_mtim.tv_nsec;
    }
    cadre_hash_update(hash, facts, sizeof facts);
    free(path);
    return CADRE_OK;
}

static cadre_status hash_record(struct cadre_hash *hash,
                                const struct cadre_ecg_record *rec)
{
    cadre_hash_update_string(hash, rec->name);
    CADRE_TRY(hash_file_take(hash, cadre_strdup(rec->header_path)));
    CADRE_TRY(hash_file_take(hash, cadre_ecg_record_path(rec, ".atr")));
    if (rec->index >= 0)
        CADRE_TRY(hash_file_take(
            hash, beside_header(rec, rec->header.signal[rec->index].file)));
    return CADRE_OK;
}

static cadre_status require_lead(const struct cadre_ecg_config *config,
                                 const struct cadre_ecg_record *rec,
                                 struct cadre_error *err)
{
    struct cadre_text leads = {0};
    for (int32_t s = 0; s < rec->header.signals; s++)
        cadre_text_printf(&leads, "%s%s", s ? ", " : "",
                          rec->header.signal[s].description);
    cadre_fail(err, CADRE_E_INVALID,
               "data.lead: no record of \"%s\" has the lead \"%s\"; \"%s\" has %.300s",
               config->path, config->lead, rec->name,
               leads.data ? leads.data : "no signal");
    cadre_text_fini(&leads);
    return CADRE_E_INVALID;
}

/* Read every header: for the key, and to refuse errors before anything is tokenised. */
static cadre_status scan(const struct cadre_ecg_config *config,
                         const struct cadre_record_list *list, uint64_t *key,
                         struct cadre_error *err)
{
    struct cadre_hash hash;
    struct cadre_ecg_record rec = {.name = ""};
    double frequency = 0;
    int64_t numbers[] = {config->window, config->levels};
    cadre_status rc = CADRE_OK;
    cadre_hash_init(&hash, KEY_VERSION);
    cadre_hash_update_string(&hash, config->lead);
    cadre_hash_update(&hash, numbers, sizeof numbers);
    cadre_hash_update(&hash, &config->range_mv, sizeof config->range_mv);
    for (size_t r = 0; r < list->count; r++) {
        cadre_ecg_record_close(&rec);
        CADRE_TRY_OR(cadre_ecg_record_open(&rec, config, list, r, err), fail);
        CADRE_TRY_OR(hash_record(&hash, &rec), fail);
        if (rec.index < 0) {
            cadre_log(CADRE_LOG_INFO, "data",
                      "record \"%s\" is skipped (it has no lead \"%s\")", rec.name,
                      config->lead);
            continue;
        }
        if (frequency != 0 && rec.header.frequency != frequency) {
            rc = cadre_fail(
                err, CADRE_E_INVALID,
                "%s: expected %g samples per second as in the records before, "
                "found %g; resample, or split the folder by rate",
                rec.header_path, frequency, rec.header.frequency);
            goto fail;
        }
        frequency = rec.header.frequency;
    }
    if (frequency == 0)
        CADRE_TRY_OR(require_lead(config, &rec, err), fail);
    *key = cadre_hash_final(&hash);
fail:
    cadre_ecg_record_close(&rec);
    return rc;
}

struct build {
    const struct cadre_ecg_config *config;
    const struct cadre_record_list *list;
};

static cadre_status build_cache(void *context, struct cadre_cache_writer *writer,
                                struct cadre_error *err)
{
    const struct build *build = context;
    return cadre_ecg_build(build->config, build->list, writer, err);
}

static cadre_status check_config(const struct cadre_ecg_config *config,
                                 struct cadre_error *err)
{
    if (!config->lead || config->lead[0] == '\0')
        return cadre_fail(
            err, CADRE_E_INVALID,
            "data.lead: expected the name of a lead, as MLII, found none");
    if (config->window < 2 || config->window > 65536)
        return cadre_fail(err, CADRE_E_INVALID,
                          "data.window: expected 2 to 65536 samples, found %lld",
                          (long long)config->window);
    if (config->levels < 2 || config->levels > 65536)
        return cadre_fail(err, CADRE_E_INVALID,
                          "data.levels: expected 2 to 65536, found %lld",
                          (long long)config->levels);
    if (!(config->range_mv > 0) || !isfinite(config->range_mv))
        return cadre_fail(err, CADRE_E_INVALID,
                          "data.range_mv: expected millivolts above 0, found %g",
                          config->range_mv);
    return CADRE_OK;
}

cadre_status cadre_ecg_open(const struct cadre_ecg_config *config,
                            const char *cache_dir, struct cadre_cache *cache,
                            struct cadre_error *err)
{
    struct cadre_record_list list = {0};
    struct build build = {config, &list};
    uint64_t key = 0;
    cadre_status rc;
    CADRE_TRY_OR(check_config(config, err), fail);
    CADRE_TRY_OR(cadre_record_list_init(config->path, &list, err), fail);
    rc = scan(config, &list, &key, err);
    if (rc == CADRE_E_RESOURCE)
        cadre_fail(err, rc, "no memory for the records of \"%s\"", config->path);
    if (rc == CADRE_OK)
        rc = cadre_cache_init(cache_dir, key, build_cache, &build, cache, err);
fail:
    cadre_record_list_fini(&list);
    return rc;
}
