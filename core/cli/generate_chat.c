/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cli/generate_chat.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/json_read.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/base/utf8.h"

enum { FILE_BYTES_MAX = 1 << 24 };

static cadre_status add_end(struct cadre_chat *chat, int64_t id,
                            struct cadre_error *err)
{
    if (id < 0 || id >= cadre_tokenizer_vocab(chat->tokenizer) ||
        cadre_chat_ends(chat, (int32_t)id))
        return CADRE_OK;
    int32_t *grown = cadre_realloc(chat->ends, chat->n_ends + 1, sizeof *grown);
    if (!grown)
        return cadre_no_memory(err, "a conversation");
    chat->ends = grown;
    chat->ends[chat->n_ends++] = (int32_t)id;
    return CADRE_OK;
}

/* eos_token_id of generation_config.json, a number or a list. */
static cadre_status add_configured(struct cadre_chat *chat, const char *spec,
                                   struct cadre_error *err)
{
    char *folder =
        cadre_path_is_dir(spec) ? cadre_strdup(spec) : cadre_path_dirname(spec);
    char *path = folder ? cadre_path_join(folder, "generation_config.json") : NULL;
    char *text = NULL;
    size_t size = 0;
    json_t *root = NULL;
    cadre_status rc = path ? CADRE_OK : cadre_no_memory(err, "a path");
    if (rc == CADRE_OK && cadre_path_exists(path)) {
        rc = cadre_path_read_file(path, FILE_BYTES_MAX, &text, &size, err);
        if (rc == CADRE_OK)
            rc = cadre_json_read(text, size, path, &root, err);
    }
    const json_t *eos = json_object_get(root, "eos_token_id");
    if (rc == CADRE_OK && json_is_integer(eos))
        rc = add_end(chat, json_integer_value(eos), err);
    for (size_t i = 0; rc == CADRE_OK && i < json_array_size(eos); i++)
        rc = add_end(chat, json_integer_value(json_array_get(eos, i)), err);
    json_decref(root);
    free(text);
    free(path);
    free(folder);
    return rc;
}

/* What the template writes behind an answer: its first token where that is one of the
 * special ones, else its text. */
static cadre_status add_written(struct cadre_chat *chat, struct cadre_error *err)
{
    static const char answer[] = "qzAnswerzq";
    struct cadre_text text = {0};
    int32_t *ids = NULL;
    size_t n = 0;
    cadre_status rc = CADRE_OK;
    json_t *messages = json_pack("[{ssss}{ssss}]", "role", "user", "content", "a",
                                 "role", "assistant", "content", answer);
    if (!messages)
        return cadre_no_memory(err, "a conversation");
    if (cadre_folder_template_render(chat->form, messages, false, NULL, &text, NULL) !=
        CADRE_OK)
        cadre_text_reset(&text); /* not a dialogue of this template's */
    json_decref(messages);
    char *behind = text.len > 0 ? strstr(text.data, answer) : NULL;
    if (behind)
        behind = cadre_strip(behind + strlen(answer));
    if (behind && *behind)
        rc = cadre_tokenizer_encode(chat->tokenizer, behind, strlen(behind), &ids, &n,
                                    err);
    if (rc == CADRE_OK && n > 0 &&
        cadre_tokenizer_is_special(chat->tokenizer, ids[0])) {
        rc = add_end(chat, ids[0], err);
    } else if (rc == CADRE_OK && n > 0) {
        chat->stop = cadre_strdup(behind);
        rc = chat->stop ? CADRE_OK : cadre_no_memory(err, "a conversation");
    }
    free(ids);
    cadre_text_fini(&text);
    return rc;
}

cadre_status cadre_chat_init(const char *spec, const struct cadre_tokenizer *tokenizer,
                             const char *system, struct cadre_chat *out,
                             struct cadre_error *err)
{
    *out = (struct cadre_chat){.tokenizer = tokenizer, .messages = json_array()};
    if (!out->messages)
        return cadre_no_memory(err, "a conversation");
    cadre_status rc = cadre_folder_template_open(spec, &out->form, err);
    if (rc != CADRE_OK) {
        cadre_error_prefix(err, "--chat");
        return rc;
    }
    CADRE_TRY(add_end(out, cadre_tokenizer_eos(tokenizer), err));
    CADRE_TRY(add_configured(out, spec, err));
    CADRE_TRY(add_written(out, err));
    return system ? cadre_chat_add(out, "system", system, strlen(system), err)
                  : CADRE_OK;
}

void cadre_chat_fini(struct cadre_chat *chat)
{
    cadre_folder_template_close(chat->form);
    json_decref(chat->messages);
    free(chat->ends);
    free(chat->stop);
    *chat = (struct cadre_chat){0};
}

cadre_status cadre_chat_add(struct cadre_chat *chat, const char *role, const char *text,
                            size_t size, struct cadre_error *err)
{
    json_t *content = json_stringn(text, size);
    if (!content)
        return cadre_fail(err, CADRE_E_INVALID, "the %s's message: expected UTF-8",
                          role);
    json_t *message = json_pack("{ssso}", "role", role, "content", content);
    if (!message || json_array_append_new(chat->messages, message) != 0)
        return cadre_no_memory(err, "a conversation");
    return CADRE_OK;
}

cadre_status cadre_chat_add_answer(struct cadre_chat *chat, const char *text,
                                   size_t size, struct cadre_error *err)
{
    struct cadre_text valid = {0};
    for (size_t i = 0; i < size;) {
        const size_t n = cadre_utf8_char(text + i, size - i);
        cadre_text_append(&valid, n > 0 ? text + i : "\xef\xbf\xbd", n > 0 ? n : 3);
        i += n > 0 ? n : 1;
    }
    const cadre_status rc =
        valid.failed
            ? cadre_no_memory(err, "a conversation")
            : cadre_chat_add(chat, "assistant", cadre_text_str(&valid), valid.len, err);
    cadre_text_fini(&valid);
    return rc;
}

cadre_status cadre_chat_prompt(const struct cadre_chat *chat, int32_t **ids, size_t *n,
                               struct cadre_error *err)
{
    struct cadre_text text = {0};
    const time_t now = time(NULL);
    cadre_status rc = cadre_folder_template_render(chat->form, chat->messages, true,
                                                   &now, &text, err);
    if (rc == CADRE_OK && text.len == 0)
        rc = cadre_fail(err, CADRE_E_INVALID, "--chat: the template makes no text");
    if (rc == CADRE_OK)
        rc = cadre_tokenizer_encode(chat->tokenizer, text.data, text.len, ids, n, err);
    cadre_text_fini(&text);
    return rc;
}

bool cadre_chat_ends(const struct cadre_chat *chat, int32_t id)
{
    for (size_t i = 0; i < chat->n_ends; i++)
        if (chat->ends[i] == id)
            return true;
    return false;
}
