/* SPDX-License-Identifier: Apache-2.0 */
/* Parses and prints the instances wanted. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "plugins/mig/layout.h"

#define MAX_COUNT 1000u

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

/* A number before an x, "2x 1g"; 0: there is none, and *at stays. */
static uint32_t read_count_before(const char **at)
{
    size_t digits = strspn(*at, "0123456789");
    const char *x = skip_blanks(*at + digits);
    if (!digits || digits > 4 || tolower((unsigned char)*x) != 'x')
        return 0;
    uint32_t count = (uint32_t)strtoul(*at, NULL, 10);
    *at = skip_blanks(x + 1);
    return count;
}

/* A number after an x, "1g x2". */
static uint32_t read_count_after(const char **at)
{
    const char *x = skip_blanks(*at);
    if (tolower((unsigned char)*x) != 'x')
        return 0;
    x = skip_blanks(x + 1);
    size_t digits = strspn(x, "0123456789");
    if (!digits || digits > 4)
        return 0;
    *at = x + digits;
    return (uint32_t)strtoul(x, NULL, 10);
}

/* A + within a name is followed by a letter at once ("+me"). */
static size_t name_length(const char *at)
{
    size_t n = 0;
    for (; at[n]; n++) {
        unsigned char c = (unsigned char)at[n], next = (unsigned char)at[n + 1];
        if (tolower(c) == 'x' && (isdigit(next) || isspace(next)))
            break;
        if (!isalnum(c) && c != '.' && c != '-' && c != '_' &&
            !(c == '+' && isalpha(next)))
            break;
    }
    return n;
}

/* What follows size and memory: "+me" of "1g.18gb+me". */
static const char *suffix(const char *name)
{
    return name + strcspn(name, "+-");
}

/* The profile of that whole name, else the one with so many compute slices, this
 * suffix and the least memory; -1. */
static int find_profile(const struct mig_gpu *gpu, const char *name)
{
    char *end;
    int best = -1;
    unsigned long slices = strtoul(name, &end, 10);
    for (uint32_t i = 0; i < gpu->n_profiles; i++)
        if (strcasecmp(gpu->profile[i].name, name) == 0)
            return (int)i;
    if (end == name || tolower((unsigned char)*end) != 'g' || suffix(name) != end + 1)
        return -1;
    for (uint32_t i = 0; i < gpu->n_profiles; i++) {
        const struct mig_profile *p = &gpu->profile[i];
        if (p->slices == slices && strcasecmp(suffix(p->name), suffix(name)) == 0 &&
            (best < 0 || p->memory < gpu->profile[best].memory))
            best = (int)i;
    }
    return best;
}

static bool unknown(const struct mig_gpu *gpu, const char *name, char *why,
                    size_t bytes)
{
    int n = snprintf(why, bytes, "'%.40s' is no profile of GPU %u (%s), which has",
                     name, gpu->index, gpu->name);
    for (uint32_t i = 0; i < gpu->n_profiles && n > 0 && (size_t)n < bytes; i++)
        n += snprintf(why + n, bytes - (size_t)n, "%s %s", i ? "," : "",
                      gpu->profile[i].name);
    return false;
}

bool mig_wanted_read(const struct mig_gpu *gpu, const char *text,
                     struct mig_wanted *out, char *why, size_t bytes)
{
    char name[64];
    const char *at = skip_blanks(text);
    memset(out, 0, sizeof *out);
    if (!*at) {
        snprintf(why, bytes, "say what is wanted, such as '1g x2 + 2g + 3g'");
        return false;
    }
    for (;;) {
        uint32_t before = read_count_before(&at);
        size_t length = name_length(at);
        if (!length || length >= sizeof name) {
            snprintf(why, bytes,
                     "expected a profile at '%.40s', such as in '1g x2 + 2g + 3g'", at);
            return false;
        }
        memcpy(name, at, length);
        name[length] = 0;
        at += length;
        uint32_t after = read_count_after(&at);
        int profile = find_profile(gpu, name);
        if (profile < 0)
            return unknown(gpu, name, why, bytes);
        out->count[profile] += before ? before : after ? after : 1;
        if (out->count[profile] > MAX_COUNT)
            out->count[profile] = MAX_COUNT;
        at = skip_blanks(at);
        if (!*at)
            return true;
        if (*at != '+' && *at != ',') {
            snprintf(why, bytes, "expected + at '%.40s', as in '1g x2 + 2g + 3g'", at);
            return false;
        }
        at = skip_blanks(at + 1);
    }
}

const char *mig_wanted_text(const struct mig_gpu *gpu, const struct mig_wanted *wanted,
                            char *out, size_t bytes)
{
    size_t n = 0;
    snprintf(out, bytes, "nothing");
    for (uint32_t i = gpu->n_profiles; i-- && n < bytes;) {
        char count[16] = "";
        if (!wanted->count[i])
            continue;
        if (wanted->count[i] > 1)
            snprintf(count, sizeof count, " x%u", wanted->count[i]);
        n += (size_t)snprintf(out + n, bytes - n, "%s%s%s", n ? " + " : "",
                              gpu->profile[i].name, count);
    }
    return out;
}
