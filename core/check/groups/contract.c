/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of a step, held in rehearsals. Each check looks for its own rule in the
 * same rehearsals, so that a failure names what was broken. */
#include "core/check/groups/groups.h"

#define RULE(name) (1u << CADRE_RULE_##name)

static void once(struct cadre_case *c)
{
    cadre_case_hold(c, RULE(ONCE));
}

static void sums(struct cadre_case *c)
{
    cadre_case_hold(c, RULE(SUM));
}

static void order(struct cadre_case *c)
{
    cadre_case_hold(c, RULE(ORDER));
}

static void buffers(struct cadre_case *c)
{
    cadre_case_hold(c, RULE(BUFFER));
}

static void memory(struct cadre_case *c)
{
    cadre_case_hold(c, RULE(MEMORY));
}

static void wire(struct cadre_case *c)
{
    cadre_case_hold(c, RULE(WIRE));
}

static void effects(struct cadre_case *c)
{
    cadre_case_hold(c, RULE(EFFECT));
}

static void values(struct cadre_case *c)
{
    cadre_case_hold(c, RULE(VALUES) | RULE(REPLICAS));
}

static void arguments(struct cadre_case *c)
{
    cadre_case_hold(c, RULE(ARGUMENT));
}

#define SEE "docs/check.md"
#define CHECK(ID, TITLE, WHY, RUN)                                                     \
    {                                                                                  \
        .id = ID, .group = "contract", .title = TITLE, .why = WHY, .see = SEE,         \
        .level = CADRE_LEVEL_CORRECT, .needs = "D6", .run = RUN                        \
    }

static const struct cadre_check checks[] = {
    CHECK("K1", "every pass runs once, every sum is reported once, in order",
          "A gradient that is left out trains, and trains something else.", once),
    CHECK("K2", "gradients and redistributions are the sums that they should be",
          "AdamW hides any factor of a gradient from the losses; the norm and clipping "
          "do not.",
          sums),
    CHECK("K3", "ranks post the same operations in the same order, under any delay",
          "An order that depends on time is a deadlock, some day.", order),
    CHECK("K4", "buffers are left alone between post and wait",
          "On a fast machine the operation is done in time, and nothing shows.",
          buffers),
    CHECK("K5", "memory is as plan announced it, and written within its bounds",
          "--dry-run promises whether a run fits.", memory),
    CHECK("K6", "the bytes that are sent repeat every period",
          "A measurement covers whole periods; traffic that drifts makes it wrong.",
          wire),
    CHECK("K7", "only what was claimed is done",
          "The norm, checkpoints and other plugins go by the claims.", effects),
    CHECK("K8", "parameters and activations are complete when they are read",
          "A unit that runs on values of the step before trains, a little worse.",
          values),
    CHECK("K9", "arguments of services are valid",
          "A host refuses them in a run, at the worst time.", arguments),
};

const struct cadre_check_group cadre_check_contract = {
    "contract", checks, sizeof checks / sizeof checks[0]};
