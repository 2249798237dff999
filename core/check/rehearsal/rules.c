/* SPDX-License-Identifier: Apache-2.0 */
/* What is broken is recorded once for each rule; the first refusal of a player ends the
 * rehearsal, as it would end a run. */
#include <fenv.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/check/rehearsal/private.h"

const char *cadre_rule_words(enum cadre_rule rule)
{
    static const char *const words[CADRE_RULES] = {
        [CADRE_RULE_PHASE] = "services are called where the headers allow it",
        [CADRE_RULE_ARGUMENT] = "arguments of services are valid",
        [CADRE_RULE_STATUS] = "a refused call fails its callback",
        [CADRE_RULE_TEXT] = "an error has a text",
        [CADRE_RULE_PLAN] = "the plan is pure and equal on all ranks",
        [CADRE_RULE_ONCE] = "each pass and each sum comes once, in order",
        [CADRE_RULE_SUM] = "sums are what they should be",
        [CADRE_RULE_ORDER] = "ranks post the same operations in the same order",
        [CADRE_RULE_BUFFER] = "buffers in flight are left alone",
        [CADRE_RULE_MEMORY] = "memory is as announced",
        [CADRE_RULE_WIRE] = "the bytes sent repeat",
        [CADRE_RULE_EFFECT] = "only what was claimed is done",
        [CADRE_RULE_VALUES] = "values are complete when they are read",
        [CADRE_RULE_REPLICAS] = "ranks hold equal values after DRAIN",
        [CADRE_RULE_STATE] = "state is described alike each time",
        [CADRE_RULE_PROCESS] = "signals and rounding are as they were",
        [CADRE_RULE_ABORT] = "abort does not block",
    };
    return words[rule];
}

static void record(struct cadre_player *p, enum cadre_rule rule, const char *text)
{
    struct cadre_rehearsal_report *report = p->all->report;
    if (report->rule[rule].broken)
        return;
    char step[40] = "";
    if (p->step)
        snprintf(step, sizeof step, " of step %llu", (unsigned long long)p->step);
    report->rule[rule].broken = true;
    snprintf(report->rule[rule].text, sizeof report->rule[rule].text,
             "rank %d of %d in %s%s: %s", p->rank, p->all->ranks,
             p->callback ? p->callback : "the host", step, text);
}

void play_break_rule(struct cadre_player *p, enum cadre_rule rule, const char *fmt, ...)
{
    char text[384];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    record(p, rule, text);
}

cadre_status play_refuse(struct cadre_player *p, enum cadre_rule rule, const char *fmt,
                         ...)
{
    char text[384];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    record(p, rule, text);
    if (p->failure.code == CADRE_OK)
        cadre_fail(&p->failure, CADRE_E_INVALID, "%s", text);
    return CADRE_E_INVALID;
}

cadre_status play_beyond(struct cadre_player *p, const char *what)
{
    struct cadre_rehearsal_report *report = p->all->report;
    report->end = CADRE_REHEARSAL_BEYOND;
    snprintf(report->text, sizeof report->text, "a rehearsal has no %s", what);
    if (p->failure.code == CADRE_OK)
        cadre_fail(&p->failure, CADRE_E_UNSUPPORTED, "a rehearsal has no %s", what);
    return CADRE_E_UNSUPPORTED;
}

cadre_status play_enter_sure(struct cadre_player *p, uint32_t phases, const char *what)
{
    if (!pthread_equal(pthread_self(), p->thread)) {
        /* the turn is another's: nothing but the record is touched */
        play_break_rule(
            p, CADRE_RULE_PHASE,
            "%s is called from a thread that the plugin started; only fail, log "
            "and random numbers may be",
            what);
        return CADRE_E_INVALID;
    }
    if (!(p->phase & phases))
        return play_refuse(
            p, CADRE_RULE_PHASE,
            "%s may not be called here; the header says in which callbacks it "
            "may",
            what);
    return CADRE_OK;
}

bool play_fails_on_purpose(struct cadre_player *p, const char *what)
{
    const struct cadre_rehearsal_setup *setup = p->all->setup;
    struct cadre_rehearsal_report *report = p->all->report;
    if (p->rank != setup->fail_rank ||
        (setup->fail_phases && !(setup->fail_phases & p->phase)) ||
        (setup->fail_in && strncmp(what, setup->fail_in, strlen(setup->fail_in)) != 0))
        return false;
    report->calls = ++p->calls;
    if (p->calls != setup->fail_call)
        return false;
    report->failed_on_purpose = true;
    snprintf(report->failed_call, sizeof report->failed_call, "%s", what);
    return true;
}

cadre_status play_enter(struct cadre_player *p, uint32_t phases, const char *what)
{
    CADRE_TRY(play_enter_sure(p, phases, what));
    if (play_fails_on_purpose(p, what)) {
        if (p->failure.code == CADRE_OK)
            cadre_fail(&p->failure, CADRE_E_RESOURCE, "%s failed on purpose", what);
        return CADRE_E_RESOURCE;
    }
    if (p->all->stop && (phases & IN_RUN) && !(phases & IN_DESTROY))
        return CADRE_E_ABORTED;
    if (p->all->setup->shuffled && play_draw(p->all, 4) == 0)
        play_take_turns(p);
    return CADRE_OK;
}

/* ---- callbacks ---- */

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void play_callback_begin(struct cadre_player *p, uint32_t phase, const char *name)
{
    p->outer[p->depth % CALLBACK_DEPTH] =
        (struct callback){.phase = p->phase, .name = p->callback, .cpu_s = cpu_s()};
    struct callback *outer = &p->outer[p->depth % CALLBACK_DEPTH];
    pthread_sigmask(SIG_BLOCK, NULL, &outer->mask);
    outer->rounding = fegetround();
    p->depth++;
    p->phase = phase;
    p->callback = name;
}

/* Those that are called once, and step, in which the host works, are not timed. */
static void watch_time(struct cadre_player *p, double begin_s)
{
    struct cadre_rehearsal_report *report = p->all->report;
    double took = cpu_s() - begin_s;
    if (p->stepping && p->phase == IN_STEP && p->depth == 1)
        return;
    if ((p->phase & (IN_STEP | IN_SYNC | IN_UPDATE)) && took > report->slowest_s) {
        report->slowest_s = took;
        snprintf(report->slowest, sizeof report->slowest, "%s", p->callback);
    }
}

/* Both are put back, so that what follows is judged by itself. */
static void watch_process(struct cadre_player *p, const struct callback *outer)
{
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    for (int sig = 1; sig < NSIG; sig++)
        if (sigismember(&mask, sig) != sigismember(&outer->mask, sig)) {
            play_break_rule(p, CADRE_RULE_PROCESS, "leaves signal %d (%s) %s", sig,
                            strsignal(sig),
                            sigismember(&mask, sig) ? "blocked" : "unblocked");
            break;
        }
    pthread_sigmask(SIG_SETMASK, &outer->mask, NULL);
    if (fegetround() != outer->rounding)
        play_break_rule(p, CADRE_RULE_PROCESS,
                        "leaves another rounding mode: every later result is another");
    fesetround(outer->rounding);
}

cadre_status play_callback_end(struct cadre_player *p, cadre_status rc)
{
    const struct callback *outer = &p->outer[(p->depth - 1) % CALLBACK_DEPTH];
    watch_time(p, outer->cpu_s);
    watch_process(p, outer);
    bool lacks = p->all->report->end == CADRE_REHEARSAL_BEYOND;
    if (rc == CADRE_OK && lacks) {
        rc = CADRE_E_UNSUPPORTED;
    } else if (rc == CADRE_OK && p->failure.code != CADRE_OK && !p->all->stop) {
        play_break_rule(
            p, CADRE_RULE_STATUS,
            "returns CADRE_OK although the host refused a call (%s): return the "
            "status of every call",
            p->failure.text);
        rc = p->failure.code;
    } else if (rc != CADRE_OK && p->failure.code == CADRE_OK && !p->all->stop) {
        play_break_rule(
            p, CADRE_RULE_TEXT,
            "returns status %d (%s) without saying why: call host->fail first", (int)rc,
            cadre_strerror(rc));
        cadre_fail(&p->failure, rc, "%s failed without saying why", p->callback);
    }
    p->last_phase = p->phase;
    p->depth--;
    p->phase = outer->phase;
    p->callback = outer->name;
    return rc;
}
