/* SPDX-License-Identifier: Apache-2.0 */
/* A few ranks of one plugin, as threads, with a host that records: no model, no device,
 * no data. Gradients, parameters and activations are small whole numbers, so that every
 * sum has one right value, whatever its order.
 *
 * One rank runs at a time; which one goes on after a service call follows from the
 * seed, so a rehearsal repeats. What an operation delivers is written when it is waited
 * for, not before, or at a time that the seed chooses; until then its buffers hold
 * NaN. Ranks that all wait for each other are found at once, without a timeout.
 *
 * What breaks the contract of the public headers is recorded as a broken rule. The
 * process may crash or hang in the plugin: run it in one of its own. */
#ifndef CADRE_CHECK_REHEARSAL_REHEARSAL_H
#define CADRE_CHECK_REHEARSAL_REHEARSAL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/plugin/plugin.h"

#define CADRE_REHEARSAL_RANKS 4

enum cadre_rule {
    CADRE_RULE_PHASE, /* services from their callbacks, on the rank's thread */
    CADRE_RULE_ARGUMENT, /* NULL, sizes, names, option keys */
    CADRE_RULE_STATUS, /* a call that was refused is an error of the callback */
    CADRE_RULE_TEXT, /* an error has a text */
    CADRE_RULE_PLAN, /* a plan is pure, and equal on all ranks */
    CADRE_RULE_ONCE, /* every pass runs once, every sum is reported once, in order */
    CADRE_RULE_SUM, /* gradients and redistributions are the sums that they should be */
    CADRE_RULE_ORDER, /* ranks post the same operations; nobody waits forever */
    CADRE_RULE_BUFFER, /* buffers in flight are left alone */
    CADRE_RULE_MEMORY, /* within what `memory` announced, and within its blocks */
    CADRE_RULE_WIRE, /* the bytes sent repeat */
    CADRE_RULE_EFFECT, /* nothing is done that was not claimed */
    CADRE_RULE_VALUES, /* parameters and activations are complete when they are read */
    CADRE_RULE_REPLICAS, /* after DRAIN ranks hold the same values */
    CADRE_RULE_STATE, /* state is described alike each time */
    CADRE_RULE_PROCESS, /* signals and rounding are as they were */
    CADRE_RULE_ABORT, /* abort does not block */
    CADRE_RULES,
};

enum cadre_rehearsal_end {
    CADRE_REHEARSAL_DONE,
    CADRE_REHEARSAL_REFUSED, /* in create or plan, with a text: the plugin's right */
    CADRE_REHEARSAL_BEYOND, /* it uses what a rehearsal does not have */
    CADRE_REHEARSAL_FAILED, /* later, by the plugin or by a broken rule */
};

/* Instances are destroyed after this; the order is that of their life. */
enum cadre_rehearsal_until {
    CADRE_UNTIL_END,
    CADRE_UNTIL_CREATED,
    CADRE_UNTIL_PLANNED,
    CADRE_UNTIL_BOUND,
    CADRE_UNTIL_STEPPED, /* one step, without its syncs */
    CADRE_UNTIL_SYNCED, /* one step */
};

/* callbacks, for fail_phases */
#define CADRE_DURING_CREATE 1u
#define CADRE_DURING_PLAN 2u
#define CADRE_DURING_BIND 4u
#define CADRE_DURING_STEP 8u
#define CADRE_DURING_SYNC 16u
#define CADRE_DURING_STATE 32u

struct cadre_rehearsal_setup {
    const struct cadre_plugin_handle *plugin;
    int ranks; /* along the plugin's axis, 1 to CADRE_REHEARSAL_RANKS */
    uint64_t seed;
    uint32_t steps; /* 0: 3 */
    uint32_t rank_microbatches; /* 0: 2 */
    bool wide; /* fp64, else fp32 */
    bool exact, recompute;
    bool shuffled; /* operations complete when the seed says, not as late as possible */
    const char *const *settings; /* "key=value" of the plugin, NULL-terminated */
    enum cadre_rehearsal_until until;
    uint32_t plans; /* of each pass; 0: 1 */
    int fail_rank; /* the rank on which a call fails */
    uint32_t fail_call; /* the n-th service call that can fail does, from 1; 0: none */
    const char *fail_in; /* counts calls whose names begin so ("comm."); NULL: all */
    uint32_t fail_phases; /* counts calls in these, CADRE_DURING_*; 0: all */
    bool frozen; /* some parameters are, as if another plugin had said so */
    bool divided; /* ranks hold the last third of the model, as if beside tensor:3 */
    int late_rank; /* from 1: the rank, plus 1, that is late in step 2; 0: none */
    double late_s;
    bool walled; /* every struct that the host passes ends at an unreadable page */
    uint32_t extra; /* bytes that service tables and structs have beyond today's */
    uint32_t missing; /* bytes that service tables lack */
    bool reload; /* a second set of instances loads the state of the first */
    bool damaged; /* ... which is random bytes */
};

struct cadre_rehearsal_report {
    enum cadre_rehearsal_end end;
    char text[640]; /* why it did not get to its end */
    struct {
        bool broken;
        char text[512]; /* the first time */
    } rule[CADRE_RULES];
    uint32_t calls; /* that were counted for fail_call */
    bool failed_on_purpose; /* fail_call was reached */
    char failed_call[48]; /* which one */
    uint64_t order; /* hash of rank 0's operations */
    uint64_t sent; /* bytes of all ranks in the last step, by the formulas of comm.h */
    uint32_t aborts; /* instances that were told of another's failure */
    uint32_t state_entries;
    bool by_design, diverges, reduces, scheduled, redistributes, places, optimizes;
    bool time; /* it splits the time of samples */
    bool cyclic, keeps;
    uint64_t period;
    char equal[256]; /* the setting of by_design */
    double slowest_s; /* CPU seconds of one callback, besides create, plan and bind */
    char slowest[32];
};

/* Carry it out; *report says what was seen. `device` services are computed on this
 * CPU. [main; starts and joins threads] Errors, of the kit: CADRE_E_RESOURCE,
 * CADRE_E_INVALID for a setting that the plugin's options refuse. */
cadre_status cadre_rehearse(const struct cadre_rehearsal_setup *setup,
                            struct cadre_rehearsal_report *report,
                            struct cadre_error *err);

/* "K2", ...: the check that holds the plugin to a rule; and the rule in words. */
const char *cadre_rule_words(enum cadre_rule rule);

#endif
