/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of a config.json that Cadre knows. Any other may change what the model
 * computes, so it is refused. */
#include <string.h>

#include "core/base/log.h"
#include "core/checkpoint/format/hf_private.h"

#define END NULL

/* Read, or checked, by hf_config.c. */
static const char *const of_all[] = {
    "architectures",       "id2label",
    "model_type",          "num_labels",
    "quantization_config", "tie_word_embeddings",
    "vocab_size",          END,
};
static const char *const of_gpt2[] = {
    "activation_function",
    "layer_norm_epsilon",
    "n_ctx",
    "n_embd",
    "n_head",
    "n_inner",
    "n_layer",
    "n_positions",
    "scale_attn_by_inverse_layer_idx",
    "scale_attn_weights",
    END,
};
static const char *const of_llama[] = {
    "head_dim",
    "hidden_act",
    "hidden_size",
    "intermediate_size",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "rms_norm_eps",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    END,
};
static const char *const of_family[][8] = {
    [CADRE_HF_FAMILY_GPT2] = {END},
    [CADRE_HF_FAMILY_LLAMA] = {"attention_bias", "mlp_bias", END},
    [CADRE_HF_FAMILY_MISTRAL] = {"sliding_window", END},
    [CADRE_HF_FAMILY_QWEN2] = {"layer_types", "max_window_layers", "sliding_window",
                               "use_sliding_window", END},
    [CADRE_HF_FAMILY_QWEN3] = {"attention_bias", "layer_types", "max_window_layers",
                               "sliding_window", "use_sliding_window", END},
};

/* Of files, tokens, initial values, generation, and what the Python classes return:
 * nothing that the forward pass of these families reads. pretraining_tp cuts products
 * into parts; summary_* belong to a head that Cadre refuses by its tensors. */
static const char *const notes[] = {
    "attn_implementation",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "chunk_size_feed_forward",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "initializer_range",
    "keys_to_ignore_at_inference",
    "label2id",
    "length_penalty",
    "max_length",
    "min_length",
    "name_or_path",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "remove_invalid_values",
    "reorder_and_upcast_attn",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
    END,
};

/* Other than these values would be another model. */
static const char *const must_be_false[] = {
    "add_cross_attention", "is_decoder", "is_encoder_decoder",
    "tie_encoder_decoder", "use_mrope",  END,
};

static const char *const dropouts[] = {
    "attention_dropout",
    "attn_pdrop",
    "classifier_dropout",
    "embd_pdrop",
    "hidden_dropout",
    "resid_pdrop",
    END,
};

static bool is_in(const char *key, const char *const *list)
{
    for (size_t i = 0; list[i] != END; i++)
        if (strcmp(key, list[i]) == 0)
            return true;
    return false;
}

/* Loudly, once for a file: it trains another way than its makers did. */
static void tell_dropout(const struct cadre_hf_source *in)
{
    for (size_t i = 0; dropouts[i] != END; i++) {
        const double value = json_number_value(json_object_get(in->root, dropouts[i]));
        if (value == 0)
            continue;
        cadre_log(CADRE_LOG_INFO, "model", "%s: \"%s\" is %g, but Cadre has no dropout",
                  in->path, dropouts[i], value);
        return;
    }
}

static bool is_empty(const json_t *value)
{
    return (json_is_object(value) && json_object_size(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0);
}

static cadre_status check_key(const struct cadre_hf_source *in,
                              enum cadre_hf_family family, const char *key,
                              const json_t *value)
{
    const bool gpt2 = family == CADRE_HF_FAMILY_GPT2;
    if (json_is_null(value) || key[0] == '_' || is_in(key, notes) ||
        is_in(key, of_all) || is_in(key, gpt2 ? of_gpt2 : of_llama) ||
        is_in(key, of_family[family]))
        return CADRE_OK;
    if (is_in(key, must_be_false))
        return cadre_hf_need_bool(in, key, false, false);
    if (is_in(key, dropouts) && json_is_number(value))
        return CADRE_OK;
    if (strcmp(key, "pruned_heads") == 0 && is_empty(value))
        return CADRE_OK;
    if (strcmp(key, "partial_rotary_factor") == 0 && json_is_number(value) &&
        json_number_value(value) == 1.0)
        return CADRE_OK;
    return cadre_hf_bad_key(in, key, CADRE_E_UNSUPPORTED,
                            "no such key: it is not known, and may change what the "
                            "model computes; take it out if it does not");
}

cadre_status cadre_hf_check_keys(const struct cadre_hf_source *in,
                                 enum cadre_hf_family family)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)in->root, key, value)
        CADRE_TRY(check_key(in, family, key, value));
    tell_dropout(in);
    return CADRE_OK;
}
