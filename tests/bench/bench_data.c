/* SPDX-License-Identifier: Apache-2.0 */
/* Seconds to tokenise a folder of WFDB records into a cache, and to map and verify what
 * is cached, as a run does at its start: the cache made REPEATS times, the fastest
 * and the median. Prints one line of JSON.
 *
 * Usage: bench_data RECORDS CACHE [LEAD [WINDOW [LEVELS]]]: of CACHE, a folder, the
 * files tokens-*.cache are removed. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/cores.h"
#include "core/base/median.h"
#include "core/base/memory.h"
#include "core/data/dataset.h"

enum { REPEATS = 7 };

static void remove_caches(const char *folder)
{
    char *pattern = cadre_format("%s/tokens-*.cache", folder);
    glob_t found = {0};
    if (pattern && glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            unlink(found.gl_pathv[i]);
    globfree(&found);
    free(pattern);
}

static double open_once(const struct cadre_dataset_config *config,
                        struct cadre_dataset_info *info)
{
    struct cadre_dataset *set = NULL;
    struct cadre_error err = {0};
    double begin = cadre_now_s();
    if (cadre_dataset_open(config, &set, &err) != CADRE_OK) {
        fprintf(stderr, "bench_data: %s\n", err.text);
        exit(1);
    }
    double took = cadre_now_s() - begin;
    cadre_dataset_info(set, info);
    cadre_dataset_close(set);
    return took;
}

static double least(const double *values)
{
    double found = values[0];
    for (int i = 1; i < REPEATS; i++)
        found = values[i] < found ? values[i] : found;
    return found;
}

int main(int argc, char **argv)
{
    struct cadre_dataset_config config = {
        .format = "wfdb",
        .path = argc > 1 ? argv[1] : "",
        .lead = argc > 3 ? argv[3] : "MLII",
        .task = "foundation",
        .cache_dir = argc > 2 ? argv[2] : "",
        .window = argc > 4 ? atoll(argv[4]) : 256,
        .levels = argc > 5 ? atoll(argv[5]) : 64,
        .range_mv = 2.5,
        .valid_fraction = 0.1,
    };
    struct cadre_dataset_info info = {0};
    double made[REPEATS], mapped[REPEATS];
    if (argc < 3) {
        fprintf(stderr, "usage: bench_data RECORDS CACHE [LEAD [WINDOW [LEVELS]]]\n");
        return 2;
    }
    for (int i = 0; i < REPEATS; i++) {
        remove_caches(config.cache_dir);
        made[i] = open_once(&config, &info);
        mapped[i] = open_once(&config, &info);
    }
    double made_least = least(made), mapped_least = least(mapped);
    printf("{\"cores\": %d, \"records\": %llu, \"tokens\": %llu, \"make_s\": %.6f, "
           "\"make_least_s\": %.6f, \"map_s\": %.6f, \"map_least_s\": %.6f, "
           "\"fingerprint\": \"%016llx\"}\n",
           cadre_cores(), (unsigned long long)info.records,
           (unsigned long long)(info.train_tokens + info.valid_tokens),
           cadre_median(made, REPEATS), made_least, cadre_median(mapped, REPEATS),
           mapped_least, (unsigned long long)info.fingerprint);
    return 0;
}
