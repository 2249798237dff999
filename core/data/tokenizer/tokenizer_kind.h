/* SPDX-License-Identifier: Apache-2.0 */
/* What the kinds of tokeniser share; included by tokenizer*.c and words.h only. */
#ifndef CADRE_DATA_TOKENIZER_TOKENIZER_KIND_H
#define CADRE_DATA_TOKENIZER_TOKENIZER_KIND_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "core/data/tokenizer/added_tokens.h"
#include "core/data/tokenizer/bpe.h"
#include "core/data/tokenizer/merges.h"
#include "core/data/tokenizer/pretoken.h"
#include "core/data/tokenizer/tokenizer.h"
#include "core/data/tokenizer/vocab.h"

enum cadre_tokenizer_kind {
    CADRE_TOKENIZER_BYTE,
    CADRE_TOKENIZER_GPT2,
    CADRE_TOKENIZER_LLAMA2C,
    CADRE_TOKENIZER_BYTE_BPE, /* tokenizer.json, byte-level */
    CADRE_TOKENIZER_PIECES, /* tokenizer.json, blanks as U+2581 */
    CADRE_TOKENIZER_SENTENCEPIECE, /* tokenizer.model */
};

/* U+2581 stands for a blank in pieces. */
#define CADRE_PIECE_BLANK "\xe2\x96\x81"
#define CADRE_PIECE_BLANK_BYTES 3

/* When a text gets a blank before it. */
enum cadre_piece_prefix {
    CADRE_PREFIX_NONE,
    CADRE_PREFIX_EVERY, /* every text between added tokens, by the normalizer */
    CADRE_PREFIX_ALWAYS, /* unless it begins with one */
    CADRE_PREFIX_FIRST, /* likewise, at the start of the whole text */
};

/* What decoding drops of the first piece. */
enum cadre_piece_strip {
    CADRE_STRIP_NONE,
    CADRE_STRIP_ONE, /* a leading blank */
    CADRE_STRIP_ALL, /* every blank of the piece */
};

/* How a text becomes pieces. */
struct cadre_pieces {
    bool replaces; /* blanks are replaced, by the normalizer or before the words */
    bool by_normalizer; /* added tokens of normalised text are sought after that */
    bool divides; /* words begin at each blank and are merged for themselves */
    bool collapses; /* runs of blanks are one, none at the ends (sentencepiece) */
    enum cadre_piece_prefix prefix;
    enum cadre_piece_strip strip;
    bool byte_fallback; /* characters without a piece are bytes */
    bool fuses_unknown; /* unknown characters side by side are one */
    int32_t unknown; /* -1: such a character is an error */
    int32_t blank; /* the id of U+2581, -1 for none */
    bool has_inner_blanks; /* a piece holds a blank behind another character */
};

enum { CADRE_FRAME_MAX = 8 };

/* What a prompt gets around it. */
struct cadre_frame {
    int32_t before[CADRE_FRAME_MAX], after[CADRE_FRAME_MAX];
    size_t n_before, n_after;
};

/* The types of sentencepiece_model.proto. */
enum cadre_piece_type {
    CADRE_PIECE_NORMAL = 1,
    CADRE_PIECE_UNKNOWN = 2,
    CADRE_PIECE_CONTROL = 3,
    CADRE_PIECE_USER_DEFINED = 4,
    CADRE_PIECE_UNUSED = 5,
    CADRE_PIECE_BYTE = 6,
};

struct cadre_tokenizer {
    enum cadre_tokenizer_kind kind;
    struct cadre_vocab vocab;
    struct cadre_vocab shown; /* pieces: what an id is as text; not sought in */
    int32_t bos, eos, pad;
    struct cadre_frame frame;
    char single[256]; /* every byte, for decoding to one of them */
    int32_t byte_ids[256]; /* id of each byte, -1 where it has none */
    struct cadre_merges merges;
    pcre2_code *pattern; /* gpt2 */
    float *scores; /* llama2c, sentencepiece: (vocab) */
    uint64_t file_hash; /* tokenizer.json, tokenizer.model: of all that decides */
    enum cadre_pretoken pretoken; /* byte_bpe */
    bool composes; /* byte_bpe: to NFC first */
    bool keeps_words; /* a word that is a token is not divided (ignore_merges) */
    struct cadre_added_tokens added;
    struct cadre_pieces pieces;
    uint8_t *types; /* sentencepiece: (vocab) enum cadre_piece_type */
    bool is_unigram;
    size_t piece_bytes_max;
    float least_score, most_score; /* of normal pieces */
    bool has_user_defined;
};

/* A list of ids that grows. Zero-initialised is empty; ids freed by the owner. */
struct cadre_ids {
    int32_t *ids;
    size_t count;
    size_t capacity;
};

cadre_status cadre_ids_append(struct cadre_ids *list, const int32_t *ids, size_t count);

/* Fill a zeroed tokeniser; what was built before a failure is the caller's to close. */
cadre_status cadre_tokenizer_load_gpt2(struct cadre_tokenizer *tok, const char *folder,
                                       struct cadre_error *err);
cadre_status cadre_tokenizer_load_llama2c(struct cadre_tokenizer *tok, const char *path,
                                          struct cadre_error *err);
cadre_status cadre_tokenizer_load_json(struct cadre_tokenizer *tok, const char *path,
                                       struct cadre_error *err);
cadre_status cadre_tokenizer_load_sentencepiece(struct cadre_tokenizer *tok,
                                                const char *path,
                                                struct cadre_error *err);

/* bos, eos, pad and the frame of what lies beside a tokenizer in its folder:
 * tokenizer_config.json, else special_tokens_map.json, else config.json. */
cadre_status cadre_tokenizer_load_config(struct cadre_tokenizer *tok,
                                         const char *folder, struct cadre_error *err);

/* Append the ids of a text that is known to be UTF-8. */
cadre_status cadre_tokenizer_encode_gpt2(const struct cadre_tokenizer *tok,
                                         const char *text, size_t size,
                                         struct cadre_ids *list,
                                         struct cadre_error *err);
cadre_status cadre_tokenizer_encode_llama2c(const struct cadre_tokenizer *tok,
                                            const char *text, size_t size,
                                            struct cadre_ids *list,
                                            struct cadre_error *err);
cadre_status cadre_tokenizer_encode_json(const struct cadre_tokenizer *tok,
                                         const char *text, size_t size,
                                         struct cadre_ids *list,
                                         struct cadre_error *err);
cadre_status cadre_tokenizer_encode_sentencepiece(const struct cadre_tokenizer *tok,
                                                  const char *text, size_t size,
                                                  struct cadre_ids *list,
                                                  struct cadre_error *err);

/* The pieces' way, for tokenizer.json and tokenizer.model: text with its blanks as
 * pieces have them, in *out, which the caller frees. is_first: it begins the whole. */
cadre_status cadre_pieces_normalize(const struct cadre_pieces *pieces,
                                    enum cadre_piece_prefix prefix, const char *text,
                                    size_t size, char **out, size_t *out_size);

/* Append the ids of such a text, merged by `rule`. */
cadre_status cadre_pieces_encode(const struct cadre_tokenizer *tok,
                                 const struct cadre_bpe_rule *rule, const char *text,
                                 size_t size, struct cadre_ids *list,
                                 struct cadre_error *err);

/* What pieces are for encoding: byte_ids, the blank, and whether words can be merged
 * for themselves. After the vocabulary is set. Errors: CADRE_E_INVALID, a byte without
 * a piece where byte_fallback is set. */
cadre_status cadre_pieces_index(struct cadre_tokenizer *tok, const char *path,
                                struct cadre_error *err);

/* Set what an id is as text: blanks for U+2581, a byte for <0x0A>. Errors: as
 * cadre_vocab_set. */
cadre_status cadre_pieces_show(struct cadre_tokenizer *tok, int32_t id,
                               const char *piece, size_t size);

/* The bytes of a piece; `previous` as in cadre_tokenizer_decode. */
cadre_status cadre_pieces_decode(const struct cadre_tokenizer *tok, int32_t previous,
                                 int32_t id, const char **bytes, size_t *size);

#endif
