/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/rank_page.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"

#define WORD sizeof(uint64_t)

static void put(_Atomic uint64_t *to, uint64_t value)
{
    atomic_store_explicit(to, value, memory_order_relaxed);
}

/* A cell's one writer. Each word is released, so that a reader that sees a new one sees
 * the odd turn too. */
static void write_cell(_Atomic uint64_t *turn, _Atomic uint64_t *word, const void *from,
                       size_t words)
{
    const uint64_t before = atomic_load_explicit(turn, memory_order_relaxed) & ~1ull;
    put(turn, before + 1);
    for (size_t i = 0; i < words; i++) {
        uint64_t value;
        memcpy(&value, (const char *)from + i * WORD, WORD);
        atomic_store_explicit(&word[i], value, memory_order_release);
    }
    atomic_store_explicit(turn, before + 2, memory_order_release);
}

/* ---- phases ---- */

/* The present phase has lasted until now. */
static void count(struct cadre_rank_page *page, double now)
{
    const uint64_t phase = page->place & 0xff;
    if (phase < CADRE_PHASES)
        page->spent_s[phase] += now - page->since_s;
    page->since_s = now;
}

static void go_to(struct cadre_rank_page *page, uint64_t place)
{
    const double now = cadre_now_s();
    count(page, now);
    page->place = place;
    put(&page->shared->place, place);
    put(&page->shared->beat_ns, (uint64_t)(1e9 * now));
}

static bool is_mine(const struct cadre_rank_page *page)
{
    return page && pthread_equal(page->owner, pthread_self());
}

uint64_t cadre_rank_page_enter(struct cadre_rank_page *page,
                               enum cadre_rank_phase phase, uint32_t chunk,
                               uint32_t microbatch)
{
    if (!is_mine(page))
        return 0;
    const uint64_t former = page->place;
    go_to(page, (uint64_t)phase | (uint64_t)(chunk & 0xffffff) << 8 |
                    (uint64_t)microbatch << 32);
    return former;
}

void cadre_rank_page_leave(struct cadre_rank_page *page, uint64_t former)
{
    if (is_mine(page))
        go_to(page, former);
}

void cadre_rank_page_state(struct cadre_rank_page *page, enum cadre_rank_state state)
{
    if (!page)
        return;
    put(&page->shared->state, (uint64_t)state);
    put(&page->shared->beat_ns, (uint64_t)(1e9 * cadre_now_s()));
}

/* ---- steps ---- */

void cadre_rank_page_schedule(struct cadre_rank_page *page)
{
    if (page)
        page->schedule = true;
}

void cadre_rank_page_begin_step(struct cadre_rank_page *page, uint64_t step)
{
    if (!page)
        return;
    go_to(page, CADRE_PHASE_OTHER);
    memset(page->spent_s, 0, sizeof page->spent_s);
    page->begin_s = page->since_s;
    if (page->n_steps == 0)
        put(&page->shared->begun_ns, (uint64_t)(1e9 * page->begin_s));
    page->step = step;
    put(&page->shared->step, step);
}

/* From 0 to `most`. */
static double within(double s, double most)
{
    return s > most ? most : s > 0 ? s : 0;
}

void cadre_rank_page_end_step(struct cadre_rank_page *page, double exposed_s,
                              double wait_ranks_s)
{
    if (!page)
        return;
    go_to(page, CADRE_PHASE_OTHER);
    const double *spent = page->spent_s;
    const double waited = spent[CADRE_PHASE_COMM];
    struct cadre_rank_page_step times = {
        .step = page->step,
        .step_s = page->since_s - page->begin_s,
        .compute_s = spent[CADRE_PHASE_FORWARD] + spent[CADRE_PHASE_BACKWARD],
        .data_s = spent[CADRE_PHASE_DATA],
        .optim_s = spent[CADRE_PHASE_OPTIMIZER],
        .comm_exposed_s = within(exposed_s, waited),
    };
    times.wait_ranks_s = within(wait_ranks_s, waited - times.comm_exposed_s);
    const double rest = waited - times.comm_exposed_s - times.wait_ranks_s;
    times.bubble_s = page->schedule ? rest : 0;
    times.other_s = spent[CADRE_PHASE_OTHER] + rest - times.bubble_s;
    const uint64_t at = page->n_steps++ % CADRE_RANK_PAGE_STEPS;
    write_cell(&page->shared->times[at].turn, page->shared->times[at].word, &times,
               sizeof times / WORD);
}

void cadre_rank_page_memory(struct cadre_rank_page *page, uint64_t now, uint64_t peak)
{
    if (!page)
        return;
    put(&page->shared->memory_bytes, now);
    put(&page->shared->memory_peak_bytes, peak);
}

void cadre_rank_page_result(struct cadre_rank_page *page,
                            const struct cadre_rank_page_result *result)
{
    if (!page)
        return;
    struct cadre_rank_page_result kept = *result;
    if (!isnan(kept.valid_loss))
        page->valid_loss = kept.valid_loss;
    kept.valid_loss = page->valid_loss;
    write_cell(&page->shared->result.turn, page->shared->result.word, &kept,
               sizeof kept / WORD);
}

void cadre_rank_page_passes(struct cadre_rank_page *page,
                            const struct cadre_rank_page_passes *passes)
{
    if (!page)
        return;
    const uint64_t n =
        passes->n < CADRE_RANK_PAGE_PASSES ? passes->n : CADRE_RANK_PAGE_PASSES;
    const size_t bytes =
        offsetof(struct cadre_rank_page_passes, pass) + n * sizeof passes->pass[0];
    const uint64_t at = passes->step % CADRE_RANK_PAGE_DRAWN;
    write_cell(&page->shared->passes[at].turn, page->shared->passes[at].word, passes,
               bytes / WORD);
}

void cadre_rank_page_say(struct cadre_rank_page *page, const char *text)
{
    struct cadre_rank_page_said said = {{0}};
    if (!page)
        return;
    if (snprintf(said.text, sizeof said.text, "%s", text) >= (int)sizeof said.text)
        memcpy(said.text + sizeof said.text - 4, "...", 4);
    write_cell(&page->shared->said.turn, page->shared->said.word, &said,
               sizeof said / WORD);
}

/* ---- operations ---- */

/* The flight recorder. */
static void record(struct cadre_rank_page *page, const struct cadre_rank_page_op *op)
{
    const uint64_t at = op->number % CADRE_RANK_PAGE_EVENTS;
    put(&page->shared->event[at].ended_ns, 0);
    put(&page->shared->event[at].sequence, 0);
    write_cell(&page->shared->event[at].op.turn, page->shared->event[at].op.word, op,
               sizeof *op / WORD);
}

uint64_t cadre_rank_page_posted(struct cadre_rank_page *page,
                                const struct cadre_rank_page_op *op)
{
    struct cadre_rank_page_op numbered = *op;
    if (!page)
        return 0;
    numbered.number = ++page->n_posted;
    numbered.phase =
        atomic_load_explicit(&page->shared->place, memory_order_relaxed) & 0xff;
    record(page, &numbered);
    put(&page->shared->posted, page->n_posted);
    for (uint32_t i = 0; i < CADRE_RANK_PAGE_OPS; i++) {
        const uint32_t at = (page->next + i) % CADRE_RANK_PAGE_OPS;
        if (page->pending & 1u << at)
            continue;
        page->pending |= 1u << at;
        page->next = (at + 1) % CADRE_RANK_PAGE_OPS;
        put(&page->shared->ended_ns[at], 0);
        write_cell(&page->shared->op[at].turn, page->shared->op[at].word, &numbered,
                   sizeof numbered / WORD);
        return numbered.number << 8 | (at + 1);
    }
    return numbered.number << 8 | CADRE_RANK_PAGE_COUNTED;
}
