/* SPDX-License-Identifier: Apache-2.0 */
/* Hangs of the core, on demand. cadre_hanging is the program with the functions below
 * around the core's own (ld --wrap). CADRE_TEST_HANG = "KIND RANK STEP POINT MARK":
 * that rank of mpirun makes the file MARK and hangs, in that step: at its begin (POINT
 * 0) or in its first backward pass (1). Kinds with a place of their own: `data` in the
 * loader, `disk` in the next save, `call` leaves out an operation that the others wait
 * in. */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/checkpoint/writer.h"
#include "core/comm/comm.h"
#include "core/data/loader.h"
#include "core/engine/exchange.h"
#include "core/engine/rank.h"
#include "core/model/unit.h"

static struct {
    char kind[16], mark[512];
    int rank;
    uint64_t step;
    int point;
} chosen = {.rank = -1};
static uint64_t now; /* the step */

/* Runs before main. */
__attribute__((constructor)) static void choose_hang(void)
{
    const char *text = getenv("CADRE_TEST_HANG");
    const char *own = getenv("OMPI_COMM_WORLD_RANK");
    unsigned long long step = 0;
    if (!text || !own ||
        sscanf(text, "%15s %d %llu %d %511s", chosen.kind, &chosen.rank, &step,
               &chosen.point, chosen.mark) != 5 ||
        chosen.rank != atoi(own))
        chosen.kind[0] = '\0';
    chosen.step = step;
}

static bool is_due(const char *kind)
{
    return strcmp(chosen.kind, kind) == 0 && now >= chosen.step;
}

static void leave_mark(void)
{
    close(open(chosen.mark, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

static void sleep_forever(void)
{
    leave_mark();
    for (;;)
        pause();
}

static void hang_at(int point)
{
    static volatile uint64_t spun;
    if (point != chosen.point)
        return;
    if (is_due("entry"))
        sleep_forever();
    if (is_due("slow")) {
        leave_mark();
        for (;;)
            spun++;
    }
    if (is_due("stopped") || is_due("dead")) {
        leave_mark();
        raise(is_due("dead") ? SIGKILL : SIGSTOP);
    }
}

/* Define what stands before a function of the core; the linker calls that __real_. */
#define BEFORE(function, ...)                                                          \
    cadre_status __real_##function(__VA_ARGS__);                                       \
    cadre_status __wrap_##function(__VA_ARGS__);                                       \
    cadre_status __wrap_##function(__VA_ARGS__)

BEFORE(cadre_rank_step, struct cadre_rank *rank, uint64_t step,
       struct cadre_step_report *report)
{
    now = step;
    hang_at(0);
    return __real_cadre_rank_step(rank, step, report);
}

BEFORE(cadre_unit_backward_input, const struct cadre_model *model, uint32_t unit,
       const struct cadre_pass *pass, const void *x, const void *dy, void *dx)
{
    hang_at(1);
    return __real_cadre_unit_backward_input(model, unit, pass, x, dy, dx);
}

BEFORE(cadre_loader_next, struct cadre_loader *loader, uint64_t step,
       int64_t microbatch, struct cadre_batch *batch)
{
    if (is_due("data"))
        sleep_forever();
    return __real_cadre_loader_next(loader, step, microbatch, batch);
}

BEFORE(cadre_writer_save, struct cadre_writer *writer, int64_t step, bool last,
       struct cadre_error *err)
{
    if (is_due("disk"))
        sleep_forever();
    return __real_cadre_writer_save(writer, step, last, err);
}

BEFORE(cadre_exchange_losses, struct cadre_exchange *exchange, const double *losses,
       uint64_t step, struct cadre_exchange_outcome *outcome)
{
    struct cadre_comm *other = exchange->mesh->axis[0].comm;
    cadre_event done = 0;
    if (!is_due("call") || !other)
        return __real_cadre_exchange_losses(exchange, losses, step, outcome);
    leave_mark();
    CADRE_TRY(cadre_comm_barrier(other, "alone", 0, &done));
    return cadre_comm_wait(other, done);
}
