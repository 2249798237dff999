/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenisers: text to ids and back. One struct, several kinds: bytes, GPT-2's
 * byte-level BPE, the vocabulary files of llama2.c, tokenizer.json of Hugging Face's
 * tokenizers (BPE) and tokenizer.model of SentencePiece. */
#ifndef CADRE_DATA_TOKENIZER_TOKENIZER_H
#define CADRE_DATA_TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

struct cadre_tokenizer; /* immutable once open: any number of threads may share it */

/* Open a tokeniser; the caller closes *out.
 *
 *   "byte" or ""   256 ids, one per byte
 *   a folder       the first of tokenizer.json, tokenizer.model, vocab.json with
 *                  merges.txt, encoder.json with vocab.bpe, tokenizer.bin
 *   a file         tokenizer.json, tokenizer.model, llama2.c's .bin (tok512.bin)
 *
 * What beside it says of bos, eos and prompts is read too (tokenizer_config.json,
 * special_tokens_map.json, config.json). [any thread] Errors: CADRE_E_IO,
 * CADRE_E_INVALID, CADRE_E_RESOURCE; CADRE_E_UNSUPPORTED names the part of a tokenizer
 * that would give other ids here; *out is then untouched. Source: Radford et al. 2019,
 * encoder.py of openai/gpt-2; llama2.c run.c; huggingface/tokenizers;
 * google/sentencepiece. */
cadre_status cadre_tokenizer_open(const char *spec, struct cadre_tokenizer **out,
                                  struct cadre_error *err);

/* Whether the folder has a tokenizer by one of these names. */
bool cadre_tokenizer_in_folder(const char *folder);

/* NULL is accepted. */
void cadre_tokenizer_close(struct cadre_tokenizer *tok);

/* "GPT-2's byte-level BPE" and the like. Static storage. */
const char *cadre_tokenizer_kind_name(const struct cadre_tokenizer *tok);

/* Ids are 0 <= id < vocab. */
int64_t cadre_tokenizer_vocab(const struct cadre_tokenizer *tok);

/* A hash of everything that decides the ids of a text. */
uint64_t cadre_tokenizer_fingerprint(const struct cadre_tokenizer *tok);

/* The id that starts a sequence, or -1: 1 for llama2.c, <|endoftext|> for GPT-2. */
int32_t cadre_tokenizer_bos(const struct cadre_tokenizer *tok);

/* The id that ends a sequence, or -1: the byte 0, 2 for llama2.c, <|endoftext|> for
 * GPT-2. */
int32_t cadre_tokenizer_eos(const struct cadre_tokenizer *tok);

/* Ids that a model's configuration names, -1 where there is none. `pad` fills up: the
 * pad_token of tokenizer_config.json or special_tokens_map.json. */
struct cadre_tokenizer_marks {
    bool known; /* false: of no tokenizer, and nothing else is set */
    int32_t bos, eos, pad;
};
struct cadre_tokenizer_marks cadre_tokenizer_marks(const struct cadre_tokenizer *tok);

/* Whether an id is one of those that mark what a text is, and are no part of it: bos,
 * eos, and the added tokens of tokenizer.json. */
bool cadre_tokenizer_is_special(const struct cadre_tokenizer *tok, int32_t id);

/* Put before and behind a prompt's ids what the folder says, as BOS: of tokenizer.json
 * by its post_processor, of tokenizer.model by add_bos_token and add_eos_token; GPT-2
 * and llama2.c put BOS before it. *ids is the caller's, from malloc (or NULL where
 * count is 0), and is replaced. [any thread] Errors: CADRE_E_RESOURCE, *ids unchanged.
 */
cadre_status cadre_tokenizer_frame(const struct cadre_tokenizer *tok, int32_t **ids,
                                   size_t *count, struct cadre_error *err);

/* Ids of text[0, size); the caller frees *ids. No BOS is added; what is written like a
 * special token of tokenizer.json becomes it, as there. All but "byte" take UTF-8 only:
 * other bytes are CADRE_E_INVALID, naming the offset. [any thread] */
cadre_status cadre_tokenizer_encode(const struct cadre_tokenizer *tok, const char *text,
                                    size_t size, int32_t **ids, size_t *count,
                                    struct cadre_error *err);

/* The bytes of one id, valid while the tokeniser is open; they may be part of a
 * character. `previous` is the id before it, or -1: llama2.c drops a leading space
 * after BOS; tokenizer.json and tokenizer.model do so after BOS and at the start, where
 * their encoding adds one. Errors: CADRE_E_INVALID id out of range. [any thread] */
cadre_status cadre_tokenizer_decode(const struct cadre_tokenizer *tok, int32_t previous,
                                    int32_t id, const char **bytes, size_t *size);

/* The largest p <= size such that text[0, p) and text[p, size) encoded one after the
 * other give the ids of the whole; 0 if there is none. For streaming. */
size_t cadre_tokenizer_cut(const struct cadre_tokenizer *tok, const char *text,
                           size_t size);

#endif
