/* SPDX-License-Identifier: Apache-2.0 */
#include "core/data/chat/dialogue.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"

#define SHAPES                                                                         \
    "instruction and output; messages; conversations; prompt and completion; prompt, " \
    "chosen and rejected; or chosen_messages and rejected_messages"

static const char *type_of(const json_t *value)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list",  [JSON_STRING] = "a text",
        [JSON_INTEGER] = "a number", [JSON_REAL] = "a number", [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",      [JSON_NULL] = "null"};
    return value ? names[json_typeof(value)] : "nothing";
}

/* The value of a key; one that is null is not there. */
static const json_t *get(const json_t *record, const char *key)
{
    const json_t *value = json_object_get(record, key);
    return json_is_null(value) ? NULL : value;
}

static const json_t *either(const json_t *record, const char *key, const char *other)
{
    const json_t *value = get(record, key);
    return value ? value : get(record, other);
}

/* ---- messages ---- */

static cadre_status no_memory(struct cadre_error *err)
{
    return cadre_no_memory(err, "a record");
}

/* Append a message with `text`, which becomes the dialogue's, also on failure. */
static cadre_status append(struct cadre_dialogue *dialogue, enum cadre_chat_role role,
                           char *text, struct cadre_error *err)
{
    if (text && dialogue->count == dialogue->capacity) {
        const size_t capacity = 2 * dialogue->capacity + 4;
        struct cadre_message *grown =
            realloc(dialogue->messages, capacity * sizeof *grown);
        if (grown) {
            dialogue->messages = grown;
            dialogue->capacity = capacity;
        }
    }
    if (!text || dialogue->count == dialogue->capacity) {
        free(text);
        return no_memory(err);
    }
    dialogue->messages[dialogue->count++] = (struct cadre_message){
        .role = role, .text = text, .trained = role == CADRE_CHAT_ASSISTANT};
    return CADRE_OK;
}

/* A text, or a list of parts {"type": "text", "text" or "value": ...}, joined. */
static cadre_status read_text(const json_t *content, const char *key, char **out,
                              struct cadre_error *err)
{
    struct cadre_text text = {0};
    if (json_is_string(content)) {
        *out = cadre_strdup(json_string_value(content));
        return *out ? CADRE_OK : no_memory(err);
    }
    if (!json_is_array(content))
        return cadre_fail(err, CADRE_E_INVALID, "%s: expected a text, found %s", key,
                          type_of(content));
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *part = json_array_get(content, i);
        const char *type = json_string_value(json_object_get(part, "type"));
        const char *value = json_string_value(either(part, "text", "value"));
        if (!type || strcmp(type, "text") != 0 || !value) {
            cadre_text_fini(&text);
            return cadre_fail(err, CADRE_E_INVALID,
                              "%s: part %zu: expected {\"type\": \"text\", \"text\": "
                              "...}, found %s%.40s; other parts are not read",
                              key, i + 1, type ? "the type " : type_of(part),
                              type ? type : "");
        }
        cadre_text_append(&text, value, strlen(value));
    }
    *out = text.failed ? NULL : cadre_strdup(cadre_text_str(&text));
    cadre_text_fini(&text);
    return *out ? CADRE_OK : no_memory(err);
}

static cadre_status read_role(const json_t *message, enum cadre_chat_role *role,
                              struct cadre_error *err)
{
    static const struct {
        const char *name;
        enum cadre_chat_role role;
    } names[] = {{"system", CADRE_CHAT_SYSTEM},
                 {"user", CADRE_CHAT_USER},
                 {"human", CADRE_CHAT_USER},
                 {"assistant", CADRE_CHAT_ASSISTANT},
                 {"gpt", CADRE_CHAT_ASSISTANT}};
    const char *name = json_string_value(either(message, "role", "from"));
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i].name) == 0) {
            *role = names[i].role;
            return CADRE_OK;
        }
    return cadre_fail(err, CADRE_E_INVALID,
                      "role: expected system, user or human, assistant or gpt, found "
                      "%.40s",
                      name ? name : type_of(either(message, "role", "from")));
}

static cadre_status read_weight(const json_t *message, bool *trained,
                                struct cadre_error *err)
{
    const json_t *weight = get(message, "loss_weight");
    const double value = json_number_value(weight);
    if (!weight)
        return CADRE_OK;
    if (!json_is_number(weight) || (value != 0 && value != 1))
        return cadre_fail(
            err, CADRE_E_INVALID, "loss_weight: expected 0 or 1, found %s %g",
            json_is_number(weight) ? "the number" : type_of(weight), value);
    *trained = value == 1;
    return CADRE_OK;
}

static cadre_status read_message(const json_t *message, struct cadre_dialogue *out,
                                 struct cadre_error *err)
{
    enum cadre_chat_role role;
    char *text = NULL;
    const bool from = get(message, "value") && !get(message, "content");
    if (!json_is_object(message))
        return cadre_fail(err, CADRE_E_INVALID,
                          "expected a message (role and content, or from and value), "
                          "found %s",
                          type_of(message));
    if (get(message, "tool_calls"))
        return cadre_fail(err, CADRE_E_INVALID,
                          "tool_calls: expected none, as they are not read");
    CADRE_TRY(read_role(message, &role, err));
    CADRE_TRY(read_text(either(message, "content", "value"), from ? "value" : "content",
                        &text, err));
    CADRE_TRY(append(out, role, text, err));
    return read_weight(message, &out->messages[out->count - 1].trained, err);
}

static cadre_status read_messages(const json_t *list, const char *key,
                                  struct cadre_dialogue *out, struct cadre_error *err)
{
    if (!json_is_array(list))
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: expected a list of messages, found %s", key,
                          type_of(list));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const cadre_status rc = read_message(json_array_get(list, i), out, err);
        if (rc != CADRE_OK) {
            cadre_error_prefix(err, "%s: message %zu", key, i + 1);
            return rc;
        }
    }
    return CADRE_OK;
}

/* ---- records ---- */

static cadre_status add_key(const json_t *record, const char *key,
                            enum cadre_chat_role role, struct cadre_dialogue *out,
                            struct cadre_error *err)
{
    const json_t *value = get(record, key);
    char *text = NULL;
    if (!value)
        return cadre_fail(err, CADRE_E_INVALID, "expected the key %s, found none", key);
    CADRE_TRY(read_text(value, key, &text, err));
    return append(out, role, text, err);
}

static cadre_status add_system(const json_t *record, struct cadre_dialogue *out,
                               struct cadre_error *err)
{
    const json_t *text = get(record, "system");
    if (!text || (json_is_string(text) && json_string_length(text) == 0))
        return CADRE_OK;
    return add_key(record, "system", CADRE_CHAT_SYSTEM, out, err);
}

/* The messages before the answer; *whole: all messages, their answers among them. */
static cadre_status read_prompt(const json_t *record, struct cadre_dialogue *out,
                                bool *whole, struct cadre_error *err)
{
    const json_t *input = get(record, "input");
    *whole = false;
    CADRE_TRY(add_system(record, out, err));
    if (get(record, "messages") || get(record, "conversations")) {
        const char *key = get(record, "messages") ? "messages" : "conversations";
        *whole = true;
        return read_messages(get(record, key), key, out, err);
    }
    if (json_is_array(get(record, "prompt")))
        return read_messages(get(record, "prompt"), "prompt", out, err);
    if (!get(record, "instruction"))
        return add_key(record, "prompt", CADRE_CHAT_USER, out, err);
    CADRE_TRY(add_key(record, "instruction", CADRE_CHAT_USER, out, err));
    if (!input || (json_is_string(input) && json_string_length(input) == 0))
        return CADRE_OK;
    return read_text(input, "input", &out->messages[out->count - 1].input, err);
}

/* The first role of a list of messages. */
static bool begins_with_answer(const json_t *list)
{
    enum cadre_chat_role role = CADRE_CHAT_ASSISTANT;
    const bool read = read_role(json_array_get(list, 0), &role, NULL) == CADRE_OK;
    return !read || role == CADRE_CHAT_ASSISTANT;
}

/* One side of a pair: the prompt, untrained, and the answer `key`: a text, a message,
 * or messages, which may be the whole dialogue. */
static cadre_status read_side(const json_t *record, const char *key,
                              struct cadre_dialogue *out, struct cadre_error *err)
{
    const json_t *answer = get(record, key);
    bool whole;
    if (!answer)
        return cadre_fail(err, CADRE_E_INVALID, "expected the key %s, found none", key);
    if (json_is_array(answer) && !begins_with_answer(answer))
        return read_messages(answer, key, out, err);
    CADRE_TRY(read_prompt(record, out, &whole, err));
    for (size_t i = 0; i < out->count; i++)
        out->messages[i].trained = false;
    if (json_is_array(answer))
        return read_messages(answer, key, out, err);
    if (json_is_object(answer)) {
        const cadre_status rc = read_message(answer, out, err);
        if (rc != CADRE_OK)
            cadre_error_prefix(err, "%s", key);
        return rc;
    }
    return add_key(record, key, CADRE_CHAT_ASSISTANT, out, err);
}

static cadre_status read_pair(const json_t *record, struct cadre_dialogue out[2],
                              struct cadre_error *err)
{
    static const char *const lists[] = {"chosen_messages", "rejected_messages"};
    static const char *const answers[] = {"chosen", "rejected"};
    const bool listed = get(record, lists[0]) || get(record, lists[1]);
    for (int i = 0; i < 2; i++)
        CADRE_TRY(listed ? read_messages(get(record, lists[i]), lists[i], &out[i], err)
                         : read_side(record, answers[i], &out[i], err));
    return CADRE_OK;
}

static cadre_status refuse_shape(const json_t *record, struct cadre_error *err)
{
    struct cadre_text keys = {0};
    json_t *object = (json_t *)(uintptr_t)record; /* only read */
    for (void *at = json_object_iter(object); at;
         at = json_object_iter_next(object, at))
        cadre_text_printf(&keys, "%s%.24s", keys.len ? ", " : "",
                          json_object_iter_key(at));
    cadre_fail(err, CADRE_E_INVALID, "expected the keys " SHAPES "; found %.120s",
               keys.len ? keys.data : "none");
    cadre_text_fini(&keys);
    return CADRE_E_INVALID;
}

/* What would change the meaning if it were left out. */
static cadre_status refuse_unread(const json_t *record, struct cadre_error *err)
{
    static const char *const keys[] = {"history", "tools",  "images",
                                       "videos",  "audios", "kto_tag"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *value = get(record, keys[i]);
        const bool empty = (json_is_array(value) && json_array_size(value) == 0) ||
                           (json_is_string(value) && json_string_length(value) == 0);
        if (value && !empty)
            return cadre_fail(err, CADRE_E_INVALID,
                              "%s: expected none, as it is not read; write it as "
                              "messages, or remove it",
                              keys[i]);
    }
    return CADRE_OK;
}

static cadre_status read_one(const json_t *record, struct cadre_dialogue *out,
                             struct cadre_error *err)
{
    const char *completion = get(record, "completion") ? "completion" : "response";
    bool whole;
    if (!get(record, "messages") && !get(record, "conversations") &&
        !get(record, "instruction") &&
        !(get(record, "prompt") && get(record, completion)))
        return refuse_shape(record, err);
    CADRE_TRY(read_prompt(record, out, &whole, err));
    if (whole)
        return CADRE_OK;
    if (!json_is_array(get(record, completion)))
        return add_key(record, get(record, "instruction") ? "output" : completion,
                       CADRE_CHAT_ASSISTANT, out, err);
    return read_messages(get(record, completion), completion, out, err);
}

static cadre_status require_answer(const struct cadre_dialogue *dialogue,
                                   struct cadre_error *err)
{
    for (size_t i = 0; i < dialogue->count; i++)
        if (dialogue->messages[i].trained)
            return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "expected an answer to train on (a message of the assistant with "
                      "no loss_weight 0), found none in %zu messages",
                      dialogue->count);
}

cadre_status cadre_dialogue_read(const json_t *record, struct cadre_dialogue out[2],
                                 int *n, struct cadre_error *err)
{
    if (!json_is_object(record))
        return cadre_fail(err, CADRE_E_INVALID, "expected an object, found %s",
                          type_of(record));
    CADRE_TRY(refuse_unread(record, err));
    const bool pair = get(record, "chosen") || get(record, "rejected") ||
                      get(record, "chosen_messages") ||
                      get(record, "rejected_messages");
    const int dialogues = pair ? 2 : 1;
    CADRE_TRY(pair ? read_pair(record, out, err) : read_one(record, out, err));
    for (int i = 0; i < dialogues; i++)
        CADRE_TRY(require_answer(&out[i], err));
    *n = dialogues;
    return CADRE_OK;
}

void cadre_dialogue_fini(struct cadre_dialogue *dialogue)
{
    for (size_t i = 0; i < dialogue->count; i++) {
        free(dialogue->messages[i].text);
        free(dialogue->messages[i].input);
    }
    free(dialogue->messages);
    *dialogue = (struct cadre_dialogue){0};
}

const char *cadre_chat_role_name(enum cadre_chat_role role)
{
    static const char *const names[] = {"system", "user", "assistant"};
    return names[role];
}
