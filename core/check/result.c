/* SPDX-License-Identifier: Apache-2.0 */
#include "core/check/result.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cadre/strategy.h>

#include "core/base/hash.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/check/catalogue.h"
#include "core/check/groups/groups.h"

#define MOST_BYTES (1u << 30) /* of a plugin */

static void take_digest(struct cadre_check_results *results)
{
    char path[4096], *data = NULL;
    size_t bytes = 0;
    if (cadre_check_find(results->plugin, path, sizeof path, NULL) == CADRE_OK &&
        cadre_path_read_file(path, MOST_BYTES, &data, &bytes, NULL) == CADRE_OK)
        snprintf(results->digest, sizeof results->digest, "%016" PRIx64,
                 cadre_hash_of(data, bytes, 0));
    free(data);
}

cadre_status cadre_check_results_init(struct cadre_check_results *results,
                                      const char *plugin, uint64_t seed,
                                      struct cadre_error *err)
{
    *results = (struct cadre_check_results){.plugin = plugin, .seed = seed};
    results->n = cadre_catalogue_size();
    results->result = cadre_calloc(results->n, sizeof *results->result);
    if (!results->result)
        return cadre_no_memory(err, "the results");
    for (size_t i = 0; i < results->n; i++)
        results->result[i].check = cadre_catalogue_at(i);
    take_digest(results);
    return CADRE_OK;
}

void cadre_check_results_fini(struct cadre_check_results *results)
{
    free(results->result);
    *results = (struct cadre_check_results){0};
}

size_t cadre_check_results_chosen(const struct cadre_check_results *results)
{
    size_t n = 0;
    for (size_t i = 0; i < results->n; i++)
        n += results->result[i].chosen;
    return n;
}

size_t cadre_check_results_count(const struct cadre_check_results *results,
                                 enum cadre_check_status status)
{
    size_t n = 0;
    for (size_t i = 0; i < results->n; i++)
        n += results->result[i].done && results->result[i].verdict.status == status;
    return n;
}

size_t cadre_check_results_bad(const struct cadre_check_results *results)
{
    size_t n = 0;
    for (size_t i = 0; i < results->n; i++)
        n += results->result[i].done &&
             cadre_check_status_is_bad(results->result[i].verdict.status);
    return n;
}

/* ---- level ---- */

static bool reaches(const struct cadre_check_results *results,
                    enum cadre_check_level level)
{
    bool passed = false;
    for (size_t i = 0; i < results->n; i++) {
        const struct cadre_check_result *result = &results->result[i];
        if (result->check->level != level || result->check->asked_only)
            continue;
        if (!result->done || cadre_check_status_is_bad(result->verdict.status))
            return false;
        passed |= result->verdict.status == CADRE_CHECK_PASS ||
                  result->verdict.status == CADRE_CHECK_WARNING;
    }
    return passed;
}

const char *cadre_check_results_level(const struct cadre_check_results *results)
{
    const char *name = "none";
    for (int level = 0; level < CADRE_CHECK_LEVELS; level++) {
        if (!reaches(results, (enum cadre_check_level)level))
            break;
        name = cadre_check_level_name((enum cadre_check_level)level);
    }
    return name;
}

void cadre_check_results_summary(const struct cadre_check_results *results, char *out,
                                 size_t bytes)
{
    const char *level = cadre_check_results_level(results);
    size_t used = 0;
    for (int status = 0; status < CADRE_CHECK_STATUSES && used < bytes; status++) {
        size_t n = cadre_check_results_count(results, (enum cadre_check_status)status);
        if (n == 0 && status != CADRE_CHECK_PASS && status != CADRE_CHECK_FAIL)
            continue;
        used +=
            (size_t)snprintf(out + used, bytes - used, "%s%zu %s", used ? ", " : "", n,
                             cadre_check_status_name((enum cadre_check_status)status));
    }
    if (used >= bytes)
        return;
    if (strcmp(level, "none") == 0)
        snprintf(out + used, bytes - used,
                 ": reaches no level of cadre.strategy/%u.%u%s", CADRE_ABI_MAJOR,
                 CADRE_ABI_MINOR,
                 cadre_check_results_bad(results) ? "" : ", as checks were left out");
    else
        snprintf(out + used, bytes - used,
                 ": conforms to cadre.strategy/%u.%u level %s%s", CADRE_ABI_MAJOR,
                 CADRE_ABI_MINOR, level,
                 results->quick ? "; higher ones need a run without --quick" : "");
}

void cadre_check_results_reproduce(const struct cadre_check_results *results,
                                   const struct cadre_check *check, char *out,
                                   size_t bytes)
{
    snprintf(out, bytes, "cadre check %s --only %s --seed %" PRIu64 "%s",
             results->plugin, check->id, results->seed,
             results->quick ? " --quick" : "");
}
