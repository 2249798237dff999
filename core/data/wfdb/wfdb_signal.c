/* SPDX-License-Identifier: Apache-2.0 */
/* A signal file is a stream of samples packed in units (1, 2 or 3 samples in 1 to 4
 * bytes), frame after frame, one sample of each signal of the file in turn. The
 * position of any sample is known without reading those before it, so a signal is read
 * from chunks of the file. */
#include "core/data/wfdb/wfdb_signal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct packing {
    int32_t format;
    int32_t unit_samples;
    int32_t unit_bytes;
    int32_t missing; /* the value that means no sample; INT32_MAX: none does */
    int32_t bits; /* of a stored value */
    /* Of n frames of `step` samples each, packed from `bytes` on, those at `place`. */
    void (*pick)(const uint8_t *bytes, int64_t step, int64_t place, int64_t n,
                 int32_t *out);
};

/* Sign-extend the low `bits` of value. */
static int32_t extend(uint32_t value, int bits)
{
    uint32_t sign = UINT32_C(1) << (bits - 1);
    uint32_t low = value & (sign | (sign - 1));
    return (int32_t)((int64_t)(low ^ sign) - (int64_t)sign);
}

static inline int32_t decode_8(const uint8_t *u, int32_t k)
{
    (void)k;
    return extend(u[0], 8);
}

static inline int32_t decode_16(const uint8_t *u, int32_t k)
{
    (void)k;
    return extend((uint32_t)u[0] | (uint32_t)u[1] << 8, 16);
}

static inline int32_t decode_24(const uint8_t *u, int32_t k)
{
    (void)k;
    return extend((uint32_t)u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16, 24);
}

static inline int32_t decode_32(const uint8_t *u, int32_t k)
{
    (void)k;
    return extend((uint32_t)u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16 |
                      (uint32_t)u[3] << 24,
                  32);
}

static inline int32_t decode_61(const uint8_t *u, int32_t k)
{
    (void)k;
    return extend((uint32_t)u[1] | (uint32_t)u[0] << 8, 16);
}

static inline int32_t decode_80(const uint8_t *u, int32_t k)
{
    (void)k;
    return (int32_t)u[0] - 128;
}

static inline int32_t decode_160(const uint8_t *u, int32_t k)
{
    (void)k;
    return (int32_t)((uint32_t)u[0] | (uint32_t)u[1] << 8) - 32768;
}

static inline int32_t decode_212(const uint8_t *u, int32_t k)
{
    uint32_t first = (uint32_t)u[0] | (uint32_t)u[1] << 8;
    uint32_t second = (uint32_t)u[2] | (uint32_t)(u[1] & 0xf0) << 4;
    return extend(k == 0 ? first : second, 12);
}

/* Two samples in bits 1 to 10 of the two 16-bit words; the third in their top 5 bits.
 */
static inline int32_t decode_310(const uint8_t *u, int32_t k)
{
    uint32_t first = (uint32_t)u[0] | (uint32_t)u[1] << 8;
    uint32_t second = (uint32_t)u[2] | (uint32_t)u[3] << 8;
    if (k < 2)
        return extend((k == 0 ? first : second) >> 1, 10);
    return extend(first >> 11 | (second >> 11) << 5, 10);
}

static inline int32_t decode_311(const uint8_t *u, int32_t k)
{
    uint32_t unit = (uint32_t)u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16 |
                    (uint32_t)u[3] << 24;
    return extend(unit >> (10 * k), 10);
}

/* A loop a format, so that the compiler sees its units: nothing is called by sample. */
#define PICK(format, unit_samples, unit_bytes)                                         \
    static void pick_##format(const uint8_t *bytes, int64_t step, int64_t place,       \
                              int64_t n, int32_t *out)                                 \
    {                                                                                  \
        for (int64_t f = 0; f < n; f++) {                                              \
            int64_t i = f * step + place;                                              \
            out[f] = decode_##format(bytes + i / (unit_samples) * (unit_bytes),        \
                                     (int32_t)(i % (unit_samples)));                   \
        }                                                                              \
    }
PICK(8, 1, 1)
PICK(16, 1, 2)
PICK(24, 1, 3)
PICK(32, 1, 4)
PICK(61, 1, 2)
PICK(80, 1, 1)
PICK(160, 1, 2)
PICK(310, 3, 4)
PICK(311, 3, 4)

/* Where frames are whole units, as with the two leads of MIT-BIH, every sample of the
 * signal has the same place in its unit. */
static void pick_212(const uint8_t *bytes, int64_t step, int64_t place, int64_t n,
                     int32_t *out)
{
    int64_t stride = step / 2 * 3;
    const uint8_t *unit = bytes + place / 2 * 3;
    if (step % 2 != 0)
        for (int64_t f = 0; f < n; f++) {
            int64_t i = f * step + place;
            out[f] = decode_212(bytes + i / 2 * 3, (int32_t)(i % 2));
        }
    else if (place % 2 == 0)
        for (int64_t f = 0; f < n; f++)
            out[f] = decode_212(unit + f * stride, 0);
    else
        for (int64_t f = 0; f < n; f++)
            out[f] = decode_212(unit + f * stride, 1);
}

static const struct packing packings[] = {
    {8, 1, 1, INT32_MAX, 32, pick_8}, /* of differences: any sum of them */
    {16, 1, 2, -32768, 16, pick_16},    {24, 1, 3, -8388608, 24, pick_24},
    {32, 1, 4, INT32_MIN, 32, pick_32}, {61, 1, 2, -32768, 16, pick_61},
    {80, 1, 1, -128, 8, pick_80},       {160, 1, 2, -32768, 16, pick_160},
    {212, 2, 3, -2048, 12, pick_212},   {310, 3, 4, -512, 10, pick_310},
    {311, 3, 4, -512, 10, pick_311},
};

static const struct packing *find_packing(int32_t format)
{
    for (size_t i = 0; i < sizeof packings / sizeof packings[0]; i++)
        if (packings[i].format == format)
            return &packings[i];
    return NULL;
}

bool cadre_wfdb_is_missing(int32_t format, int32_t sample)
{
    const struct packing *packing = find_packing(format);
    return packing && packing->missing != INT32_MAX && sample == packing->missing;
}

void cadre_wfdb_range(int32_t format, struct cadre_wfdb_range *range)
{
    const struct packing *packing = find_packing(format);
    int32_t bits = packing ? packing->bits : 32;
    *range = (struct cadre_wfdb_range){
        .low = -(INT64_C(1) << (bits - 1)),
        .high = (INT64_C(1) << (bits - 1)) - 1,
        .missing =
            packing && packing->missing != INT32_MAX ? packing->missing : INT64_MAX,
    };
}

/* Bytes that hold the first n samples: a last unit that is not full is truncated, to
 * two bytes for one sample, and to four for two. */
static int64_t packed_bytes(const struct packing *packing, int64_t n)
{
    int64_t rest = n % packing->unit_samples;
    int64_t bytes = n / packing->unit_samples * packing->unit_bytes;
    if (rest > 0)
        bytes += packing->format == 311 && rest == 2 ? 3 : 2 * rest;
    return bytes;
}

/* The most samples that `bytes` hold. */
static int64_t packed_samples(const struct packing *packing, int64_t bytes)
{
    int64_t n = bytes / packing->unit_bytes * packing->unit_samples;
    while (packed_bytes(packing, n + 1) <= bytes)
        n++;
    return n;
}

/* One signal within its file, and the buffer that the file is read through. */
struct stream {
    const struct cadre_wfdb_signal *sig;
    const struct packing *packing;
    const char *path;
    int fd;
    int64_t frame_samples; /* signals in this file */
    int64_t place; /* of this signal among them */
    int64_t frames; /* stored */
    uint8_t *buffer;
    struct cadre_error *err;
};

enum { PIECE_FRAMES = 6 * 1024 }; /* a multiple of every unit_samples */

/* Signals of one file follow each other in the header, with one format and offset. */
static cadre_status locate(struct stream *st, const struct cadre_wfdb_header *header,
                           int32_t index, const char *header_path)
{
    const struct cadre_wfdb_signal *sig = st->sig;
    for (int32_t s = 0; s < header->signals; s++) {
        const struct cadre_wfdb_signal *other = &header->signal[s];
        if (strcmp(other->file, sig->file) != 0)
            continue;
        if (other->format != sig->format || other->byte_offset != sig->byte_offset)
            return cadre_fail(
                st->err, CADRE_E_INVALID,
                "%s: signals %d and %d share \"%s\": expected one format and "
                "offset, found %d+%lld and %d+%lld",
                header_path, s, index, sig->file, other->format,
                (long long)other->byte_offset, sig->format,
                (long long)sig->byte_offset);
        if (other->samples_per_frame != 1)
            return cadre_fail(st->err, CADRE_E_UNSUPPORTED,
                              "%s: signal %d has %d samples per frame; expected 1: "
                              "resample the record to one rate first",
                              header_path, s, other->samples_per_frame);
        if (s == index)
            st->place = st->frame_samples;
        st->frame_samples++;
    }
    return CADRE_OK;
}

static cadre_status open_stream(struct stream *st,
                                const struct cadre_wfdb_header *header)
{
    struct stat info;
    assert(st->frame_samples > 0); /* the signal itself is one */
    st->fd = open(st->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (st->fd < 0)
        return cadre_fail_errno(st->err, CADRE_E_IO, errno,
                                "cannot open signal file \"%s\"", st->path);
    if (fstat(st->fd, &info) != 0 || !S_ISREG(info.st_mode))
        return cadre_fail(st->err, CADRE_E_INVALID,
                          "signal file \"%s\": expected a regular file", st->path);
    int64_t size = info.st_size - st->sig->byte_offset;
    int64_t held = size > 0 ? packed_samples(st->packing, size) / st->frame_samples : 0;
    st->frames = header->samples ? header->samples : held;
    if (held < st->frames)
        return cadre_fail(
            st->err, CADRE_E_INVALID,
            "signal file \"%s\": expected %lld samples of %lld signals in "
            "format %d, found room for %lld: the file is truncated or the "
            "header is wrong",
            st->path, (long long)st->frames, (long long)st->frame_samples,
            st->packing->format, (long long)held);
    if (st->frames <= st->sig->skew)
        return cadre_fail(st->err, CADRE_E_INVALID,
                          "signal file \"%s\": expected more samples than the skew of "
                          "%lld, found %lld",
                          st->path, (long long)st->sig->skew, (long long)st->frames);
    return CADRE_OK;
}

/* Fill the buffer with the bytes of frames [first, first + n); what lies past the end
 * of the file (the unused part of a last unit) reads as zero. */
static cadre_status read_piece(struct stream *st, int64_t first, int64_t n)
{
    int64_t begin = packed_bytes(st->packing, first * st->frame_samples);
    int64_t bytes = packed_bytes(st->packing, (first + n) * st->frame_samples) - begin;
    int64_t done = 0;
    while (done < bytes) {
        ssize_t got = pread(st->fd, st->buffer + done, (size_t)(bytes - done),
                            st->sig->byte_offset + begin + done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return cadre_fail_errno(st->err, CADRE_E_IO, got < 0 ? errno : EIO,
                                    "cannot read signal file \"%s\"", st->path);
        done += got;
    }
    memset(st->buffer + bytes, 0, (size_t)st->packing->unit_bytes);
    return CADRE_OK;
}

/* Decode every stored sample of the signal into out (frames). */
static cadre_status decode(struct stream *st, int32_t *out, uint16_t *checksum)
{
    const struct packing *packing = st->packing;
    uint32_t running = (uint32_t)st->sig->initial;
    uint32_t sum = 0;
    for (int64_t first = 0; first < st->frames; first += PIECE_FRAMES) {
        int32_t *piece = out + first;
        int64_t n = st->frames - first;
        n = n < PIECE_FRAMES ? n : PIECE_FRAMES;
        CADRE_TRY(read_piece(st, first, n));
        packing->pick(st->buffer, st->frame_samples, st->place, n, piece);
        for (int64_t f = 0; packing->format == 8 && f < n; f++) {
            running += (uint32_t)piece[f];
            piece[f] = (int32_t)running;
        }
        for (int64_t f = 0; f < n; f++)
            sum += (uint32_t)piece[f];
    }
    *checksum = (uint16_t)sum;
    return CADRE_OK;
}

/* Format 8 stores differences from the initial value, so there it tests nothing. */
static cadre_status verify(const struct stream *st, int32_t index,
                           const int32_t *samples, uint16_t checksum)
{
    const struct cadre_wfdb_signal *sig = st->sig;
    if (sig->has_initial && sig->format != 8 && sig->skew == 0 &&
        samples[0] != sig->initial)
        return cadre_fail(
            st->err, CADRE_E_INVALID,
            "signal file \"%s\": signal %d: expected the initial value %d "
            "of the header, found %d: the file is damaged or another one's",
            st->path, index, sig->initial, samples[0]);
    if (sig->has_checksum && checksum != (uint16_t)sig->checksum)
        return cadre_fail(st->err, CADRE_E_INVALID,
                          "signal file \"%s\": signal %d: expected checksum %d of the "
                          "header, found %d: the file is damaged, copy it again",
                          st->path, index, (int16_t)sig->checksum, (int16_t)checksum);
    return CADRE_OK;
}

static cadre_status read_stream(struct stream *st,
                                const struct cadre_wfdb_header *header, int32_t index,
                                int32_t **samples)
{
    uint16_t checksum = 0;
    int32_t *found = NULL;
    cadre_status rc;
    CADRE_TRY_OR(open_stream(st, header), fail);
    assert(st->frames > 0); /* more than the skew */
    const int64_t most = st->frames < PIECE_FRAMES ? st->frames : PIECE_FRAMES;
    st->buffer = malloc((size_t)(most * st->frame_samples + 4) * 4);
    found = malloc((size_t)st->frames * sizeof *found);
    if (!found || !st->buffer) {
        rc = cadre_fail(st->err, CADRE_E_RESOURCE,
                        "signal file \"%s\": no memory for %lld samples", st->path,
                        (long long)st->frames);
        goto fail;
    }
    CADRE_TRY_OR(decode(st, found, &checksum), fail);
    if (st->sig->skew > 0)
        memmove(found, found + st->sig->skew,
                (size_t)(st->frames - st->sig->skew) * sizeof *found);
    CADRE_TRY_OR(verify(st, index, found, checksum), fail);
    *samples = found;
    return CADRE_OK;
fail:
    free(found);
    return rc;
}

cadre_status cadre_wfdb_signal_read(const char *header_path,
                                    const struct cadre_wfdb_header *header,
                                    int32_t index, int32_t **samples, int64_t *count,
                                    struct cadre_error *err)
{
    const struct cadre_wfdb_signal *sig = &header->signal[index];
    const char *slash = strrchr(header_path, '/');
    int folder = slash ? (int)(slash - header_path) + 1 : 0;
    struct stream st = {.sig = sig, .fd = -1, .err = err};
    char path[4096];
    st.path = path;
    st.packing = find_packing(sig->format);
    if (!st.packing)
        return cadre_fail(
            err, CADRE_E_UNSUPPORTED,
            "%s: signal %d: format %d is not read; expected one of 8, 16, "
            "24, 32, 61, 80, 160, 212, 310, 311",
            header_path, index, sig->format);
    if (snprintf(path, sizeof path, "%.*s%s", folder, header_path, sig->file) >=
        (int)sizeof path)
        return cadre_fail(err, CADRE_E_INVALID, "%s: the path is too long",
                          header_path);
    cadre_status rc = locate(&st, header, index, header_path);
    if (rc == CADRE_OK)
        rc = read_stream(&st, header, index, samples);
    if (rc == CADRE_OK)
        *count = st.frames - sig->skew;
    free(st.buffer);
    if (st.fd >= 0)
        close(st.fd);
    return rc;
}
