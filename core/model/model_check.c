/* SPDX-License-Identifier: Apache-2.0 */
#include "core/model/model_check.h"

#include <math.h>

#include "core/model/lora.h"
#include "core/model/qat.h"

#define MAX_LAYERS 16384
#define MAX_SIZE (1 << 20) /* channels, hidden, classes */
#define MAX_COUNT (1 << 26) /* vocab, context */
#define MAX_HEAD_SIZE (1 << 16)
#define MAX_IMAGE 16384 /* pixels of a side */

static cadre_status check_range(const char *key, int64_t value, int64_t low,
                                int64_t high, struct cadre_error *err)
{
    if (value >= low && value <= high)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID, "model.%s = %lld, expected %lld to %lld",
                      key, (long long)value, (long long)low, (long long)high);
}

static cadre_status check_multiple(const char *key, int64_t value, const char *of,
                                   int64_t divisor, struct cadre_error *err)
{
    if (value % divisor == 0)
        return CADRE_OK;
    return cadre_fail(
        err, CADRE_E_INVALID,
        "model.%s = %lld is not a multiple of %s = %lld; change one of them", key,
        (long long)value, of, (long long)divisor);
}

static cadre_status check_sizes(const struct cadre_model_config *config,
                                struct cadre_error *err)
{
    CADRE_TRY(check_range("layers", config->layers, 1, MAX_LAYERS, err));
    CADRE_TRY(check_range("channels", config->channels, 1, MAX_SIZE, err));
    CADRE_TRY(check_range("heads", config->heads, 1, config->channels, err));
    CADRE_TRY(check_range("kv_heads", config->kv_heads, 1, config->heads, err));
    CADRE_TRY(check_range("hidden", config->hidden, 1, MAX_SIZE, err));
    CADRE_TRY(check_range("context", config->context, 1, MAX_COUNT, err));
    CADRE_TRY(check_range("vocab", config->vocab, 1, MAX_COUNT, err));
    CADRE_TRY(check_range("classes", config->classes, 0, MAX_SIZE, err));
    CADRE_TRY(check_range("experts", config->experts, 0, CADRE_MAX_EXPERTS, err));
    CADRE_TRY(check_range("head_size", config->head_size, 0, MAX_HEAD_SIZE, err));
    if (config->head_size == 0)
        CADRE_TRY(check_multiple("channels", config->channels, "model.heads",
                                 config->heads, err));
    return check_multiple("heads", config->heads, "model.kv_heads", config->kv_heads,
                          err);
}

static cadre_status check_gpt2(const struct cadre_model_config *config,
                               struct cadre_error *err)
{
    const char *key = config->rotary.scaling != CADRE_ROTARY_PLAIN ? "rope_scaling"
                      : config->head_size != 0                     ? "head_size"
                      : config->qkv_bias                           ? "qkv_bias"
                      : config->qk_norm                            ? "qk_norm"
                                                                   : NULL;
    if (key)
        return cadre_fail(err, CADRE_E_INVALID,
                          "model.%s is set, but model.arch = gpt2 has no such choice; "
                          "leave it out or use llama",
                          key);
    if (config->kv_heads == config->heads)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "model.kv_heads = %lld differs from model.heads = %lld, but "
                      "model.arch = gpt2 has no grouped queries; use llama",
                      (long long)config->kv_heads, (long long)config->heads);
}

static bool is_positive(double value)
{
    return isfinite(value) && value > 0;
}

static cadre_status check_rotary(const struct cadre_rotary *rotary,
                                 struct cadre_error *err)
{
    if (!is_positive(rotary->theta))
        return cadre_fail(err, CADRE_E_INVALID,
                          "model.rope_theta = %g, expected a positive number",
                          rotary->theta);
    if (rotary->scaling == CADRE_ROTARY_PLAIN)
        return CADRE_OK;
    if (!is_positive(rotary->factor))
        return cadre_fail(err, CADRE_E_INVALID,
                          "model.rope_factor = %g, expected a positive number",
                          rotary->factor);
    if (rotary->scaling == CADRE_ROTARY_LINEAR ||
        (is_positive(rotary->low) && rotary->low < rotary->high &&
         isfinite(rotary->high) && rotary->original > 0))
        return CADRE_OK;
    return cadre_fail(
        err, CADRE_E_INVALID,
        "model.rope_low = %g, model.rope_high = %g, model.rope_original = "
        "%lld: expected positive numbers, low below high",
        rotary->low, rotary->high, (long long)rotary->original);
}

static cadre_status check_llama(const struct cadre_model_config *config,
                                struct cadre_error *err)
{
    const int64_t head_size =
        config->head_size ? config->head_size : config->channels / config->heads;
    if (head_size % 2 != 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s = %lld is odd, but rotary embedding rotates pairs; "
                          "choose an even head size",
                          config->head_size ? "model.head_size"
                                            : "model.channels / model.heads",
                          (long long)head_size);
    if (config->qkv_bias && config->qk_norm)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "model.qkv_bias and model.qk_norm are both yes, but no "
                          "family of models has both; set one of them to no");
    if (config->qk_norm && config->exact_parts > 1)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "model.qk_norm = yes with run.exact_parts = %lld: the "
                          "gradients of norms of heads are not summed in parts; set "
                          "run.exact_parts to 1",
                          (long long)config->exact_parts);
    return check_rotary(&config->rotary, err);
}

static cadre_status check_form(const struct cadre_model_config *config,
                               struct cadre_error *err)
{
    if (config->experts > 0 && config->arch != CADRE_ARCH_GPT2)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "model.experts = %lld, expected 0 with model.arch = llama; "
                          "experts have the form of gpt2",
                          (long long)config->experts);
    if (config->arch != CADRE_ARCH_GPT2 && config->arch != CADRE_ARCH_LLAMA)
        return cadre_fail(err, CADRE_E_INVALID, "model.arch: unknown form %d",
                          (int)config->arch);
    CADRE_TRY(config->arch == CADRE_ARCH_LLAMA ? check_llama(config, err)
                                               : check_gpt2(config, err));
    if (!(isfinite(config->norm_eps) && config->norm_eps > 0))
        return cadre_fail(err, CADRE_E_INVALID,
                          "model.norm_eps = %g, expected a positive number",
                          config->norm_eps);
    if (config->dtype != CADRE_F32 && config->dtype != CADRE_F64 &&
        config->dtype != CADRE_BF16 && config->dtype != CADRE_F16)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "the model computes in f32, f64, bf16 or f16, not in %s",
                          cadre_dtype_name(config->dtype));
    return CADRE_OK;
}

static cadre_status check_image(const struct cadre_model_config *config,
                                struct cadre_error *err)
{
    const struct cadre_image_form *image = &config->image;
    if (image->patch == 0)
        return CADRE_OK;
    if (cadre_image_tokens(image) == 0)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "model.patch = %lld does not divide images of %lld x %lld pixels with %lld "
            "channels (1 to %d), of at most %d pixels a side; choose another patch",
            (long long)image->patch, (long long)image->width, (long long)image->height,
            (long long)image->channels, CADRE_IMAGE_CHANNELS, MAX_IMAGE);
    if (config->arch != CADRE_ARCH_GPT2 || config->experts > 0 || config->classes < 1)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "model.arch = vit with %s; images need the form of vit, a "
                          "plain MLP and model.head = classify",
                          config->experts > 0   ? "model.experts"
                          : config->classes < 1 ? "model.head = lm"
                                                : "another form");
    for (int64_t c = 0; c < image->channels; c++)
        if (!isfinite(image->mean[c]) ||
            !(image->std[c] > 0 && isfinite(image->std[c])))
            return cadre_fail(err, CADRE_E_INVALID,
                              "data.mean and data.std of channel %lld: expected a "
                              "number and a positive one, found %g and %g",
                              (long long)c, image->mean[c], image->std[c]);
    if (config->context != cadre_image_tokens(image) || config->vocab != 2)
        return cadre_fail(err, CADRE_E_INVALID,
                          "model.context = %lld and model.vocab = %lld, but images of "
                          "%lld x %lld in patches of %lld make %lld tokens with the "
                          "class token, of 2 kinds; leave both keys out",
                          (long long)config->context, (long long)config->vocab,
                          (long long)image->width, (long long)image->height,
                          (long long)image->patch,
                          (long long)cadre_image_tokens(image));
    return CADRE_OK;
}

/* The parts must fit the model as that many tensor ranks would, and each rank's must be
 * a node of the tree that adds them. */
static cadre_status check_parts(const struct cadre_model_config *config, int tp_size,
                                struct cadre_error *err)
{
    const char *of = "run.exact_parts";
    const int64_t parts = config->exact_parts, own = parts / tp_size;
    if (parts <= 1)
        return CADRE_OK;
    if (config->experts > 0 || config->head_rows > 0)
        return cadre_fail(
            err, CADRE_E_UNSUPPORTED,
            "model.%s = %lld, expected 0 with run.exact_parts = %lld",
            config->experts > 0 ? "experts" : "head_rows",
            (long long)(config->experts > 0 ? config->experts : config->head_rows),
            (long long)parts);
    CADRE_TRY(check_multiple("heads", config->heads, of, parts, err));
    CADRE_TRY(check_multiple("kv_heads", config->kv_heads, of, parts, err));
    CADRE_TRY(check_multiple("hidden", config->hidden, of, parts, err));
    if (config->classes == 0)
        CADRE_TRY(check_multiple("vocab", config->vocab, of, parts, err));
    if (tp_size == 1 || (parts % tp_size == 0 && (own & (own - 1)) == 0))
        return CADRE_OK;
    return cadre_fail(
        err, CADRE_E_INVALID,
        "run.exact_parts = %lld over %d tensor ranks, expected a power of "
        "two of parts on each, as those of a rank are added first; change "
        "one of them",
        (long long)parts, tp_size);
}

static cadre_status check_split(const struct cadre_model_config *config, int tp_rank,
                                int tp_size, struct cadre_error *err)
{
    const char *of = "the tensor-parallel size";
    if (tp_size < 1 || tp_rank < 0 || tp_rank >= tp_size)
        return cadre_fail(err, CADRE_E_INVALID, "tensor-parallel rank %d of %d",
                          tp_rank, tp_size);
    if (tp_size > 1 && config->experts > 0)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "model.experts = %lld, expected 0 with tensor parallelism: "
                          "experts are not sharded by columns",
                          (long long)config->experts);
    CADRE_TRY(check_multiple("heads", config->heads, of, tp_size, err));
    CADRE_TRY(check_multiple("kv_heads", config->kv_heads, of, tp_size, err));
    CADRE_TRY(check_multiple("hidden", config->hidden, of, tp_size, err));
    if (config->classes == 0)
        CADRE_TRY(check_multiple("vocab", config->vocab, of, tp_size, err));
    if (tp_size > 1 && config->classes == 0 && config->head_rows > 0)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "model.head_rows = %lld, expected 0 where the vocabulary is "
                          "split: every rank scores all rows of its own part",
                          (long long)config->head_rows);
    return CADRE_OK;
}

int64_t cadre_image_tokens(const struct cadre_image_form *image)
{
    const int64_t p = image->patch;
    if (p < 1 || image->channels < 1 || image->channels > CADRE_IMAGE_CHANNELS ||
        image->height < 1 || image->height > MAX_IMAGE || image->width < 1 ||
        image->width > MAX_IMAGE || image->height % p || image->width % p)
        return 0;
    return (image->height / p) * (image->width / p) + 1;
}

cadre_status cadre_model_check(const struct cadre_model_config *config, int tp_rank,
                               int tp_size, struct cadre_error *err)
{
    CADRE_TRY(check_sizes(config, err));
    CADRE_TRY(check_form(config, err));
    CADRE_TRY(check_image(config, err));
    CADRE_TRY(check_split(config, tp_rank, tp_size, err));
    CADRE_TRY(check_parts(config, tp_size, err));
    CADRE_TRY(cadre_qat_check(config, tp_size, err));
    return cadre_lora_check(config, err);
}
