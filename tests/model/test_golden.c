/* SPDX-License-Identifier: Apache-2.0 */
/* Logits, loss, gradients and ten AdamW steps against PyTorch's values in fp64: on the
 * CPU, and on the CUDA device, which is the stand-in (fewer steps), or a GPU with
 * CADRE_TEST_DEVICE=cuda. */
#include "tests/device/cuda/standin.h"
#include "tests/device/op_testing.h"
#include "tests/support/check_main.h"
#include "tests/support/trainer.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 10 };

/* Error limits of a dtype, relative to the L2 norm of the compared tensor. The gradient
 * of a key's bias is zero except for rounding (softmax is invariant to it), and AdamW
 * makes steps of that rounding, so tensors that hold one have a separate limit. */
struct limits {
    double logits, first_loss, loss, grads, norms, params, key_bias;
};

struct golden {
    json_t *root;
    struct test_trainer trainer;
    int64_t steps;
    struct limits reached;
};

static json_t *get(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    ck_assert_msg(value != NULL, "the golden file has no %s", key);
    return value;
}

static double number(const json_t *object, const char *key)
{
    return json_number_value(get(object, key));
}

/* Llama2.c's name of a Hugging Face parameter, or the name itself. */
static void golden_name(const char *name, char *out, size_t bytes)
{
    static const char *const pairs[][2] = {
        {"input_layernorm", "attention_norm"},
        {"post_attention_layernorm", "ffn_norm"},
        {"self_attn.q_proj", "wq"},
        {"self_attn.k_proj", "wk"},
        {"self_attn.v_proj", "wv"},
        {"self_attn.o_proj", "wo"},
        {"mlp.gate_proj", "w1"},
        {"mlp.down_proj", "w2"},
        {"mlp.up_proj", "w3"},
        {"embed_tokens", "tok_embeddings"},
    };
    snprintf(out, bytes, "%s", name);
    if (strncmp(name, "model.", 6) != 0)
        return;
    snprintf(out, bytes, "%s", name + 6);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const char *found = strstr(name, pairs[i][0]);
        if (found)
            snprintf(out, bytes, "%.*s%s%s", (int)(found - name - 6), name + 6,
                     pairs[i][1], found + strlen(pairs[i][0]));
    }
}

/* Index in our tensor of element `at` of the golden one: llama2.c rotates neighbours,
 * we rotate halves, so the rows of q and k are permuted within each head. */
static uint64_t our_element(const struct test_trainer *t,
                            const struct cadre_param *param, uint64_t at)
{
    if (!strstr(param->name, "q_proj") && !strstr(param->name, "k_proj"))
        return at;
    uint64_t C = (uint64_t)t->model->config.channels;
    uint64_t D = C / (uint64_t)t->model->config.heads;
    uint64_t row = at / C, column = at % C;
    uint64_t head = row / D, i = row % D;
    row = head * D + i / 2 + (i % 2) * (D / 2);
    return row * C + column;
}

/* Of a parameter's master or gradient, or of logits where param is NULL. */
static double element_of(const struct test_trainer *t, const struct cadre_param *param,
                         const void *data, uint64_t at)
{
    return param ? test_trainer_get_wide(t, data, at) : test_trainer_get(t, data, at);
}

/* Largest error of a digest, relative to the tensor's norm. A sum may lose as much as
 * its terms, so its error is relative to the sum of magnitudes. */
static double digest_error(const struct test_trainer *t,
                           const struct cadre_param *param, const void *buffer,
                           uint64_t count, const json_t *digest)
{
    void *data = test_trainer_fetch(t, buffer, count * (param ? t->wide : t->element));
    double square = 0, sum = 0, magnitude = 0;
    for (uint64_t e = 0; e < count; e++) {
        double value = element_of(t, param, data, e);
        square += value * value;
        sum += value;
        magnitude += fabs(value);
    }
    double l2 = number(digest, "l2"), worst = fabs(sqrt(square) - l2) / l2;
    worst = fmax(worst, fabs(sum - number(digest, "sum")) / number(digest, "abssum"));
    worst = fmax(worst, fabs(magnitude / number(digest, "abssum") - 1));
    const json_t *index = get(digest, "idx"), *value = get(digest, "val");
    ck_assert_uint_ge(json_array_size(index), 8);
    for (size_t i = 0; i < json_array_size(index); i++) {
        uint64_t at = (uint64_t)json_integer_value(json_array_get(index, i));
        ck_assert_uint_lt(at, count);
        double ours =
            element_of(t, param, data, param ? our_element(t, param, at) : at);
        worst =
            fmax(worst, fabs(ours - json_number_value(json_array_get(value, i))) / l2);
    }
    ck_assert(isfinite(worst));
    free(data);
    return worst;
}

static double compare_all(struct golden *g, void **data, const char *key)
{
    const json_t *digests = get(g->root, key);
    const struct cadre_model *model = g->trainer.model;
    double worst = 0;
    uint32_t owned = 0;
    for (uint32_t i = 0; i < model->n_params; i++) {
        const struct cadre_param *param = &model->params[i];
        char name[128];
        if (param->tied_to >= 0)
            continue;
        golden_name(param->name, name, sizeof name);
        double error =
            digest_error(&g->trainer, param, data[i],
                         test_trainer_count(&g->trainer, i), get(digests, name));
        if (strstr(name, "attn.c_attn.bias"))
            g->reached.key_bias = fmax(g->reached.key_bias, error);
        else
            worst = fmax(worst, error);
        owned++;
    }
    ck_assert_uint_eq(owned, json_object_size(digests));
    return worst;
}

static void load_tokens(struct golden *g)
{
    const json_t *tokens = get(g->root, "tokens");
    int64_t T = g->trainer.T;
    for (int64_t b = 0; b < g->trainer.B; b++)
        for (int64_t i = 0; i < T; i++) {
            const json_t *row = json_array_get(tokens, (size_t)b);
            g->trainer.tokens[b * T + i] =
                (int32_t)json_integer_value(json_array_get(row, (size_t)i));
            g->trainer.targets[b * T + i] =
                (int32_t)json_integer_value(json_array_get(row, (size_t)i + 1));
        }
}

static struct cadre_optimizer_config optimizer_of(const json_t *root)
{
    const json_t *adamw = get(root, "adamw");
    return (struct cadre_optimizer_config){
        .kind = CADRE_OPTIMIZER_ADAMW,
        .lr = number(adamw, "lr"),
        .beta1 = number(adamw, "beta1"),
        .beta2 = number(adamw, "beta2"),
        .eps = number(adamw, "eps"),
        .weight_decay = number(adamw, "weight_decay"),
    };
}

static double relative(double got, const json_t *list, size_t index)
{
    double expected = json_number_value(json_array_get(list, index));
    return fabs(got / expected - 1);
}

/* The first forward and backward, then the steps; g->reached holds the errors. */
static void train(struct golden *g)
{
    struct test_trainer *t = &g->trainer;
    const json_t *losses = get(g->root, "losses_f64");
    const json_t *norms = get(g->root, "grad_norms_f64");
    struct cadre_optimizer_config config = optimizer_of(g->root);
    ck_assert_uint_eq(json_array_size(losses), STEPS + 1);
    for (int64_t step = 0;; step++) {
        double loss = test_trainer_forward(t, t->B, t->T);
        g->reached.loss = fmax(g->reached.loss, relative(loss, losses, (size_t)step));
        if (step == 0)
            g->reached.first_loss = g->reached.loss;
        if (step == 0)
            g->reached.logits = digest_error(t, NULL, test_trainer_logits(t),
                                             (uint64_t)(t->B * t->T * t->model->vocab),
                                             get(g->root, "logits"));
        if (step == g->steps)
            return;
        test_trainer_backward(t, false);
        if (step == 0)
            g->reached.grads = compare_all(g, t->grads, "grads_step0");
        double norm = test_trainer_grad_norm(t);
        g->reached.norms = fmax(g->reached.norms, relative(norm, norms, (size_t)step));
        test_trainer_step(t, &config, step + 1, 1.0);
        if (step + 1 == 1)
            g->reached.params = compare_all(g, t->masters, "params_after_1");
        if (step + 1 == 3)
            g->reached.params =
                fmax(g->reached.params, compare_all(g, t->masters, "params_after_3"));
    }
}

static void check_on(struct cadre_device *(*open)(void), int64_t steps,
                     const char *golden, const char *weights,
                     struct cadre_model_config config, const struct limits *limits)
{
    const char *golden_path = test_sample(golden), *weights_path = test_sample(weights);
    struct golden g = {.steps = steps};
    g.root = json_load_file(golden_path, 0, NULL);
    ck_assert_ptr_nonnull(g.root);
    test_trainer_open_on(&g.trainer, open(), &config, 0, 1,
                         json_integer_value(get(g.root, "B")),
                         json_integer_value(get(g.root, "T")));
    test_trainer_load(&g.trainer, weights_path);
    load_tokens(&g);
    train(&g);
    printf(
        "%s %s on %s: logits %.2g, losses %.2g and %.2g, gradients %.2g, norms %.2g, "
        "parameters %.2g, with key bias %.2g\n",
        golden, cadre_dtype_name(config.dtype), g.trainer.device->ops->name,
        g.reached.logits, g.reached.first_loss, g.reached.loss, g.reached.grads,
        g.reached.norms, g.reached.params, g.reached.key_bias);
    fflush(stdout); /* the child ends at a failed assertion */
    ck_assert_double_le(g.reached.logits, limits->logits);
    ck_assert_double_le(g.reached.first_loss, limits->first_loss);
    ck_assert_double_le(g.reached.loss, limits->loss);
    ck_assert_double_le(g.reached.grads, limits->grads);
    ck_assert_double_le(g.reached.norms, limits->norms);
    ck_assert_double_le(g.reached.params, limits->params);
    ck_assert_double_le(g.reached.key_bias, limits->key_bias);
    test_trainer_close(&g.trainer);
    json_decref(g.root);
}

static struct cadre_device *cpu(void)
{
    return open_cpu(1);
}

static struct cadre_device *gpu(void)
{
    return standin_open(true);
}

static void check(const char *golden, const char *weights,
                  struct cadre_model_config config, const struct limits *limits)
{
    check_on(cpu, STEPS, golden, weights, config, limits);
}

static struct cadre_model_config gpt2_config(uint32_t dtype)
{
    return (struct cadre_model_config){
        .arch = CADRE_ARCH_GPT2,
        .layers = 4,
        .channels = 64,
        .heads = 4,
        .kv_heads = 4,
        .hidden = 256,
        .context = 128,
        .vocab = 1000,
        .tied = true,
        .norm_eps = 1e-5,
        .dtype = dtype,
    };
}

static struct cadre_model_config llama_config(uint32_t dtype)
{
    return (struct cadre_model_config){
        .arch = CADRE_ARCH_LLAMA,
        .layers = 5,
        .channels = 64,
        .heads = 8,
        .kv_heads = 4,
        .hidden = 172,
        .context = 512,
        .vocab = 512,
        .tied = true,
        .norm_eps = 1e-5,
        .rotary.theta = 10000,
        .dtype = dtype,
    };
}

static const struct limits f64 = {
    .logits = 1e-12,
    .first_loss = 1e-12,
    .loss = 1e-12,
    .grads = 1e-12,
    .norms = 1e-12,
    .params = 1e-12,
    .key_bias = 1e-10,
};
static const struct limits f32 = {
    .logits = 1e-6,
    .first_loss = 1e-6,
    .loss = 1e-4, /* PyTorch's own: 2.3e-5, where the loss has fallen to 0.003 */
    .grads = 1e-5,
    .norms = 1e-4,
    .params = 1e-6,
    .key_bias = 5e-3,
};

/* Masters, gradients and states are f32, as in training. On the llama's 64
 * rows the first losses are off by 0.015 (bf16) and 0.0018 (f16), root mean square. */
static const struct limits bf16 = {
    .logits = 2e-3,
    .first_loss = 1e-2,
    .loss = 0.1,
    .grads = 0.06,
    .norms = 0.5,
    .params = 0.1,
    .key_bias = 2,
};
static const struct limits f16 = {
    .logits = 2e-4,
    .first_loss = 2e-3,
    .loss = 0.02,
    .grads = 0.01,
    .norms = 0.15,
    .params = 5e-3,
    .key_bias = 2,
};

START_TEST(gpt2_half)
{
    check("golden/gpt2_tiny_a.json", "weights/tiny_gpt2/model.safetensors",
          gpt2_config(_i ? CADRE_F16 : CADRE_BF16), _i ? &f16 : &bf16);
}
END_TEST

START_TEST(llama_half)
{
    check("golden/llama_stories260K_a.json", "weights/stories260K-hf/model.safetensors",
          llama_config(_i ? CADRE_F16 : CADRE_BF16), _i ? &f16 : &bf16);
}
END_TEST

START_TEST(gpt2_f64)
{
    check("golden/gpt2_tiny_a.json", "weights/tiny_gpt2/model.safetensors",
          gpt2_config(CADRE_F64), &f64);
}
END_TEST

START_TEST(gpt2_f32)
{
    check("golden/gpt2_tiny_a.json", "weights/tiny_gpt2/model.safetensors",
          gpt2_config(CADRE_F32), &f32);
}
END_TEST

START_TEST(llama_f64)
{
    check("golden/llama_stories260K_a.json", "weights/stories260K-hf/model.safetensors",
          llama_config(CADRE_F64), &f64);
}
END_TEST

START_TEST(llama_f32)
{
    check("golden/llama_stories260K_a.json", "weights/stories260K-hf/model.safetensors",
          llama_config(CADRE_F32), &f32);
}
END_TEST

/* Kernels on the host's fibers are slow: a sample of what a GPU runs, and a step of it.
 * Even numbers are GPT-2, odd ones Llama, in f64, f32, bf16 and f16. */
static bool on_this_device(int i)
{
    const char *slow = getenv("CADRE_TEST_SLOW");
    if (standin_is_real() || (slow && atoi(slow) >= 1))
        return true;
    return i == 3 || (!test_lean() && (i == 0 || i == 4));
}

/* The same limits as on the CPU. */
START_TEST(cuda)
{
    static const struct limits *const limits[] = {&f64, &f32, &bf16, &f16};
    static const uint32_t dtypes[] = {CADRE_F64, CADRE_F32, CADRE_BF16, CADRE_F16};
    const int64_t steps = standin_is_real() ? STEPS : 1;
    const int i = _i / 2;
    if (!standin_or_cuda())
        return;
    if (_i % 2)
        check_on(gpu, steps, "golden/llama_stories260K_a.json",
                 "weights/stories260K-hf/model.safetensors", llama_config(dtypes[i]),
                 limits[i]);
    else
        check_on(gpu, steps, "golden/gpt2_tiny_a.json",
                 "weights/tiny_gpt2/model.safetensors", gpt2_config(dtypes[i]),
                 limits[i]);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("golden");
    TCase *tc = tcase_create("golden");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, gpt2_f64);
    tcase_add_test(tc, gpt2_f32);
    tcase_add_test(tc, llama_f64);
    tcase_add_test(tc, llama_f32);
    tcase_add_loop_test(tc, gpt2_half, 0, 2);
    tcase_add_loop_test(tc, llama_half, 0, 2);
    for (int i = 0; i < 8; i++)
        if (on_this_device(i))
            tcase_add_loop_test(tc, cuda, i, i + 1);
    suite_add_tcase(s, tc);
    return s;
}
