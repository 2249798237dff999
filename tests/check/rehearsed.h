/* SPDX-License-Identifier: Apache-2.0 */
/* A strategy for rehearsals: sums gradients over its axis, keeps a counter, and is
 * right where its option `wrong` is 0. Else it makes that one mistake. */
#ifndef CADRE_TESTS_REHEARSED_H
#define CADRE_TESTS_REHEARSED_H

#include "core/plugin/plugin.h"

enum rehearsed_wrong {
    RIGHT,
    ALLOCATES_IN_PLAN,
    CALLS_FROM_A_THREAD,
    ASKS_FOR_AN_UNKNOWN_AXIS,
    ASKS_FOR_AN_UNKNOWN_OPTION,
    IGNORES_A_REFUSAL,
    SAYS_NOTHING,
    PLANS_OTHERWISE_LATER,
    PLANS_OTHERWISE_ON_A_RANK,
    REPORTS_TWICE,
    REPORTS_NEVER,
    SUMS_NOTHING,
    SUMS_TWICE,
    POSTS_ONE_MORE_ON_A_RANK,
    LEAVES_A_RANK_OUT,
    WRITES_IN_FLIGHT,
    FREES_IN_FLIGHT,
    TAKES_MORE_MEMORY,
    WRITES_BEYOND_A_BLOCK,
    SENDS_MORE_LATER,
    PLACES_WITHOUT_A_CLAIM,
    CHANGES_A_PARAMETER,
    REPLICAS_DRIFT,
    DESCRIBES_OTHER_STATE,
    SAVES_A_STATE_TWICE,
    BLOCKS_A_SIGNAL,
    CHANGES_ROUNDING,
    REFUSES, /* in plan, with a reason: no mistake */
    FAILS_IN_STEP, /* on the last rank, with a reason */
    CRASHES_WITHOUT_MEMORY, /* where mem.alloc fails */
    REHEARSED,
};

const struct cadre_plugin_handle *rehearsed_plugin(void);

#endif
