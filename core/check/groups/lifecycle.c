/* SPDX-License-Identifier: Apache-2.0 */
/* From create to destroy: nothing is left behind, whatever fails. */
#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/check/groups/groups.h"

#define MANY 1000
#define PLANS 100u

/* What a process holds. */
struct holdings {
    uint64_t heap;
    int threads, descriptors;
};

static int count_entries(const char *folder)
{
    DIR *dir = opendir(folder);
    int n = 0;
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir))
        n += entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return n;
}

/* Threads of a rehearsal are joined, and gone from /proc soon after. */
static void take_stock(struct holdings *out, int threads_expected)
{
    out->descriptors = count_entries("/proc/self/fd");
    for (int i = 0; i < 2000; i++) {
        out->threads = count_entries("/proc/self/task");
        if (out->threads <= threads_expected)
            break;
        usleep(1000);
    }
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
    struct mallinfo2 now = mallinfo2();
    out->heap = now.uordblks + now.hblkhd;
#else
    out->heap = 0;
#endif
}

static int ranks_of(const struct cadre_plugin_handle *plugin)
{
    return plugin->desc.axis ? 2 : 1;
}

static struct cadre_rehearsal_setup setup_of(const struct cadre_case *c,
                                             const struct cadre_plugin_handle *plugin)
{
    return (struct cadre_rehearsal_setup){
        .plugin = plugin, .ranks = ranks_of(plugin), .seed = c->seed};
}

/* ---- C1 ---- */

static void compare_stock(struct cadre_case *c, const struct holdings *before,
                          const struct holdings *after, int rounds)
{
    if (after->threads > before->threads)
        cadre_case_fail(c, "%d create and destroy leave %d threads behind", rounds,
                        after->threads - before->threads);
    if (after->descriptors > before->descriptors)
        cadre_case_fail(c, "%d create and destroy leave %d open files behind", rounds,
                        after->descriptors - before->descriptors);
    if (after->heap > before->heap + (uint64_t)rounds * 8)
        cadre_case_fail(c, "%d create and destroy leave %llu bytes allocated", rounds,
                        (unsigned long long)(after->heap - before->heap));
}

static void many_lives(struct cadre_case *c)
{
    const struct cadre_plugin_handle *plugin = cadre_case_plugin(c);
    struct cadre_rehearsal_report report;
    struct holdings before, after;
    if (!plugin)
        return;
    struct cadre_rehearsal_setup setup = setup_of(c, plugin);
    int rounds = c->quick ? MANY / 10 : MANY;
    setup.ranks = 1;
    setup.until = CADRE_UNTIL_CREATED;
    mallopt(M_ARENA_MAX, 1);
    /* what is made once, a library opened for instance, is no leak */
    for (int i = 0; i < 2; i++)
        if (!cadre_case_rehearse(c, &setup, &report))
            return;
    if (report.end == CADRE_REHEARSAL_REFUSED) {
        cadre_case_refused(c, "%s", report.text);
        return;
    }
    take_stock(&before, 1);
    for (int i = 0; i < rounds; i++)
        if (!cadre_case_rehearse(c, &setup, &report))
            return;
    take_stock(&after, before.threads);
    /* a thread that ends late holds the same as one of the first two rounds */
    if (before.threads > 1)
        cadre_case_fail(c, "create starts a thread that destroy does not end");
    compare_stock(c, &before, &after, rounds);
}

/* ---- C2 ---- */

/* Each service call of `phase`, by its number, fails once. */
static bool fail_one(struct cadre_case *c, struct cadre_rehearsal_setup *setup,
                     struct cadre_rehearsal_report *report)
{
    struct holdings before, after;
    for (int i = 0; i < 3; i++) {
        if (i == 1)
            take_stock(&before, 1);
        if (!cadre_case_rehearse(c, setup, report))
            return false;
    }
    take_stock(&after, before.threads);
    if (!report->failed_on_purpose)
        return false;
    if (report->end == CADRE_REHEARSAL_DONE &&
        strcmp(report->failed_call, "host.service") != 0)
        cadre_case_fail(c, "%s failed, and the plugin went on", report->failed_call);
    if (report->rule[CADRE_RULE_STATUS].broken || report->rule[CADRE_RULE_TEXT].broken)
        cadre_case_fail(c, "%s failed: %s", report->failed_call,
                        report->rule[CADRE_RULE_STATUS].broken
                            ? report->rule[CADRE_RULE_STATUS].text
                            : report->rule[CADRE_RULE_TEXT].text);
    if (after.heap > before.heap + 16)
        cadre_case_fail(c,
                        "where call %u (%s) fails, %llu bytes stay allocated: release "
                        "everything before create returns an error",
                        setup->fail_call, report->failed_call,
                        (unsigned long long)(after.heap - before.heap) / 2);
    return !c->failing;
}

static void failing_calls(struct cadre_case *c)
{
    const struct cadre_plugin_handle *plugin = cadre_case_plugin(c);
    struct cadre_rehearsal_report report;
    uint32_t done = 0;
    if (!plugin)
        return;
    struct cadre_rehearsal_setup setup = setup_of(c, plugin);
    setup.ranks = 1;
    setup.until = CADRE_UNTIL_CREATED;
    setup.fail_phases = CADRE_DURING_CREATE;
    mallopt(M_ARENA_MAX, 1);
    for (setup.fail_call = 1; setup.fail_call < 200; setup.fail_call++, done++)
        if (!fail_one(c, &setup, &report))
            break;
    if (!c->failing)
        cadre_case_note(c, "%u calls of create failed in turn", done);
}

/* ---- C3, C4 ---- */

static void report_rules(struct cadre_case *c,
                         const struct cadre_rehearsal_report *report)
{
    for (int rule = 0; rule < CADRE_RULES; rule++)
        if (report->rule[rule].broken)
            cadre_case_fail(c, "%s", report->rule[rule].text);
    if (!c->failing && report->end == CADRE_REHEARSAL_FAILED)
        cadre_case_fail(c, "%s", report->text);
    if (report->end == CADRE_REHEARSAL_REFUSED)
        cadre_case_refused(c, "%s", report->text);
    if (report->end == CADRE_REHEARSAL_BEYOND)
        cadre_case_unsupported(c, "%s", report->text);
}

/* One instance alone does what it should; two of one process do the same. */
static void two_instances(struct cadre_case *c)
{
    const struct cadre_plugin_handle *plugin = cadre_case_plugin(c);
    struct cadre_rehearsal_report report;
    if (!plugin)
        return;
    struct cadre_rehearsal_setup setup = setup_of(c, plugin);
    setup.steps = 1;
    setup.until = CADRE_UNTIL_SYNCED;
    setup.ranks = 1;
    if (!cadre_case_rehearse(c, &setup, &report))
        return;
    if (report.end == CADRE_REHEARSAL_FAILED) {
        cadre_case_unsupported(c, "one instance alone fails already: %s", report.text);
        return;
    }
    setup.ranks = ranks_of(plugin);
    for (uint64_t i = 0; i < 4 && !c->failing; i++) {
        setup.seed = c->seed + i;
        setup.shuffled = i > 0;
        if (!cadre_case_rehearse(c, &setup, &report))
            return;
        report_rules(c, &report);
    }
}

static void pure_plan(struct cadre_case *c)
{
    const struct cadre_plugin_handle *plugin = cadre_case_plugin(c);
    struct cadre_rehearsal_report report;
    if (!plugin)
        return;
    struct cadre_rehearsal_setup setup = setup_of(c, plugin);
    setup.plans = PLANS;
    setup.until = CADRE_UNTIL_PLANNED;
    mallopt(M_ARENA_MAX, 1);
    for (int ranks = 1; ranks <= (plugin->desc.axis ? 4 : 1) && !c->failing; ranks++) {
        setup.ranks = ranks;
        if (!cadre_case_rehearse(c, &setup, &report))
            return;
        if (report.rule[CADRE_RULE_PLAN].broken)
            cadre_case_fail(c, "%s", report.rule[CADRE_RULE_PLAN].text);
        else if (report.end == CADRE_REHEARSAL_REFUSED && ranks == 2)
            cadre_case_refused(c, "%s", report.text);
    }
}

/* ---- C5 ---- */

/* What a plan cannot do, it says; a status alone helps nobody. */
static void refusals(struct cadre_case *c)
{
    const struct cadre_plugin_handle *plugin = cadre_case_plugin(c);
    struct cadre_rehearsal_report report;
    uint32_t refused = 0;
    struct cadre_variant variant;
    for (uint32_t i = 0; plugin && !c->failing &&
                         cadre_variant_get(plugin, i, c->seed, c->quick, &variant);
         i++) {
        variant.setup.until = CADRE_UNTIL_PLANNED;
        if (!cadre_case_rehearse(c, &variant.setup, &report))
            return;
        refused += report.end == CADRE_REHEARSAL_REFUSED;
        if (report.rule[CADRE_RULE_TEXT].broken)
            cadre_case_fail(c, "%s: %s", variant.name,
                            report.rule[CADRE_RULE_TEXT].text);
    }
    if (plugin && !c->failing)
        cadre_case_note(c, "%u refused, each with a text", refused);
}

/* ---- C6, C7 ---- */

/* One rank cannot bind; the others have, and are told. */
static void one_rank_fails(struct cadre_case *c)
{
    const struct cadre_plugin_handle *plugin = cadre_case_stepping(c);
    struct cadre_rehearsal_report report;
    if (!plugin)
        return;
    struct cadre_rehearsal_setup setup = setup_of(c, plugin);
    setup.fail_rank = setup.ranks - 1;
    setup.fail_phases = CADRE_DURING_BIND;
    uint32_t done = 0;
    for (setup.fail_call = 1; setup.fail_call < 40; setup.fail_call++, done++) {
        if (!cadre_case_rehearse(c, &setup, &report))
            return;
        if (!report.failed_on_purpose)
            break;
        if (report.rule[CADRE_RULE_STATUS].broken)
            cadre_case_fail(c, "%s failed in bind of one rank: %s", report.failed_call,
                            report.rule[CADRE_RULE_STATUS].text);
    }
    if (!c->failing)
        cadre_case_note(c, "%u calls of bind failed in turn, and all ranks ended",
                        done);
}

static bool live_to_every_end(struct cadre_case *c,
                              const struct cadre_plugin_handle *plugin)
{
    static const struct {
        enum cadre_rehearsal_until until;
        const char *name;
    } ends[] = {{CADRE_UNTIL_CREATED, "create"},
                {CADRE_UNTIL_PLANNED, "plan"},
                {CADRE_UNTIL_BOUND, "bind"},
                {CADRE_UNTIL_STEPPED, "a step without its syncs"},
                {CADRE_UNTIL_SYNCED, "a step"}};
    struct cadre_rehearsal_report report;
    struct cadre_rehearsal_setup setup = setup_of(c, plugin);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        setup.until = ends[i].until;
        if (!cadre_case_rehearse(c, &setup, &report))
            return false;
        for (int rule = 0; rule < CADRE_RULES; rule++)
            if (report.rule[rule].broken &&
                strstr(report.rule[rule].text, " in destroy"))
                cadre_case_fail(c, "destroy after %s: %s", ends[i].name,
                                report.rule[rule].text);
    }
    return true;
}

/* Twice, as what is opened once may stay. */
static void every_end(struct cadre_case *c)
{
    const struct cadre_plugin_handle *plugin = cadre_case_plugin(c);
    struct holdings at_first, before, after;
    if (!plugin)
        return;
    take_stock(&at_first, 1);
    if (!live_to_every_end(c, plugin))
        return;
    take_stock(&before, 1);
    if (!live_to_every_end(c, plugin))
        return;
    take_stock(&after, before.threads);
    if (before.descriptors < at_first.descriptors)
        cadre_case_fail(c, "closes %d files of the host",
                        at_first.descriptors - before.descriptors);
    if (after.descriptors > before.descriptors)
        cadre_case_fail(c, "leaves %d files open after destroy",
                        after.descriptors - before.descriptors);
    if (after.threads > before.threads)
        cadre_case_fail(c, "leaves %d threads behind after destroy",
                        after.threads - before.threads);
    cadre_case_note(c, "destroyed after create, plan, bind, half a step and a step");
}

#define CHECK(ID, TITLE, WHY, SLOW, RUN)                                               \
    {                                                                                  \
        .id = ID, .group = "lifecycle", .title = TITLE, .why = WHY,                    \
        .see = "docs/check.md", .level = CADRE_LEVEL_CORRECT, .needs = "D6",           \
        .slow = SLOW, .run = RUN                                                       \
    }

static const struct cadre_check checks[] = {
    CHECK("C1", "create and destroy leave nothing behind",
          "A sweep and a comparison create hundreds of instances in one process.",
          false, many_lives),
    CHECK("C2", "create fails at each of its calls in turn, and releases everything",
          "The host does not call destroy of what was never created.", false,
          failing_calls),
    CHECK("C3", "two instances in one process know nothing of each other",
          "Ranks may be threads; a stack may have the plugin twice.", false,
          two_instances),
    CHECK("C4", "plan gives the same answer each time, and leaves nothing allocated",
          "Plans repeat until they agree, and all ranks must agree on the last.", false,
          pure_plan),
    CHECK("C5", "what plan cannot do is refused in one line",
          "'failed without saying why' is all that a user sees otherwise.", false,
          refusals),
    CHECK("C6", "bind fails on one rank, and all end",
          "The others wait in their first collective for ever.", false, one_rank_fails),
    CHECK("C7", "destroy after create, plan, bind, half a step and a step",
          "--dry-run stops after plan, an error anywhere.", false, every_end),
};

const struct cadre_check_group cadre_check_lifecycle = {
    "lifecycle", checks, sizeof checks / sizeof checks[0]};
