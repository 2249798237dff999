/* SPDX-License-Identifier: Apache-2.0 */
/* Hugging Face model folders: config.json and one or several safetensors files. A
 * checkpoint of Cadre is such a folder too. What Cadre would compute differently is an
 * error, never ignored. Source: the configuration classes of huggingface/transformers,
 * their names and defaults. */
#ifndef CADRE_CHECKPOINT_FORMAT_HF_H
#define CADRE_CHECKPOINT_FORMAT_HF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/checkpoint/format/safetensors.h"
#include "core/tensor/rotary.h"

enum cadre_hf_arch {
    CADRE_HF_GPT2,
    CADRE_HF_LLAMA,
};

/* model_type, whose classes of transformers compute what arch does with the config's
 * choices. Mistral without a window is Llama. */
enum cadre_hf_family {
    CADRE_HF_FAMILY_GPT2,
    CADRE_HF_FAMILY_LLAMA,
    CADRE_HF_FAMILY_MISTRAL,
    CADRE_HF_FAMILY_QWEN2, /* qkv_bias */
    CADRE_HF_FAMILY_QWEN3, /* qk_norm */
};

/* Token ids for bos_token_id, eos_token_id and pad_token_id, -1 where the tokenizer has
 * none. */
struct cadre_hf_marks {
    bool known; /* false: nothing is said of them */
    int32_t bos, eos, pad;
};

struct cadre_hf_config {
    enum cadre_hf_arch arch;
    int64_t layers, channels, heads, kv_heads, hidden, context, vocab;
    int64_t classes; /* 0: language-model head */
    bool tied; /* the LM head is the embedding */
    double norm_eps;
    struct cadre_rotary rotary; /* Llama only, as what follows; 0 for GPT-2 */
    bool qkv_bias, qk_norm;
    int64_t head_size; /* also GPT-2's; for writing, 0 is channels / heads */
    enum cadre_hf_family family; /* read only, as the next: writing finds it */
    int64_t window; /* how many latest positions attention reads; 0: all */
    /* Written only, null for none: the classes have ids of their own for what is left
     * out. */
    struct cadre_hf_marks marks;
};

/* "qwen2", "Qwen2" (ForCausalLM). */
const char *cadre_hf_family_type(enum cadre_hf_family family);
const char *cadre_hf_family_class(enum cadre_hf_family family);

/* Read DIR/config.json, every key of which must be known. Errors: CADRE_E_INVALID
 * (file, key, expected, found), CADRE_E_UNSUPPORTED (a model that Cadre would compute
 * differently), CADRE_E_IO. */
cadre_status cadre_hf_config_read(const char *dir, struct cadre_hf_config *config,
                                  struct cadre_error *err);

/* Write DIR/config.json and fsync it. Errors: CADRE_E_RESOURCE, CADRE_E_IO. */
cadre_status cadre_hf_config_write(const char *dir,
                                   const struct cadre_hf_config *config,
                                   struct cadre_error *err);

/* Add to DIR/config.json, whoever wrote it, the ids that it does not name; all else
 * stays. Errors: as cadre_hf_config_read. */
cadre_status cadre_hf_config_add_marks(const char *dir,
                                       const struct cadre_hf_marks *marks,
                                       struct cadre_error *err);

/* The tensors of a folder. */
struct cadre_hf;

/* Open DIR/model.safetensors or the files named by DIR/model.safetensors.index.json;
 * or, where path is no folder, that one safetensors file. The caller closes *out.
 * Errors: as cadre_safetensors_open; a shard outside the folder, missing, or not
 * holding what the index says, and a tensor in two shards, are CADRE_E_INVALID. */
cadre_status cadre_hf_open(const char *path, struct cadre_hf **out,
                           struct cadre_error *err);
void cadre_hf_close(struct cadre_hf *hf);

/* A tensor by its canonical name, with or without the prefix `transformer.` or `model.`
 * in the file. NULL where there is none. Borrowed until close. */
const struct cadre_safetensors_tensor *cadre_hf_find(const struct cadre_hf *hf,
                                                     const char *name);

/* Check that every expected tensor exists in its shape (dtypes may differ), and that
 * the model has every tensor of the folder, so that no weight is silently dropped.
 * Buffers in old files (attention masks, rotary frequencies) and, where `tied`, the
 * copy of the head are ignored, if it is a copy. Errors: CADRE_E_INVALID names the
 * tensor. */
cadre_status cadre_hf_check(const struct cadre_hf *hf,
                            const struct cadre_safetensors_spec *wanted, size_t n,
                            bool tied, struct cadre_error *err);

/* Read elements [begin, begin + count) of the tensor of canonical name `name` as f32 or
 * f64 into host memory. Errors: as cadre_safetensors_read; CADRE_E_INVALID where there
 * is no such tensor. [any thread] */
cadre_status cadre_hf_read(const struct cadre_hf *hf, const char *name, uint64_t begin,
                           uint64_t count, uint32_t dtype, void *out,
                           struct cadre_error *err);

#endif
