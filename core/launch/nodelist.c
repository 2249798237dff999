/* SPDX-License-Identifier: Apache-2.0 */
#include "core/launch/nodelist.h"

#include <stdio.h>
#include <string.h>

#define NAME_ROOM 256
#define MOST_HOSTS (INT64_C(1) << 31)

/* A cursor over decimal digits; -1 where there are none or too many. */
static int64_t take_number(const char **at, int *digits)
{
    int64_t n = 0;
    *digits = 0;
    for (; **at >= '0' && **at <= '9'; (*at)++, (*digits)++) {
        if (*digits == 15)
            return -1;
        n = n * 10 + (**at - '0');
    }
    return *digits ? n : -1;
}

/* "[001,007-015]" from its bracket on. Returns the number of hosts in it; `*at` is then
 * after it. With wanted >= 0 the text of that one goes to `out`. -1: none. */
static int64_t take_ranges(const char **at, int64_t wanted, char *out, size_t capacity)
{
    int64_t count = 0;
    do {
        int digits, ignored;
        (*at)++; /* the bracket, or a comma */
        int64_t low = take_number(at, &digits), high = low;
        if (**at == '-') {
            (*at)++;
            high = take_number(at, &ignored);
        }
        if (low < 0 || high < low || high - low >= MOST_HOSTS - count)
            return -1;
        if (wanted >= count && wanted <= count + (high - low))
            snprintf(out, capacity, "%0*lld", digits,
                     (long long)(low + wanted - count));
        count += high - low + 1;
    } while (**at == ',');
    if (**at != ']')
        return -1;
    (*at)++;
    return count;
}

/* Hosts of one name with its brackets, up to a comma outside of them. The last bracket
 * varies fastest, so host `wanted` takes two passes: the first finds the counts. */
struct part {
    int64_t count; /* hosts */
    bool good;
};

static struct part measure(const char **at)
{
    struct part part = {.count = 1, .good = true};
    const char *begin = *at;
    char number[32];
    while (part.good && **at && **at != ',') {
        int64_t n = 1;
        if (**at == '[')
            n = take_ranges(at, -1, number, sizeof number);
        else if (**at == ']' || **at <= ' ')
            n = -1;
        else
            (*at)++;
        part.good = n > 0 && part.count <= MOST_HOSTS / n;
        part.count *= part.good ? n : 1;
    }
    part.good = part.good && *at != begin;
    return part;
}

/* The name of host `wanted` of the valid part of `count` hosts at `at`. */
static bool name_of(const char *at, int64_t count, int64_t wanted, char *name,
                    size_t size)
{
    size_t used = 0;
    while (*at && *at != ',') {
        char piece[32] = {*at, '\0'};
        if (*at == '[') {
            const char *look = at;
            int64_t n = take_ranges(&look, -1, piece, sizeof piece);
            count /= n;
            take_ranges(&at, wanted / count, piece, sizeof piece);
            wanted %= count;
        } else {
            at++;
        }
        size_t more = strlen(piece);
        if (used + more + 1 > size)
            return false;
        memcpy(name + used, piece, more + 1);
        used += more;
    }
    return used > 0;
}

int64_t cadre_nodelist_count(const char *list)
{
    int64_t count = 0;
    for (const char *at = list;; at++) {
        struct part part = measure(&at);
        if (!part.good || count > MOST_HOSTS - part.count)
            return -1;
        count += part.count;
        if (!*at)
            return count;
    }
}

bool cadre_nodelist_host(const char *list, int64_t i, char *name, size_t size)
{
    if (i < 0 || cadre_nodelist_count(list) <= i)
        return false;
    for (const char *at = list;; at++) {
        const char *begin = at;
        struct part part = measure(&at);
        if (i < part.count) {
            char host[NAME_ROOM];
            if (!name_of(begin, part.count, i, host, sizeof host) ||
                strlen(host) >= size)
                return false;
            memcpy(name, host, strlen(host) + 1);
            return true;
        }
        i -= part.count;
    }
}

int cadre_nodelist_tasks(const char *text, int64_t i)
{
    const char *at = text;
    int digits;
    while (i >= 0) {
        int64_t tasks = take_number(&at, &digits), times = 1;
        if (strncmp(at, "(x", 2) == 0) {
            at += 2;
            times = take_number(&at, &digits);
            if (*at++ != ')')
                return -1;
        }
        if (tasks < 0 || tasks > INT32_MAX || times < 1 || (*at && *at != ','))
            return -1;
        if (i < times)
            return (int)tasks;
        if (!*at++)
            return -1;
        i -= times;
    }
    return -1;
}
