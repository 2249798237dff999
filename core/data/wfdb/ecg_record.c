/* SPDX-License-Identifier: Apache-2.0 */
#include "core/data/wfdb/ecg_record.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/data/wfdb/ecg_quantise.h"
#include "core/data/wfdb/wfdb_annotation.h"
#include "core/data/wfdb/wfdb_signal.h"

cadre_status cadre_ecg_record_open(struct cadre_ecg_record *rec,
                                   const struct cadre_ecg_config *config,
                                   const struct cadre_record_list *list, size_t r,
                                   struct cadre_error *err)
{
    *rec = (struct cadre_ecg_record){.config = config, .name = list->names[r]};
    rec->header_path = cadre_format("%s/%s.hea", list->folder, rec->name);
    if (!rec->header_path)
        return CADRE_E_RESOURCE;
    cadre_status rc = cadre_wfdb_header_read(rec->header_path, &rec->header, err);
    if (rc == CADRE_OK)
        rec->index = cadre_wfdb_header_find(&rec->header, config->lead);
    return rc;
}

void cadre_ecg_record_close(struct cadre_ecg_record *rec)
{
    free(rec->header_path);
    cadre_wfdb_header_fini(&rec->header);
    memset(rec, 0, sizeof *rec);
}

char *cadre_ecg_record_path(const struct cadre_ecg_record *rec, const char *suffix)
{
    size_t stem = strlen(rec->header_path) - strlen(".hea");
    return cadre_format("%.*s%s", (int)stem, rec->header_path, suffix);
}

/* A lead while it is turned into windows. */
struct lead {
    const struct cadre_ecg_record *rec;
    const struct cadre_wfdb_signal *sig;
    struct cadre_wfdb_range range;
    int32_t *samples;
    int64_t count;
    int64_t missing; /* samples */
    struct cadre_wfdb_annotations beats;
    struct cadre_error *err;
};

/* Millivolts per physical unit of the lead. */
static cadre_status unit_scale(const struct lead *lead, double *scale)
{
    static const struct {
        const char *units;
        double scale;
    } known[] = {{"mV", 1}, {"uV", 1e-3}, {"V", 1e3}, {"mv", 1}, {"uv", 1e-3}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(lead->sig->units, known[i].units) == 0) {
            *scale = known[i].scale;
            return CADRE_OK;
        }
    return cadre_fail(lead->err, CADRE_E_INVALID,
                      "%s: lead \"%s\": expected units of mV, uV or V, found \"%s\"",
                      lead->rec->header_path, lead->rec->config->lead,
                      lead->sig->units);
}

static cadre_status quantise(struct lead *lead, struct cadre_ecg_windows *windows)
{
    const struct cadre_ecg_config *config = lead->rec->config;
    struct cadre_ecg_scale scale = {.gain = lead->sig->gain,
                                    .range_mv = config->range_mv,
                                    .levels = config->levels};
    CADRE_TRY(unit_scale(lead, &scale.unit_mv));
    windows->tokens = cadre_realloc(NULL, (size_t)lead->count, sizeof *windows->tokens);
    if (!windows->tokens)
        return CADRE_E_RESOURCE;
    return cadre_ecg_quantise(lead->samples, lead->count, &lead->range, &scale,
                              windows->tokens, &lead->missing);
}

static bool is_whole(const struct lead *lead, int64_t first)
{
    int64_t window = lead->rec->config->window;
    if (first < 0 || first > lead->count - window)
        return false;
    for (int64_t t = first; lead->missing > 0 && t < first + window; t++)
        if (lead->samples[t] == lead->range.missing)
            return false;
    return true;
}

static cadre_status find_windows(const struct lead *lead,
                                 struct cadre_ecg_windows *windows)
{
    size_t beats = lead->beats.count;
    windows->first = cadre_calloc(beats, sizeof *windows->first);
    windows->labels = cadre_calloc(beats, sizeof *windows->labels);
    if (!windows->first || !windows->labels)
        return CADRE_E_RESOURCE;
    for (size_t i = 0; i < beats; i++) {
        const struct cadre_wfdb_annotation *beat = &lead->beats.items[i];
        int64_t first = beat->time - lead->rec->config->window / 2;
        if (cadre_wfdb_aami_class(beat->code) < 0 || !is_whole(lead, first))
            continue;
        windows->first[windows->count] = first;
        windows->labels[windows->count++] = beat->code;
    }
    return CADRE_OK;
}

static cadre_status read_beats(struct lead *lead)
{
    double frequency = lead->rec->header.frequency;
    char *path = cadre_ecg_record_path(lead->rec, ".atr");
    cadre_status rc = path ? CADRE_OK : CADRE_E_RESOURCE;
    if (rc == CADRE_OK)
        rc = cadre_wfdb_annotations_read(path, &lead->beats, lead->err);
    if (rc == CADRE_OK && lead->beats.frequency != 0 &&
        lead->beats.frequency != frequency)
        rc = cadre_fail(lead->err, CADRE_E_UNSUPPORTED,
                        "%s: expected times at the record's rate of %g, found %g", path,
                        frequency, lead->beats.frequency);
    free(path);
    return rc;
}

cadre_status cadre_ecg_windows_init(struct cadre_ecg_windows *windows,
                                    const struct cadre_ecg_record *rec,
                                    struct cadre_error *err)
{
    struct lead lead = {.rec = rec, .sig = &rec->header.signal[rec->index], .err = err};
    struct cadre_ecg_windows found = {0};
    cadre_status rc;
    cadre_wfdb_range(lead.sig->format, &lead.range);
    CADRE_TRY_OR(cadre_wfdb_signal_read(rec->header_path, &rec->header, rec->index,
                                        &lead.samples, &lead.count, err),
                 fail);
    CADRE_TRY_OR(read_beats(&lead), fail);
    CADRE_TRY_OR(quantise(&lead, &found), fail);
    CADRE_TRY_OR(find_windows(&lead, &found), fail);
    *windows = found;
fail:
    if (rc != CADRE_OK)
        cadre_ecg_windows_fini(&found);
    free(lead.samples);
    cadre_wfdb_annotations_fini(&lead.beats);
    return rc;
}

void cadre_ecg_windows_fini(struct cadre_ecg_windows *windows)
{
    free(windows->tokens);
    free(windows->first);
    free(windows->labels);
    memset(windows, 0, sizeof *windows);
}
