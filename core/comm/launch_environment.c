/* SPDX-License-Identifier: Apache-2.0 */
/* Who this process is among the ranks, by its environment. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/comm/launch.h"
#include "core/comm/local/shared.h"
#include "core/comm/rendezvous.h"

/* A decimal number from low to high and nothing else. */
static bool parse_number(const char *text, long low, long high, int *out)
{
    char *end;
    if (!text || *text < '0' || *text > '9')
        return false;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (*end || errno || n < low || n > high)
        return false;
    *out = (int)n;
    return true;
}

cadre_status cadre_launch_child(bool *is_child, int *rank, int *size, int *fd,
                                struct cadre_error *err)
{
    const char *init = getenv("CADRE_INIT");
    int r, n, d;
    *is_child = false;
    if (!init || strncmp(init, "fd:", 3) != 0)
        return CADRE_OK;
    if (!parse_number(init + 3, 0, INT32_MAX, &d))
        return cadre_fail(err, CADRE_E_INVALID,
                          "CADRE_INIT is \"%s\"; expected fd:N, which a cadre launcher "
                          "sets: unset it to start a run",
                          init);
    if (!parse_number(getenv("CADRE_WORLD_SIZE"), 1, LOCAL_MAX_RANKS, &n))
        return cadre_fail(
            err, CADRE_E_INVALID,
            "CADRE_WORLD_SIZE is not a number from 1 to %d, but CADRE_INIT "
            "is \"%s\": unset CADRE_INIT to start a run",
            LOCAL_MAX_RANKS, init);
    if (!parse_number(getenv("CADRE_RANK"), 0, n - 1, &r))
        return cadre_fail(err, CADRE_E_INVALID,
                          "CADRE_RANK is not a number from 0 to %d, but CADRE_INIT is "
                          "\"%s\": unset CADRE_INIT to start a run",
                          n - 1, init);
    *is_child = true;
    *rank = r;
    *size = n;
    *fd = d;
    return CADRE_OK;
}

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value;
}

/* One of our numbers, which a rank that is started from outside must have. */
static cadre_status read_number(const char *name, int low, int high, const char *init,
                                int *out, struct cadre_error *err)
{
    const char *text = getenv(name);
    if (parse_number(text, low, high, out))
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "%s %s%s%s, but CADRE_INIT is \"%s\": expected a number from %d "
                      "to %d; set CADRE_RANK, CADRE_WORLD_SIZE and CADRE_LOCAL_RANK in "
                      "each process, or unset CADRE_INIT",
                      name, text ? "is \"" : "is not set", text ? text : "",
                      text ? "\"" : "", init, low, high);
}

/* Without a place to meet each of many processes would train alone, in one folder. */
static cadre_status refuse_halves(struct cadre_error *err)
{
    static const char *const names[] = {"CADRE_RANK", "CADRE_WORLD_SIZE",
                                        "CADRE_LOCAL_RANK"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (is_set(names[i]))
            return cadre_fail(err, CADRE_E_INVALID,
                              "%s is set, but CADRE_INIT is not: expected "
                              "tcp://host:port or file:///path, where the ranks meet; "
                              "set it, or unset %s",
                              names[i], names[i]);
    return CADRE_OK;
}

cadre_status cadre_launch_outside(struct cadre_launch_outside *out,
                                  struct cadre_error *err)
{
    const char *init = getenv("CADRE_INIT");
    struct cadre_launch_outside found = {.where = init};
    cadre_status rc;
    *out = (struct cadre_launch_outside){0};
    if (!init || !*init)
        return refuse_halves(err);
    if (strncmp(init, "fd:", 3) == 0)
        return CADRE_OK;
    if (strncmp(init, "tcp://", 6) != 0 && strncmp(init, "file:///", 8) != 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "CADRE_INIT is \"%s\"; expected tcp://host:port or "
                          "file:///path, where the ranks meet, or nothing",
                          init);
    CADRE_TRY(read_number("CADRE_WORLD_SIZE", 1, CADRE_RENDEZVOUS_RANKS, init,
                          &found.size, err));
    CADRE_TRY(read_number("CADRE_RANK", 0, found.size - 1, init, &found.rank, err));
    CADRE_TRY(read_number("CADRE_LOCAL_RANK", 0, found.size - 1, init,
                          &found.local_rank, err));
    *out = found;
fail:
    return rc;
}
