/* SPDX-License-Identifier: Apache-2.0 */
/* What `cadre top` takes: CPU time of a frame, read and drawn, of a made-up run.
 *
 *   bench_top [RANKS]
 *
 * 64 ranks, 160 columns, best of 5 rounds of 50 frames; at a frame a second, ms of CPU
 * time a frame are tenths of a percent of a core. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "core/base/rank_page.h"
#include "core/top/show.h"

#define ROUNDS 5
#define FRAMES 50

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool make_pages(const char *dir, int ranks)
{
    for (int r = 0; r < ranks; r++) {
        const struct cadre_rank_page_request request = {.dir = dir,
                                                        .rank = r,
                                                        .ranks = ranks,
                                                        .name = "bench",
                                                        .stack = "ddp",
                                                        .last_step = 100};
        struct cadre_rank_page *page = NULL;
        struct cadre_error err = {0};
        if (cadre_rank_page_create(&request, &page, &err) != CADRE_OK) {
            fprintf(stderr, "%s\n", err.text);
            return false;
        }
        for (uint64_t step = 1; step <= CADRE_RANK_PAGE_STEPS; step++) {
            cadre_rank_page_begin_step(page, step);
            cadre_rank_page_end_step(page, 0, 0);
        }
        cadre_rank_page_state(page, CADRE_RANK_TRAINING);
        cadre_rank_page_close(page);
    }
    return true;
}

static double round_s(const char *dir)
{
    const struct cadre_top_request request = {.dir = dir};
    const struct cadre_top_look look = {.columns = 160, .rows = 80, .colours = true};
    struct cadre_text text = {0};
    const double begin = cpu_s();
    for (int i = 0; i < FRAMES; i++) {
        bool over;
        cadre_text_reset(&text);
        if (cadre_top_draw(&request, &look, &text, &over, NULL) != CADRE_OK)
            return NAN;
    }
    cadre_text_fini(&text);
    return (cpu_s() - begin) / FRAMES;
}

int main(int argc, char **argv)
{
    const int ranks = argc > 1 ? atoi(argv[1]) : 64;
    const char *tmp = getenv("TMPDIR");
    char dir[] = "bench-top-XXXXXX";
    double best = INFINITY;
    if (ranks < 1 || chdir(tmp ? tmp : "/tmp") != 0 || !mkdtemp(dir) ||
        !make_pages(dir, ranks))
        return 1;
    for (int i = 0; i < ROUNDS; i++)
        best = fmin(best, round_s(dir));
    printf(
        "a frame of %d ranks: %.2f ms of CPU time, %.2f %% of a core at one a second\n",
        ranks, 1e3 * best, 100 * best);
    cadre_rank_page_clear(dir, NULL);
    char *status = cadre_format("%s/status", dir);
    if (status)
        rmdir(status);
    free(status);
    rmdir(dir);
    return 0;
}
