/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank's status page costs: CPU time of its updates, on a mapped file in TMPDIR.
 *
 *   bench_rank_page
 *
 * One thread, best of 5 rounds. Lines "NAME NS": a phase (enter and leave), an
 * operation with its event (post, queue and end), a step (begin, end, memory,
 * report). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "core/base/rank_page.h"
#include "core/base/status_slot.h"

#define ROUNDS 5
#define EVENTS 1000000

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void phases(struct cadre_rank_page *page)
{
    for (uint32_t i = 0; i < EVENTS; i++)
        cadre_rank_page_leave(
            page, cadre_rank_page_enter(page, CADRE_PHASE_FORWARD, 0, i & 15));
}

static void operations(struct cadre_rank_page *page)
{
    struct cadre_rank_page_op op = {.posted_s = 1, .bytes = 1 << 20, .ranks = 8};
    static struct cadre_status_slot slot;
    cadre_status_enter(&slot, "ddp", "on_grad", 1);
    for (uint32_t i = 0; i < EVENTS; i++) {
        snprintf(op.kind, sizeof op.kind, "%s", "all_reduce");
        snprintf(op.label, sizeof op.label, "%s", "ddp bucket 3");
        snprintf(op.comm, sizeof op.comm, "%s", "dp");
        cadre_status_instance(&slot, op.plugin, sizeof op.plugin);
        const uint64_t posted = cadre_rank_page_posted(page, &op);
        cadre_rank_page_queued(page, posted, i);
        cadre_rank_page_ended(page, posted, 2);
    }
}

static void steps(struct cadre_rank_page *page)
{
    struct cadre_rank_page_result result = {.valid_loss = NAN};
    for (uint32_t i = 1; i <= EVENTS; i++) {
        cadre_rank_page_begin_step(page, i);
        cadre_rank_page_end_step(page, 0.001, 0.001);
        cadre_rank_page_memory(page, i, i);
        result.step = i;
        cadre_rank_page_result(page, &result);
    }
}

int main(void)
{
    static const struct {
        const char *name;
        void (*run)(struct cadre_rank_page *page);
    } kinds[] = {{"phase", phases}, {"operation", operations}, {"step", steps}};
    const char *tmp = getenv("TMPDIR");
    char dir[] = "bench-rank-page-XXXXXX";
    struct cadre_rank_page *page = NULL;
    struct cadre_error err = {0};
    if (chdir(tmp ? tmp : "/tmp") != 0 || !mkdtemp(dir))
        return 1;
    const struct cadre_rank_page_request request = {
        .dir = dir, .ranks = 1, .name = "bench", .stack = "single", .last_step = 1};
    if (cadre_rank_page_create(&request, &page, &err) != CADRE_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        double best = INFINITY;
        for (int i = 0; i < ROUNDS; i++) {
            const double begin = cpu_s();
            kinds[k].run(page);
            best = fmin(best, cpu_s() - begin);
        }
        printf("%s %.1f\n", kinds[k].name, best / EVENTS * 1e9);
    }
    cadre_rank_page_close(page);
    cadre_rank_page_clear(dir, NULL);
    char *status = cadre_format("%s/status", dir);
    if (status)
        rmdir(status);
    free(status);
    rmdir(dir);
    return 0;
}
