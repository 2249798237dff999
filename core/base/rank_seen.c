/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/rank_seen.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/memory.h"
#include "core/base/path.h"

#define TRIES 8
#define MOST_RANKS 1000000
#define A_LONG_TIME 1e10 /* s; nothing on a page is as old */
/* Of two readings of when the same process began. */
#define SAME_BEGIN_S 0.02

const char *cadre_rank_state_name(enum cadre_rank_state state)
{
    static const char *const names[CADRE_RANK_STATES] = {
        "starting", "training", "evaluating", "saving", "ended", "stopped", "failed"};
    return state < CADRE_RANK_STATES ? names[state] : "?";
}

const char *cadre_rank_phase_name(enum cadre_rank_phase phase)
{
    static const char *const names[CADRE_PHASES] = {"other", "forward",    "backward",
                                                    "data",  "collective", "optimizer"};
    return phase < CADRE_PHASES ? names[phase] : "?";
}

bool cadre_rank_state_is_last(enum cadre_rank_state state)
{
    return state == CADRE_RANK_ENDED || state == CADRE_RANK_STOPPED ||
           state == CADRE_RANK_FAILED;
}

/* ---- the bytes ---- */

/* Two readings of the file, one after the other: a cell that is the same in both, with
 * an even turn, was not being written. A mapping would do as well, but for a file that
 * another process cuts. */
struct reading {
    int fd;
    struct cadre_rank_page_shared *page[2];
};

/* Without the events. */
static bool read_once(int fd, struct cadre_rank_page_shared *page)
{
    const size_t bytes = offsetof(struct cadre_rank_page_shared, event);
    return pread(fd, page, bytes, 0) == (ssize_t)bytes;
}

static bool read_both(struct reading *r)
{
    return read_once(r->fd, r->page[0]) && read_once(r->fd, r->page[1]);
}

/* A cell at `offset` of the page, its turn first; false where it never was whole. */
static bool read_cell(struct reading *r, size_t offset, void *to, size_t bytes)
{
    for (int i = 0; i < TRIES; i++) {
        const char *a = (const char *)r->page[0] + offset;
        const char *b = (const char *)r->page[1] + offset;
        uint64_t turn;
        memcpy(&turn, a, sizeof turn);
        if (turn % 2 == 0 && memcmp(a, b, sizeof turn + bytes) == 0) {
            memcpy(to, a + sizeof turn, bytes);
            return turn > 0;
        }
        if (!read_both(r))
            return false;
    }
    return false;
}

#define CELL_OF(member) offsetof(struct cadre_rank_page_shared, member)

static uint64_t word(const _Atomic uint64_t *from)
{
    return atomic_load_explicit(from, memory_order_relaxed);
}

/* ---- what it says ---- */

static void end_text(char *text, size_t size)
{
    text[size - 1] = '\0';
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
}

#define END_TEXT(text) end_text(text, sizeof(text))

static cadre_status check_head(const char *path, struct cadre_rank_page_head *head,
                               struct cadre_error *err)
{
    if (memcmp(head->magic, CADRE_RANK_PAGE_MAGIC, sizeof CADRE_RANK_PAGE_MAGIC) != 0)
        return cadre_fail(err, CADRE_E_INVALID, "'%s' is no rank's status page", path);
    if (head->version != CADRE_RANK_PAGE_VERSION)
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' is a status page of version %u, this cadre reads "
                          "version %u; use the cadre that trains the run",
                          path, head->version, CADRE_RANK_PAGE_VERSION);
    if (head->bytes != sizeof(struct cadre_rank_page_shared) || head->ranks < 1 ||
        head->ranks > MOST_RANKS || head->rank < 0 || head->rank >= head->ranks ||
        head->pid <= 0 || head->tid <= 0 || head->first_step < 0 ||
        head->last_step < 0 || head->step_tokens < 0 || !isfinite(head->clock_offset_s))
        return cadre_fail(err, CADRE_E_INVALID, "the status page '%s' is damaged",
                          path);
    END_TEXT(head->host);
    END_TEXT(head->name);
    END_TEXT(head->stack);
    return CADRE_OK;
}

static bool is_same_boot(const struct cadre_rank_page_head *head, bool *same_pids)
{
    uint64_t boot, pids;
    cadre_rank_page_here(&boot, &pids);
    const bool same = boot != 0 && boot == head->boot;
    *same_pids = same && pids != 0 && pids == head->pid_namespace;
    return same;
}

static enum cadre_rank_alive alive(const struct cadre_rank_page_head *head)
{
    const double begin = cadre_clock_process_boot_s((pid_t)head->pid);
    const bool there = kill((pid_t)head->pid, 0) == 0 || errno == EPERM;
    if (!there || cadre_clock_process_ended((pid_t)head->pid))
        return CADRE_RANK_GONE;
    if (isnan(begin) || head->process_begin <= 0)
        return CADRE_RANK_ALIVE;
    /* the number may be another process's by now */
    return fabs(begin - head->process_begin) <= SAME_BEGIN_S ? CADRE_RANK_ALIVE
                                                             : CADRE_RANK_GONE;
}

/* Now, by the writer's clock. */
static double writers_now(const struct cadre_rank_page_head *head, bool same_boot)
{
    if (same_boot)
        return cadre_now_s();
    return cadre_wall_clock_s() - head->clock_offset_s;
}

static double age(double now, double then)
{
    const double seconds = now - then;
    if (!(then > 0) || !(seconds < A_LONG_TIME) || seconds < -A_LONG_TIME)
        return NAN;
    return seconds > 0 ? seconds : 0;
}

static double age_ns(double now, uint64_t then)
{
    return age(now, 1e-9 * (double)then);
}

static void read_now(const struct cadre_rank_page_shared *page, double now,
                     struct cadre_rank_seen *seen)
{
    const uint64_t state = word(&page->state), place = word(&page->place);
    seen->state =
        state < CADRE_RANK_STATES ? (enum cadre_rank_state)state : CADRE_RANK_STARTING;
    seen->phase = (place & 0xff) < CADRE_PHASES ? (enum cadre_rank_phase)(place & 0xff)
                                                : CADRE_PHASE_OTHER;
    seen->chunk = (uint32_t)(place >> 8) & 0xffffff;
    seen->microbatch = (uint32_t)(place >> 32);
    seen->step = word(&page->step);
    seen->phase_s = age_ns(now, word(&page->beat_ns));
    seen->begun_s = age_ns(now, word(&page->begun_ns));
    seen->memory_bytes = word(&page->memory_bytes);
    seen->memory_peak_bytes = word(&page->memory_peak_bytes);
    seen->posted = word(&page->posted);
    seen->ended = word(&page->ended);
}

static void take_op(struct cadre_rank_seen *seen, const struct cadre_rank_page_op *op,
                    uint64_t ended_ns, double now)
{
    struct cadre_rank_seen_op found = {*op, age(now, op->posted_s)};
    if (ended_ns == 0) {
        if (!seen->has_pending || op->number < seen->pending.op.number)
            seen->pending = found;
        seen->has_pending = true;
        return;
    }
    found.age_s = age_ns(now, ended_ns);
    if (ended_ns == CADRE_RANK_PAGE_REFUSED || isnan(found.age_s))
        return;
    if (!seen->has_ended || found.age_s < seen->last.age_s)
        seen->last = found;
    seen->has_ended = true;
}

static void read_ops(struct reading *r, double now, struct cadre_rank_seen *seen)
{
    for (size_t i = 0; i < CADRE_RANK_PAGE_OPS; i++) {
        struct cadre_rank_page_op op;
        if (!read_cell(r, CELL_OF(op) + i * sizeof r->page[0]->op[0], &op, sizeof op))
            continue;
        END_TEXT(op.kind);
        END_TEXT(op.label);
        END_TEXT(op.comm);
        END_TEXT(op.plugin);
        if (op.number > 0)
            take_op(seen, &op, word(&r->page[0]->ended_ns[i]), now);
    }
}

static bool is_time(double seconds)
{
    return seconds >= 0 && seconds < A_LONG_TIME;
}

static bool are_times(const struct cadre_rank_page_step *t)
{
    return t->step > 0 && is_time(t->step_s) && is_time(t->compute_s) &&
           is_time(t->comm_exposed_s) && is_time(t->wait_ranks_s) &&
           is_time(t->bubble_s) && is_time(t->data_s) && is_time(t->optim_s) &&
           is_time(t->other_s);
}

static int by_step(const void *a, const void *b)
{
    const struct cadre_rank_page_step *x = a, *y = b;
    return (x->step > y->step) - (x->step < y->step);
}

static void read_times(struct reading *r, struct cadre_rank_seen *seen)
{
    for (size_t i = 0; i < CADRE_RANK_PAGE_STEPS; i++) {
        struct cadre_rank_page_step *to = &seen->times[seen->n_times];
        if (read_cell(r, CELL_OF(times) + i * sizeof r->page[0]->times[0], to,
                      sizeof *to) &&
            are_times(to))
            seen->n_times++;
    }
    qsort(seen->times, seen->n_times, sizeof seen->times[0], by_step);
}

static void read_passes(struct reading *r, size_t at,
                        struct cadre_rank_page_passes *passes)
{
    if (!read_cell(r, CELL_OF(passes) + at * sizeof r->page[0]->passes[0], passes,
                   sizeof *passes) ||
        passes->n > CADRE_RANK_PAGE_PASSES)
        passes->n = 0;
    for (size_t i = 0; i < passes->n; i++) {
        const struct cadre_rank_page_pass *pass = &passes->pass[i];
        if (pass->kind > 3 || !is_time(pass->end - pass->begin) || !(pass->begin > 0))
            passes->n = 0;
    }
}

static void read_cells(struct reading *r, double now, struct cadre_rank_seen *seen)
{
    const struct cadre_rank_page_result none = {
        .loss = NAN, .grad_norm = NAN, .lr = NAN, .valid_loss = NAN};
    struct cadre_rank_page_said said;
    read_ops(r, now, seen);
    read_times(r, seen);
    for (size_t i = 0; i < CADRE_RANK_PAGE_DRAWN; i++)
        read_passes(r, i, &seen->passes[i]);
    if (!read_cell(r, CELL_OF(result), &seen->result, sizeof seen->result))
        seen->result = none;
    if (read_cell(r, CELL_OF(said), &said, sizeof said))
        memcpy(seen->said, said.text, sizeof seen->said);
    END_TEXT(seen->said);
}

static cadre_status read_all(const char *path, struct reading *r,
                             struct cadre_rank_seen *seen, struct cadre_error *err)
{
    struct stat info;
    bool same_pids;
    if (fstat(r->fd, &info) != 0)
        return cadre_fail_errno(err, CADRE_E_IO, errno, "cannot read '%s'", path);
    if (!S_ISREG(info.st_mode) || info.st_size < (off_t)sizeof seen->head ||
        pread(r->fd, &seen->head, sizeof seen->head, 0) != (ssize_t)sizeof seen->head)
        return cadre_fail(err, CADRE_E_INVALID, "'%s' is no rank's status page", path);
    CADRE_TRY(check_head(path, &seen->head, err));
    if (info.st_size < (off_t)sizeof(struct cadre_rank_page_shared) || !read_both(r))
        return cadre_fail(err, CADRE_E_INVALID, "the status page '%s' is cut", path);
    const bool same_boot = is_same_boot(&seen->head, &same_pids);
    const double now = writers_now(&seen->head, same_boot);
    seen->alive = same_pids ? alive(&seen->head) : CADRE_RANK_ELSEWHERE;
    read_now(r->page[1], now, seen);
    read_cells(r, now, seen);
    return CADRE_OK;
}

cadre_status cadre_rank_seen_read(const char *path, struct cadre_rank_seen *seen,
                                  struct cadre_error *err)
{
    struct reading r = {.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    cadre_status rc;
    memset(seen, 0, sizeof *seen);
    if (r.fd < 0)
        return cadre_fail_errno(err, CADRE_E_IO, errno, "cannot read '%s'", path);
    for (int i = 0; i < 2; i++)
        r.page[i] = cadre_calloc(1, sizeof *r.page[i]);
    rc = r.page[0] && r.page[1] ? read_all(path, &r, seen, err)
                                : cadre_no_memory(err, "a status page");
    free(r.page[0]);
    free(r.page[1]);
    close(r.fd);
    return rc;
}

/* ---- all pages of a run ---- */

/* "rank-00003", and not what is being made beside it. */
static bool is_page(const char *name)
{
    const char *digits = name + strlen("rank-");
    return strncmp(name, "rank-", strlen("rank-")) == 0 && *digits &&
           digits[strspn(digits, "0123456789")] == '\0';
}

int cadre_rank_seen_count(const char *dir, struct cadre_error *err)
{
    struct cadre_rank_seen *seen = cadre_calloc(1, sizeof *seen);
    char *folder = cadre_path_join(dir, "status");
    DIR *open = folder ? opendir(folder) : NULL;
    int ranks = 0;
    cadre_fail(err, CADRE_E_INVALID,
               "'%s' has no status of a run: expected the folder that `cadre train` "
               "trains into (--out), and a run that has begun",
               dir);
    for (struct dirent *entry; seen && open && ranks == 0 && (entry = readdir(open));) {
        if (!is_page(entry->d_name))
            continue;
        char *path = cadre_path_join(folder, entry->d_name);
        if (path && cadre_rank_seen_read(path, seen, err) == CADRE_OK)
            ranks = seen->head.ranks;
        free(path);
    }
    if (open)
        closedir(open);
    free(folder);
    free(seen);
    return ranks;
}
