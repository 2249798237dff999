/* SPDX-License-Identifier: Apache-2.0 */
/* Records are tokenised one after the other into the cache. The key of the cache covers
 * the options and the name, size and time of every file that the tokens come from. */
#include "core/data/ecg.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/data/record_list.h"
#include "core/data/wfdb_annotation.h"
#include "core/data/wfdb_header.h"
#include "core/data/wfdb_signal.h"

enum { KEY_VERSION = 1 }; /* raise when the same files would give other tokens */

/* The k-th smallest, by Hoare's quickselect; what stands before k is then no larger. */
static int32_t select_kth(int32_t *values, int64_t count, int64_t k)
{
    int64_t low = 0, high = count - 1;
    while (low < high) {
        int32_t pivot = values[low + (high - low) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (values[i] < pivot)
                i++;
            while (values[j] > pivot)
                j--;
            if (i <= j) {
                int32_t swap = values[i];
                values[i++] = values[j];
                values[j--] = swap;
            }
        }
        if (k <= j)
            high = j;
        else if (k >= i)
            low = i;
        else
            break;
    }
    return values[k];
}

double cadre_ecg_median(int32_t *values, int64_t count)
{
    int32_t upper = select_kth(values, count, count / 2);
    int32_t lower = upper;
    if (count % 2 == 0) {
        lower = values[0];
        for (int64_t i = 1; i < count / 2; i++)
            lower = values[i] > lower ? values[i] : lower;
    }
    return ((double)lower + (double)upper) / 2;
}

uint16_t cadre_ecg_token(double mv, double range_mv, int64_t levels)
{
    double clipped = fmin(fmax(mv, -range_mv), range_mv);
    int64_t token =
        (int64_t)floor((clipped + range_mv) / (2 * range_mv) * (double)levels);
    return (uint16_t)(token < levels ? token : levels - 1);
}

/* Everything about the record being tokenised. */
struct record {
    const struct cadre_ecg_config *config;
    const char *name;
    char *header_path;
    struct cadre_wfdb_header header;
    int32_t index; /* of the lead, -1: the record has none */
    int32_t *samples;
    int64_t count;
    struct cadre_wfdb_annotations beats;
    uint16_t *token_of; /* (count) */
    struct cadre_error *err;
};

static void record_fini(struct record *rec)
{
    free(rec->header_path);
    free(rec->samples);
    free(rec->token_of);
    cadre_wfdb_header_fini(&rec->header);
    cadre_wfdb_annotations_fini(&rec->beats);
}

static cadre_status record_init(struct record *rec,
                                const struct cadre_ecg_config *config,
                                const struct cadre_record_list *list, size_t r,
                                struct cadre_error *err)
{
    *rec = (struct record){.config = config, .name = list->names[r], .err = err};
    rec->header_path = cadre_format("%s/%s.hea", list->folder, rec->name);
    if (!rec->header_path)
        return CADRE_E_RESOURCE;
    cadre_status rc = cadre_wfdb_header_read(rec->header_path, &rec->header, err);
    if (rc == CADRE_OK)
        rec->index = cadre_wfdb_header_find(&rec->header, config->lead);
    return rc;
}

/* The header's path with another suffix. */
static char *with_suffix(const struct record *rec, const char *suffix)
{
    size_t stem = strlen(rec->header_path) - strlen(".hea");
    return cadre_format("%.*s%s", (int)stem, rec->header_path, suffix);
}

static char *beside_header(const struct record *rec, const char *file)
{
    const char *slash = strrchr(rec->header_path, '/');
    return cadre_format("%.*s/%s", (int)(slash - rec->header_path), rec->header_path,
                        file);
}

/* Takes over path. A missing file has no size and fails with words when it is read. */
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

static cadre_status hash_record(struct cadre_hash *hash, const struct record *rec)
{
    cadre_status rc;
    cadre_hash_update_string(hash, rec->name);
    CADRE_TRY(hash_file_take(hash, cadre_strdup(rec->header_path)));
    CADRE_TRY(hash_file_take(hash, with_suffix(rec, ".atr")));
    if (rec->index >= 0)
        CADRE_TRY(hash_file_take(
            hash, beside_header(rec, rec->header.signal[rec->index].file)));
fail:
    return rc;
}

static cadre_status require_lead(const struct cadre_ecg_config *config,
                                 const struct record *rec, struct cadre_error *err)
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

/* Read every header: the key, and what can be refused before anything is tokenised. */
static cadre_status scan(const struct cadre_ecg_config *config,
                         const struct cadre_record_list *list, uint64_t *key,
                         struct cadre_error *err)
{
    struct cadre_hash hash;
    struct record rec = {.name = ""};
    double frequency = 0;
    int64_t numbers[] = {config->window, config->levels};
    cadre_status rc = CADRE_OK;
    cadre_hash_init(&hash, KEY_VERSION);
    cadre_hash_update_string(&hash, config->lead);
    cadre_hash_update(&hash, numbers, sizeof numbers);
    cadre_hash_update(&hash, &config->range_mv, sizeof config->range_mv);
    for (size_t r = 0; r < list->count; r++) {
        record_fini(&rec);
        CADRE_TRY(record_init(&rec, config, list, r, err));
        CADRE_TRY(hash_record(&hash, &rec));
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
        CADRE_TRY(require_lead(config, &rec, err));
    *key = cadre_hash_final(&hash);
fail:
    record_fini(&rec);
    return rc;
}

/* Millivolts per physical unit of the lead. */
static cadre_status unit_scale(const struct record *rec, double *scale)
{
    static const struct {
        const char *units;
        double scale;
    } known[] = {{"mV", 1}, {"uV", 1e-3}, {"V", 1e3}, {"mv", 1}, {"uv", 1e-3}};
    const struct cadre_wfdb_signal *sig = &rec->header.signal[rec->index];
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(sig->units, known[i].units) == 0) {
            *scale = known[i].scale;
            return CADRE_OK;
        }
    return cadre_fail(rec->err, CADRE_E_INVALID,
                      "%s: lead \"%s\": expected units of mV, uV or V, found \"%s\"",
                      rec->header_path, rec->config->lead, sig->units);
}

static cadre_status quantise(struct record *rec)
{
    const struct cadre_wfdb_signal *sig = &rec->header.signal[rec->index];
    double scale = 1;
    int64_t kept = 0;
    cadre_status rc = unit_scale(rec, &scale);
    if (rc != CADRE_OK)
        return rc;
    rec->token_of = cadre_calloc((size_t)rec->count, sizeof *rec->token_of);
    int32_t *sorted = cadre_calloc((size_t)rec->count, sizeof *sorted);
    if (!rec->token_of || !sorted) {
        free(sorted);
        return CADRE_E_RESOURCE;
    }
    for (int64_t t = 0; t < rec->count; t++)
        if (!cadre_wfdb_is_missing(sig->format, rec->samples[t]))
            sorted[kept++] = rec->samples[t];
    double median = kept > 0 ? cadre_ecg_median(sorted, kept) : 0;
    free(sorted);
    /* (value - baseline) / gain minus the median of the same: the baseline cancels. */
    for (int64_t t = 0; t < rec->count; t++)
        rec->token_of[t] =
            cadre_ecg_token(((double)rec->samples[t] - median) / sig->gain * scale,
                            rec->config->range_mv, rec->config->levels);
    return CADRE_OK;
}

static bool is_whole(const struct record *rec, int64_t first)
{
    int32_t format = rec->header.signal[rec->index].format;
    int64_t window = rec->config->window;
    if (first < 0 || first > rec->count - window)
        return false;
    for (int64_t t = first; t < first + window; t++)
        if (cadre_wfdb_is_missing(format, rec->samples[t]))
            return false;
    return true;
}

static cadre_status write_windows(struct record *rec, struct cadre_cache_writer *writer)
{
    int64_t window = rec->config->window;
    size_t labels = 0;
    uint8_t *codes = malloc(rec->beats.count + 1);
    cadre_status rc =
        codes ? cadre_cache_write_record(writer, rec->name) : CADRE_E_RESOURCE;
    for (size_t i = 0; i < rec->beats.count && rc == CADRE_OK; i++) {
        const struct cadre_wfdb_annotation *beat = &rec->beats.items[i];
        int64_t first = beat->time - window / 2;
        if (cadre_wfdb_aami_class(beat->code) < 0 || !is_whole(rec, first))
            continue;
        rc = cadre_cache_write_tokens(writer, rec->token_of + first, (size_t)window);
        codes[labels++] = beat->code;
    }
    if (rc == CADRE_OK)
        rc = cadre_cache_write_labels(writer, codes, labels);
    free(codes);
    return rc;
}

static cadre_status read_beats(struct record *rec)
{
    char *path = with_suffix(rec, ".atr");
    cadre_status rc = path ? CADRE_OK : CADRE_E_RESOURCE;
    if (rc == CADRE_OK)
        rc = cadre_wfdb_annotations_read(path, &rec->beats, rec->err);
    if (rc == CADRE_OK && rec->beats.frequency != 0 &&
        rec->beats.frequency != rec->header.frequency)
        rc = cadre_fail(rec->err, CADRE_E_UNSUPPORTED,
                        "%s: expected times at the record's rate of %g, found %g", path,
                        rec->header.frequency, rec->beats.frequency);
    free(path);
    return rc;
}

struct build {
    const struct cadre_ecg_config *config;
    const struct cadre_record_list *list;
};

static cadre_status build_record(const struct build *build, size_t r,
                                 struct cadre_cache_writer *writer,
                                 struct cadre_error *err)
{
    struct record rec = {0};
    cadre_status rc;
    CADRE_TRY(record_init(&rec, build->config, build->list, r, err));
    if (rec.index >= 0) {
        CADRE_TRY(cadre_wfdb_signal_read(rec.header_path, &rec.header, rec.index,
                                         &rec.samples, &rec.count, err));
        CADRE_TRY(read_beats(&rec));
        CADRE_TRY(quantise(&rec));
        CADRE_TRY(write_windows(&rec, writer));
    }
fail:
    record_fini(&rec);
    return rc;
}

static cadre_status build_cache(void *context, struct cadre_cache_writer *writer,
                                struct cadre_error *err)
{
    const struct build *build = context;
    cadre_status rc = CADRE_OK;
    for (size_t r = 0; r < build->list->count && rc == CADRE_OK; r++)
        rc = build_record(build, r, writer, err);
    return rc;
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
    CADRE_TRY(check_config(config, err));
    CADRE_TRY(cadre_record_list_init(config->path, &list, err));
    rc = scan(config, &list, &key, err);
    if (rc == CADRE_E_RESOURCE)
        cadre_fail(err, rc, "no memory for the records of \"%s\"", config->path);
    if (rc == CADRE_OK)
        rc = cadre_cache_init(cache_dir, key, build_cache, &build, cache, err);
fail:
    cadre_record_list_fini(&list);
    return rc;
}
