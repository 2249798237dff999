/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cli/plan_predict.h"

#include <stdlib.h>
#include <string.h>

#include "core/config/config.h"
#include "core/plugin/stack.h"
#include "core/run/model_setup.h"
#include "core/tune/adapter.h"

static cadre_status check_kind(const struct cadre_config *config,
                               struct cadre_error *err)
{
    if (config->model.head == CADRE_CONFIG_CLASSIFY)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "model.head = classify cannot be planned yet, expected lm");
    if (config->tune.method == CADRE_CONFIG_TUNE_DPO ||
        config->tune.method == CADRE_CONFIG_TUNE_QAT)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "tune.method = %s has no formulas, expected full, lora or "
                          "qlora; `cadre train --dry-run` has its bytes",
                          config->tune.method == CADRE_CONFIG_TUNE_DPO ? "dpo" : "qat");
    return CADRE_OK;
}

/* Those of the first block: the others have the same. */
static cadre_status find_adapters(const struct cadre_model_config *config,
                                  struct cadre_transformer *t, struct cadre_error *err)
{
    struct cadre_model *model;
    t->adapter_rank = config->lora.rank;
    if (config->lora.rank == 0)
        return CADRE_OK;
    CADRE_TRY(cadre_model_create(config, 0, 1, &model, err));
    for (uint32_t i = 0; i + 1 < model->n_params; i++) {
        const struct cadre_param *a = &model->params[i];
        if (a->unit != 1 || a->adapts < 0 || model->params[a->adapts].adapter != (int)i)
            continue;
        if (t->n_adapters < CADRE_PLAN_ADAPTERS)
            t->adapter[t->n_adapters++] = (struct cadre_plan_adapter){
                .in = (int64_t)a->shape.dim[1],
                .out = (int64_t)model->params[i + 1].shape.dim[0],
                .rows = model->params[a->adapts].split == CADRE_SHARD_ROW,
            };
    }
    cadre_model_destroy(model);
    return CADRE_OK;
}

cadre_status cadre_plan_question_of(const struct cadre_options *options,
                                    struct cadre_plan_question *q,
                                    struct cadre_error *err)
{
    static const enum cadre_plan_dtype dtypes[] = {
        [CADRE_CONFIG_FP32] = CADRE_PLAN_FP32,
        [CADRE_CONFIG_BF16] = CADRE_PLAN_BF16,
        [CADRE_CONFIG_FP16] = CADRE_PLAN_FP16,
        [CADRE_CONFIG_FP64] = CADRE_PLAN_FP64,
    };
    struct cadre_config config;
    struct cadre_model_config model = {0};
    cadre_config_fill(&config, options);
    CADRE_TRY(cadre_model_setup(&config, options, &model, err));
    CADRE_TRY(check_kind(&config, err));
    const bool bytes = strcmp(config.data.tokenizer, "byte") == 0;
    if (model.vocab == 0 && strcmp(config.data.format, "text") == 0 && bytes)
        model.vocab = 256;
    if (model.vocab == 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "model.vocab is 0, that of the data, which a plan does not "
                          "read: give it, --set model.vocab=N");
    CADRE_TRY(cadre_adapter_setup(&config, options, &model, err));
    const char *sequence = cadre_options_raw(options, "tensor.sequence_parallel");
    q->transformer = (struct cadre_transformer){
        .layers = model.layers,
        .channels = model.channels,
        .heads = model.heads,
        .kv_heads = model.kv_heads,
        .hidden = model.hidden,
        .experts = model.experts,
        .vocab = model.vocab,
        .context = model.context,
        .gated = model.arch == CADRE_ARCH_LLAMA,
        .tied = model.tied,
        .nf4 = config.tune.base == CADRE_CONFIG_BASE_NF4 ||
               config.tune.method == CADRE_CONFIG_TUNE_QLORA,
    };
    CADRE_TRY(find_adapters(&model, &q->transformer, err));
    q->from.global_batch = config.train.global_batch;
    q->from.micro_batch = config.train.micro_batch;
    q->from.dtype = dtypes[config.train.precision];
    q->dtypes =
        strcmp(cadre_options_source(options, "train.precision"), "default") == 0;
    q->from.sequence_parallel = sequence && strcmp(sequence, "yes") == 0;
    return CADRE_OK;
}

/* The ranks along each axis of a stack that the formulas know. */
static cadre_status take_stack(const char *text, struct cadre_candidate *c,
                               struct cadre_error *err)
{
    struct cadre_stack stack;
    CADRE_TRY(cadre_stack_parse(text, &stack, err));
    c->tensor = c->pipeline = c->context = c->data = c->chunks = c->replicas = 1;
    for (int i = 0; i < stack.n; i++) {
        const char *name = stack.entry[i].name;
        const int size = stack.entry[i].size;
        if (size < 1)
            return cadre_fail(err, CADRE_E_UNSUPPORTED,
                              "strategy.stack = %s does not say how many ranks", text);
        if (strcmp(name, "tensor") == 0)
            c->tensor *= size;
        else if (strcmp(name, "pipeline") == 0)
            c->pipeline *= size;
        else if (strcmp(name, "hsdp") == 0)
            c->replicas *= size;
        else if (strcmp(name, "ddp") != 0 && strcmp(name, "zero") != 0)
            return cadre_fail(err, CADRE_E_UNSUPPORTED,
                              "the formulas do not know '%.31s' of its stack", name);
        if (strcmp(name, "tensor") != 0 && strcmp(name, "pipeline") != 0)
            c->data *= size;
        c->zero = strcmp(name, "zero") == 0 ? 1 : c->zero;
    }
    return CADRE_OK;
}

static cadre_status take_schedule(const struct cadre_options *options,
                                  struct cadre_candidate *c, struct cadre_error *err)
{
    const char *name = cadre_options_raw(options, "pipeline.schedule");
    const char *chunks = cadre_options_raw(options, "pipeline.chunks");
    if (c->pipeline == 1 || !name)
        return CADRE_OK;
    int found = -1;
    for (int i = 0; i < CADRE_PLAN_SCHEDULES; i++)
        if (strcmp(name, cadre_plan_schedule_name((enum cadre_plan_schedule)i)) == 0)
            found = i;
    if (found < 0)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "the formulas do not know pipeline.schedule = %s", name);
    c->schedule = (enum cadre_plan_schedule)found;
    c->chunks = chunks ? strtoll(chunks, NULL, 10) : 0;
    const bool several = c->schedule == CADRE_PLAN_INTERLEAVED ||
                         c->schedule == CADRE_PLAN_BREADTH_FIRST ||
                         cadre_candidate_turns_back(c);
    if (c->chunks < 1)
        c->chunks = several ? 2 : 1;
    return CADRE_OK;
}

cadre_status cadre_plan_predict(void *arg, const struct cadre_options *options,
                                double *seconds, struct cadre_error *why)
{
    const struct cadre_hardware *hw = arg;
    struct cadre_plan_question q = {0};
    CADRE_TRY(cadre_plan_question_of(options, &q, why));
    struct cadre_candidate c = q.from;
    const char *stack = cadre_options_raw(options, "strategy.stack");
    const char *stage = cadre_options_raw(options, "zero.stage");
    const char *recompute = cadre_options_raw(options, "train.recompute");
    CADRE_TRY(take_stack(stack ? stack : "single", &c, why));
    if (c.zero && stage)
        c.zero = strtoll(stage, NULL, 10);
    if (recompute && strcmp(recompute, "block") == 0)
        c.recompute = CADRE_PLAN_RECOMPUTE_FULL;
    c.sequence_parallel = c.sequence_parallel && c.tensor > 1;
    CADRE_TRY(take_schedule(options, &c, why));
    CADRE_TRY(cadre_transformer_check(&q.transformer, why));
    CADRE_TRY(cadre_candidate_check(&c, &q.transformer, hw, why));
    *seconds = cadre_forecast(&q.transformer, &c, hw).step;
    return CADRE_OK;
}
