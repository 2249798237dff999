/* SPDX-License-Identifier: Apache-2.0 */
/* Reads header lines field by field: each field is a prefix of what is left of the
 * line, so that forms like "212x2:3+24" need no splitting. */
#include "core/data/wfdb/wfdb_header.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/cache/mapping.h"

enum {
    HEADER_BYTES_MAX = 1 << 20,
    LINE_MAX_BYTES = 1024,
};

struct reader {
    const char *at;
    const char *end;
    const char *where;
    int line; /* number of the line in `text`, from 1 */
    char text[LINE_MAX_BYTES];
    const char *field; /* what is left of the line */
    struct cadre_error *err;
};

static cadre_status bad(struct reader *rd, const char *what)
{
    return cadre_fail(rd->err, CADRE_E_INVALID, "%s: line %d: %s, found \"%.60s\"",
                      rd->where, rd->line, what, rd->field);
}

/* Take the next line that holds a specification; false at the end of the text. */
static cadre_status next_line(struct reader *rd, bool *found)
{
    *found = false;
    while (rd->at < rd->end && !*found) {
        const char *stop = memchr(rd->at, '\n', (size_t)(rd->end - rd->at));
        const char *next = stop ? stop + 1 : rd->end;
        size_t size = (size_t)((stop ? stop : rd->end) - rd->at);
        rd->line++;
        rd->field = "";
        if (rd->at[0] != '#') {
            if (size >= sizeof rd->text)
                return bad(rd, "expected a line below 1024 bytes");
            if (memchr(rd->at, '\0', size))
                return bad(rd, "expected text, found a zero byte");
            memcpy(rd->text, rd->at, size);
            rd->text[size] = '\0';
            while (size > 0 && strchr(" \t\r", rd->text[size - 1]))
                rd->text[--size] = '\0';
            rd->field = rd->text + strspn(rd->text, " \t");
            *found = rd->field[0] != '\0';
        }
        rd->at = next;
    }
    return CADRE_OK;
}

/* Step over the blanks before the next field; false at the end of the line. */
static bool has_field(struct reader *rd)
{
    rd->field += strspn(rd->field, " \t");
    return rd->field[0] != '\0';
}

static bool at_boundary(const struct reader *rd)
{
    return rd->field[0] == '\0' || rd->field[0] == ' ' || rd->field[0] == '\t';
}

static bool accept(struct reader *rd, char c)
{
    if (rd->field[0] != c)
        return false;
    rd->field++;
    return true;
}

static cadre_status take_int(struct reader *rd, const char *what, int64_t low,
                             int64_t high, int64_t *value)
{
    char *stop = NULL;
    errno = 0;
    long long found = strtoll(rd->field, &stop, 10);
    if (stop == rd->field || strchr(" \t", rd->field[0]))
        return cadre_fail(rd->err, CADRE_E_INVALID,
                          "%s: line %d: %s: expected a whole number, found \"%.60s\"",
                          rd->where, rd->line, what, rd->field);
    if (errno == ERANGE || found < low || found > high)
        return cadre_fail(rd->err, CADRE_E_INVALID,
                          "%s: line %d: %s: expected %lld to %lld, found \"%.*s\"",
                          rd->where, rd->line, what, (long long)low, (long long)high,
                          (int)(stop - rd->field < 40 ? stop - rd->field : 40),
                          rd->field);
    rd->field = stop;
    *value = found;
    return CADRE_OK;
}

static cadre_status take_int32(struct reader *rd, const char *what, int64_t low,
                               int64_t high, int32_t *value)
{
    int64_t wide = 0;
    cadre_status rc = take_int(rd, what, low, high, &wide);
    if (rc == CADRE_OK)
        *value = (int32_t)wide;
    return rc;
}

static cadre_status take_double(struct reader *rd, const char *what, double *value)
{
    char *stop = NULL;
    double found = strtod(rd->field, &stop);
    if (stop == rd->field || !isfinite(found) || fabs(found) > 1e15)
        return cadre_fail(rd->err, CADRE_E_INVALID,
                          "%s: line %d: %s: expected a number, found \"%.60s\"",
                          rd->where, rd->line, what, rd->field);
    rd->field = stop;
    *value = found;
    return CADRE_OK;
}

static cadre_status take_word(struct reader *rd, const char *what, const char *stops,
                              char *word, size_t capacity)
{
    size_t size = strcspn(rd->field, stops);
    if (size == 0 || size >= capacity)
        return cadre_fail(
            rd->err, CADRE_E_INVALID,
            "%s: line %d: %s: expected 1 to %zu characters, found \"%.60s\"", rd->where,
            rd->line, what, capacity - 1, rd->field);
    memcpy(word, rd->field, size);
    word[size] = '\0';
    rd->field += size;
    return CADRE_OK;
}

static cadre_status expect_boundary(struct reader *rd)
{
    return at_boundary(rd) ? CADRE_OK : bad(rd, "expected a blank after this field");
}

/* "360", "360/720", "360/720(0)"; the counter's frequency and base are not used. */
static cadre_status parse_frequency(struct reader *rd, double *frequency)
{
    double counter = 0;
    CADRE_TRY(take_double(rd, "sampling frequency", frequency));
    if (*frequency <= 0)
        return bad(rd, "expected a sampling frequency above 0");
    if (accept(rd, '/'))
        CADRE_TRY(take_double(rd, "counter frequency", &counter));
    if (accept(rd, '(')) {
        CADRE_TRY(take_double(rd, "base counter value", &counter));
        if (!accept(rd, ')'))
            return bad(rd, "expected \")\" after the base counter value");
    }
    return expect_boundary(rd);
}

static cadre_status parse_record_line(struct reader *rd,
                                      struct cadre_wfdb_header *header)
{
    header->frequency = 250;
    CADRE_TRY(take_word(rd, "record name", " \t/", header->name, sizeof header->name));
    if (rd->field[0] == '/')
        return cadre_fail(
            rd->err, CADRE_E_UNSUPPORTED,
            "%s: line %d: record \"%s\" is made of segments, which are not "
            "read; name the segments' own records instead",
            rd->where, rd->line, header->name);
    if (!has_field(rd))
        return bad(rd, "expected the number of signals after the record name");
    CADRE_TRY(take_int32(rd, "number of signals", 0, CADRE_WFDB_SIGNALS_MAX,
                         &header->signals));
    CADRE_TRY(expect_boundary(rd));
    if (has_field(rd))
        CADRE_TRY(parse_frequency(rd, &header->frequency));
    if (has_field(rd)) {
        CADRE_TRY(
            take_int(rd, "number of samples", 0, INT64_C(1) << 48, &header->samples));
        CADRE_TRY(expect_boundary(rd));
    }
    return CADRE_OK;
}

/* A name that stays in the record's folder: relative, and no ".." on the way. */
static bool is_contained(const char *file)
{
    if (file[0] == '/' || file[0] == '~')
        return false;
    for (const char *part = file; part; part = strchr(part, '/')) {
        part += part[0] == '/';
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0'))
            return false;
    }
    return true;
}

static cadre_status parse_file_and_format(struct reader *rd,
                                          struct cadre_wfdb_signal *sig)
{
    sig->samples_per_frame = 1;
    CADRE_TRY(take_word(rd, "signal file", " \t", sig->file, sizeof sig->file));
    if (!is_contained(sig->file))
        return cadre_fail(rd->err, CADRE_E_INVALID,
                          "%s: line %d: signal file \"%s\" leaves the record's folder; "
                          "expected a file next to the header",
                          rd->where, rd->line, sig->file);
    if (!has_field(rd))
        return bad(rd, "expected a signal format after the file name");
    CADRE_TRY(take_int32(rd, "signal format", 0, 9999, &sig->format));
    if (accept(rd, 'x'))
        CADRE_TRY(
            take_int32(rd, "samples per frame", 1, 100000, &sig->samples_per_frame));
    if (accept(rd, ':'))
        CADRE_TRY(take_int(rd, "skew", 0, INT32_MAX, &sig->skew));
    if (accept(rd, '+'))
        CADRE_TRY(take_int(rd, "byte offset", 0, INT64_C(1) << 48, &sig->byte_offset));
    return expect_boundary(rd);
}

/* "200", "200(1024)", "200(1024)/mV", "200/mV". */
static cadre_status parse_gain(struct reader *rd, struct cadre_wfdb_signal *sig,
                               bool *has_baseline)
{
    CADRE_TRY(take_double(rd, "gain", &sig->gain));
    if (sig->gain < 0)
        return bad(rd, "expected a gain of 0 (not calibrated) or above");
    if (sig->gain == 0)
        sig->gain = 200;
    if (accept(rd, '(')) {
        CADRE_TRY(take_int32(rd, "baseline", INT32_MIN, INT32_MAX, &sig->baseline));
        if (!accept(rd, ')'))
            return bad(rd, "expected \")\" after the baseline");
        *has_baseline = true;
    }
    if (accept(rd, '/'))
        CADRE_TRY(take_word(rd, "units", " \t", sig->units, sizeof sig->units));
    return expect_boundary(rd);
}

/* The optional whole-number fields after the gain, in their order. */
static cadre_status parse_numbers(struct reader *rd, struct cadre_wfdb_signal *sig)
{
    static const char *const names[] = {"ADC resolution", "ADC zero", "initial value",
                                        "checksum", "block size"};
    int32_t values[5] = {0};
    int count = 0;
    for (; count < 5 && has_field(rd); count++) {
        CADRE_TRY(take_int32(rd, names[count], INT32_MIN, INT32_MAX, &values[count]));
        CADRE_TRY(expect_boundary(rd));
    }
    sig->adc_resolution = values[0];
    sig->adc_zero = values[1];
    sig->has_initial = count > 2;
    sig->initial = sig->has_initial ? values[2] : values[1];
    sig->has_checksum = count > 3;
    sig->checksum = values[3];
    return CADRE_OK;
}

static cadre_status parse_signal_line(struct reader *rd, struct cadre_wfdb_signal *sig)
{
    bool has_baseline = false;
    sig->gain = 200;
    memcpy(sig->units, "mV", 3);
    CADRE_TRY(parse_file_and_format(rd, sig));
    if (has_field(rd))
        CADRE_TRY(parse_gain(rd, sig, &has_baseline));
    CADRE_TRY(parse_numbers(rd, sig));
    if (!has_baseline)
        sig->baseline = sig->adc_zero;
    if (has_field(rd))
        CADRE_TRY(take_word(rd, "description", "", sig->description,
                            sizeof sig->description));
    return CADRE_OK;
}

static cadre_status parse(struct reader *rd, struct cadre_wfdb_header *header)
{
    bool found = false;
    CADRE_TRY(next_line(rd, &found));
    if (!found)
        return cadre_fail(rd->err, CADRE_E_INVALID,
                          "%s: expected a record line, found an empty header",
                          rd->where);
    CADRE_TRY(parse_record_line(rd, header));
    /* a line of a signal has at least a name, a blank, a digit and its end */
    if (header->signals > (rd->end - rd->at + 1) / 4)
        return cadre_fail(rd->err, CADRE_E_INVALID,
                          "%s: expected %d signal lines, found %td more bytes",
                          rd->where, header->signals, rd->end - rd->at);
    header->signal = calloc((size_t)header->signals + 1, sizeof *header->signal);
    if (!header->signal)
        return cadre_fail(rd->err, CADRE_E_RESOURCE, "%s: no memory for %d signals",
                          rd->where, header->signals);
    for (int32_t s = 0; s < header->signals; s++) {
        CADRE_TRY(next_line(rd, &found));
        if (!found)
            return cadre_fail(rd->err, CADRE_E_INVALID,
                              "%s: expected %d signal lines, found %d", rd->where,
                              header->signals, s);
        CADRE_TRY(parse_signal_line(rd, &header->signal[s]));
    }
    return CADRE_OK;
}

cadre_status cadre_wfdb_header_parse(const char *text, size_t size, const char *where,
                                     struct cadre_wfdb_header *header,
                                     struct cadre_error *err)
{
    struct reader rd = {.at = text, .end = text + size, .where = where, .err = err};
    struct cadre_wfdb_header found = {0};
    cadre_status rc = parse(&rd, &found);
    if (rc == CADRE_OK)
        *header = found;
    else
        cadre_wfdb_header_fini(&found);
    return rc;
}

cadre_status cadre_wfdb_header_read(const char *path, struct cadre_wfdb_header *header,
                                    struct cadre_error *err)
{
    char *text = NULL;
    size_t size = 0;
    cadre_status rc = cadre_mapping_read(path, HEADER_BYTES_MAX, &text, &size, err);
    if (rc == CADRE_OK)
        rc = cadre_wfdb_header_parse(text, size, path, header, err);
    free(text);
    return rc;
}

void cadre_wfdb_header_fini(struct cadre_wfdb_header *header)
{
    free(header->signal);
    memset(header, 0, sizeof *header);
}

int32_t cadre_wfdb_header_find(const struct cadre_wfdb_header *header, const char *lead)
{
    for (int32_t s = 0; s < header->signals; s++)
        if (strcmp(header->signal[s].description, lead) == 0)
            return s;
    return -1;
}
