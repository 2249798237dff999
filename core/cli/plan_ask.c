/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cli/plan_ask.h"

#include <string.h>

#include "core/base/log.h"
#include "core/plan/block_cost.h"
#include "core/plugin/stack.h"
#include "core/run/spec.h"
#include "core/train/inquiry.h"

static const double GIB = 1073741824.0;

int cadre_plan_settings(const struct cadre_candidate *c,
                        char out[CADRE_PLAN_SETTINGS][CADRE_PLAN_SETTING])
{
    char stack[CADRE_CANDIDATE_STACK];
    int n = 0;
    cadre_candidate_stack(c, stack, sizeof stack);
    snprintf(out[n++], CADRE_PLAN_SETTING, "strategy.stack=%s", stack);
    snprintf(out[n++], CADRE_PLAN_SETTING, "train.micro_batch=%lld",
             (long long)c->micro_batch);
    snprintf(out[n++], CADRE_PLAN_SETTING, "train.recompute=%s",
             c->recompute == CADRE_PLAN_RECOMPUTE_FULL ? "block" : "none");
    snprintf(out[n++], CADRE_PLAN_SETTING, "train.precision=%s",
             cadre_plan_dtype_name(c->dtype));
    if (c->zero && cadre_candidate_shards(c) > 1)
        snprintf(out[n++], CADRE_PLAN_SETTING, "zero.stage=%lld", (long long)c->zero);
    if (c->pipeline > 1) {
        snprintf(out[n++], CADRE_PLAN_SETTING, "pipeline.schedule=%s",
                 cadre_plan_schedule_name(cadre_candidate_schedule(c)));
        snprintf(out[n++], CADRE_PLAN_SETTING, "pipeline.chunks=%lld",
                 (long long)c->chunks);
    }
    return n;
}

/* A plan is of training on any device: it is asked on the CPU. */
cadre_status cadre_plan_options(const struct cadre_plan_answers *a,
                                const struct cadre_candidate *c,
                                struct cadre_options **out, struct cadre_error *err)
{
    char setting[CADRE_PLAN_SETTINGS][CADRE_PLAN_SETTING], vocab[64];
    CADRE_TRY(cadre_cli_load(a->args, out, err));
    const int n = c ? cadre_plan_settings(c, setting) : 0;
    cadre_status rc = CADRE_OK;
    for (int i = 0; i < n && rc == CADRE_OK; i++)
        rc = cadre_options_set(*out, setting[i], "the plan", err);
    snprintf(vocab, sizeof vocab, "model.vocab=%lld",
             (long long)a->question.transformer.vocab);
    if (rc == CADRE_OK)
        rc = cadre_options_set(*out, vocab, "the plan", err);
    if (rc == CADRE_OK)
        rc = cadre_options_set(*out, "device.kind=cpu", "the plan", err);
    if (rc != CADRE_OK)
        cadre_options_destroy(*out);
    return rc;
}

static bool counts_bytes(const struct cadre_plan_answers *a)
{
    return a->hardware.accounting == CADRE_ACCOUNTING_CADRE;
}

static double there(const struct cadre_plan_answers *a)
{
    return (a->hardware.device.memory_gib - a->hardware.device.reserve_gib) * GIB;
}

/* All ranks up to 8; else the first of each stage stands for the others, whose shards
 * may be some pieces larger, for which 1 MiB is added. */
enum { ALL = 8, TRIES = 128 };
static const double PIECES = 1048576;

/* What a plan was refused for, into `refused`; but a lack of memory or a disk that
 * fails here says nothing of the candidate. */
static cadre_status refuse(cadre_status rc, const struct cadre_error *why,
                           char *refused, size_t size, struct cadre_error *err)
{
    if (rc == CADRE_E_RESOURCE || rc == CADRE_E_IO) {
        if (err)
            *err = *why;
        return rc;
    }
    snprintf(refused, size, "%.*s", (int)size - 1, why->text);
    return CADRE_OK;
}

static cadre_status ask(const struct cadre_plan_answers *a, struct cadre_plan_found *f,
                        struct cadre_error *err)
{
    struct cadre_options *options;
    struct cadre_inquiry said;
    struct cadre_error why = {0};
    const int64_t ranks = cadre_candidate_ranks(&f->candidate);
    CADRE_TRY(cadre_plan_options(a, &f->candidate, &options, err));
    const bool all = ranks <= ALL;
    const int every = all ? 1 : (int)(ranks / f->candidate.pipeline);
    const cadre_status rc = cadre_inquiry(options, (int)ranks, every, &said, &why);
    if (rc != CADRE_OK)
        return refuse(rc, &why, f->refused, sizeof f->refused, err);
    f->asked = (double)said.bytes + (all ? 0 : PIECES);
    if (counts_bytes(a) && f->asked > there(a))
        snprintf(f->refused, sizeof f->refused,
                 "its plugins ask for %.4g GiB, %.4g are there", f->asked / GIB,
                 there(a) / GIB);
    return CADRE_OK;
}

/* Behind the last that runs; the order of the others stays. */
static void move_back(struct cadre_plan_search *search, size_t at)
{
    const struct cadre_plan_found refused = search->found[at];
    memmove(&search->found[at], &search->found[at + 1],
            (search->legal - at - 1) * sizeof refused);
    search->found[--search->legal] = refused;
}

cadre_status cadre_plan_ask(struct cadre_plan_answers *a, size_t most,
                            struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    cadre_log_set_level(CADRE_LOG_ERROR); /* what a run would warn of is no news here */
    if (a->question.ranks > CADRE_RUN_RANKS)
        return CADRE_OK;
    size_t tries = most + TRIES;
    for (size_t i = 0; i < a->search.legal && i < most && tries > 0 && rc == CADRE_OK;
         tries--) {
        rc = ask(a, &a->search.found[i], err);
        if (rc == CADRE_OK && *a->search.found[i].refused)
            move_back(&a->search, i);
        else
            i++;
    }
    return rc;
}

/* ---- the stack of the file ---- */

static bool is_known(const struct cadre_stack *stack)
{
    static const char *const known[] = {"ddp", "zero", "hsdp", "pipeline", "tensor"};
    for (int i = 0; i < stack->n; i++) {
        bool found = false;
        for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
            found = found || strcmp(stack->entry[i].name, known[k]) == 0;
        if (!found)
            return false;
    }
    return true;
}

/* What the ranks compute, by what the plugins say they have: blocks, micro-batches and
 * the ranks that divide a block's products. What else they do is not known here. */
static double computing(const struct cadre_plan_answers *a,
                        const struct cadre_inquiry *said)
{
    struct cadre_candidate c = a->question.from;
    c.tensor = said->tensor;
    c.pipeline = c.data = c.chunks = 1;
    c.context = a->question.transformer.context / (said->time > 0 ? said->time : 1);
    c.context = c.context > 0 ? c.context : 1;
    const struct cadre_block_cost b =
        cadre_block_cost(&a->question.transformer, &c, &a->hardware);
    return (double)said->micro_batches * said->blocks * (b.forward + b.backward);
}

cadre_status cadre_plan_ask_own(struct cadre_plan_answers *a, struct cadre_error *err)
{
    struct cadre_plan_own *own = &a->own;
    struct cadre_options *options;
    struct cadre_stack stack;
    struct cadre_inquiry said;
    struct cadre_error why = {0};
    CADRE_TRY(cadre_plan_options(a, NULL, &options, err));
    const char *text = cadre_options_raw(options, "strategy.stack");
    if (!text || cadre_stack_parse(text, &stack, &why) != CADRE_OK ||
        is_known(&stack)) {
        cadre_options_destroy(options);
        return CADRE_OK;
    }
    snprintf(own->stack, sizeof own->stack, "%.255s", text);
    cadre_log_set_level(CADRE_LOG_ERROR);
    const cadre_status rc = cadre_inquiry(
        options, strchr(text, '*') ? (int)a->question.ranks : 0, 1, &said, &why);
    if (rc != CADRE_OK)
        return refuse(rc, &why, own->refused, sizeof own->refused, err);
    own->ranks = said.ranks;
    own->tensor = said.tensor;
    own->blocks = said.blocks;
    own->micro_batches = said.micro_batches;
    own->bytes = (double)said.bytes;
    own->step_at_least = computing(a, &said);
    if (counts_bytes(a) && own->bytes > there(a))
        snprintf(own->refused, sizeof own->refused,
                 "its plugins ask for %.4g GiB, %.4g are there", own->bytes / GIB,
                 there(a) / GIB);
    return CADRE_OK;
}
