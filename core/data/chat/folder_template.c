/* SPDX-License-Identifier: Apache-2.0 */
#include "core/data/chat/folder_template.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/json_read.h"
#include "core/base/path.h"
#include "core/data/template/template.h"

enum { FILE_BYTES_MAX = 1 << 26 };

struct cadre_folder_template {
    struct cadre_template *template;
    char *path; /* of its file */
    json_t *tokens; /* bos_token and others, as texts */
    uint64_t hash;
};

/* What a folder's files say, before it is read. */
struct found {
    char *path, *text;
    size_t size;
    json_t *config; /* tokenizer_config.json */
};

static void found_fini(struct found *found)
{
    free(found->path);
    free(found->text);
    json_decref(found->config);
}

static char *folder_of(const char *tokenizer)
{
    return cadre_path_is_dir(tokenizer) ? cadre_strdup(tokenizer)
                                        : cadre_path_dirname(tokenizer);
}

/* The file's bytes; *text stays NULL where there is no such file. */
static cadre_status read_file(const char *folder, const char *name, char **path,
                              char **text, size_t *size, struct cadre_error *err)
{
    *path = cadre_path_join(folder, name);
    if (!*path)
        return cadre_no_memory(err, "a path");
    if (!cadre_path_exists(*path))
        return CADRE_OK;
    return cadre_path_read_file(*path, FILE_BYTES_MAX, text, size, err);
}

static cadre_status read_config(const char *folder, const char *name, json_t **root,
                                struct cadre_error *err)
{
    char *path = NULL, *text = NULL;
    size_t size = 0;
    cadre_status rc = read_file(folder, name, &path, &text, &size, err);
    if (rc == CADRE_OK && text)
        rc = cadre_json_read(text, size, path, root, err);
    if (rc == CADRE_OK && *root && !json_is_object(*root))
        rc = cadre_fail(err, CADRE_E_INVALID, "\"%s\": expected an object", path);
    free(text);
    free(path);
    return rc;
}

/* The text of the key chat_template; NULL for none. */
static const json_t *in_config(const json_t *config)
{
    const json_t *value = json_object_get(config, "chat_template");
    if (!json_is_array(value))
        return json_is_string(value) ? value : NULL;
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *one = json_array_get(value, i);
        const char *name = json_string_value(json_object_get(one, "name"));
        if (name && strcmp(name, "default") == 0)
            return json_object_get(one, "template");
    }
    return NULL;
}

static cadre_status find(const char *folder, struct found *found,
                         struct cadre_error *err)
{
    CADRE_TRY(read_config(folder, "tokenizer_config.json", &found->config, err));
    CADRE_TRY(read_file(folder, "chat_template.jinja", &found->path, &found->text,
                        &found->size, err));
    const json_t *key = in_config(found->config);
    if (found->text || !json_is_string(key))
        return CADRE_OK;
    free(found->path);
    found->path = cadre_path_join(folder, "tokenizer_config.json");
    found->size = json_string_length(key);
    found->text = cadre_strdup(json_string_value(key));
    return found->path && found->text ? CADRE_OK : cadre_no_memory(err, "a template");
}

bool cadre_folder_template_exists(const char *tokenizer)
{
    struct found found = {0};
    char *folder = folder_of(tokenizer);
    const bool yes = folder && find(folder, &found, NULL) == CADRE_OK && found.text;
    found_fini(&found);
    free(folder);
    return yes;
}

/* The texts of special tokens, from the first of the files that has them. */
static cadre_status take_tokens(const json_t *config, json_t *tokens,
                                struct cadre_error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)config, key, value) /* only read */
    {
        const size_t n = strlen(key);
        const json_t *text =
            json_is_object(value) ? json_object_get(value, "content") : value;
        const bool is_token = n > 6 && strcmp(key + n - 6, "_token") == 0;
        if (!is_token || !json_is_string(text) || json_object_get(tokens, key))
            continue;
        if (json_object_set(tokens, key, (json_t *)(uintptr_t)text) != 0)
            return cadre_no_memory(err, "a template's tokens");
    }
    return CADRE_OK;
}

static cadre_status read_tokens(const char *folder, const json_t *config, json_t **out,
                                struct cadre_error *err)
{
    json_t *map = NULL;
    *out = json_object();
    cadre_status rc = *out ? read_config(folder, "special_tokens_map.json", &map, err)
                           : cadre_no_memory(err, "a template's tokens");
    if (rc == CADRE_OK)
        rc = take_tokens(config, *out, err);
    if (rc == CADRE_OK)
        rc = take_tokens(map, *out, err);
    json_decref(map);
    return rc;
}

static cadre_status hash_of(const struct found *found, const json_t *tokens,
                            uint64_t *out, struct cadre_error *err)
{
    struct cadre_hash hash;
    char *text = json_dumps(tokens, JSON_COMPACT | JSON_SORT_KEYS);
    if (!text)
        return cadre_no_memory(err, "a template's tokens");
    cadre_hash_init(&hash, 1);
    cadre_hash_update_string(&hash, text);
    cadre_hash_update(&hash, found->text, found->size);
    *out = cadre_hash_final(&hash);
    free(text);
    return CADRE_OK;
}

static cadre_status open_found(const char *spec, const char *folder,
                               struct found *found, struct cadre_folder_template *form,
                               struct cadre_error *err)
{
    CADRE_TRY(find(folder, found, err));
    if (!found->text)
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' has no chat template: expected chat_template.jinja, or "
                          "chat_template in tokenizer_config.json (of several that "
                          "named default), found none",
                          spec);
    form->path = found->path;
    found->path = NULL;
    CADRE_TRY(read_tokens(folder, found->config, &form->tokens, err));
    CADRE_TRY(hash_of(found, form->tokens, &form->hash, err));
    const cadre_status rc =
        cadre_template_open(found->text, found->size, &form->template, err);
    if (rc != CADRE_OK)
        cadre_error_prefix(err, "the chat template of '%s'", form->path);
    return rc;
}

cadre_status cadre_folder_template_open(const char *tokenizer,
                                        struct cadre_folder_template **out,
                                        struct cadre_error *err)
{
    struct found found = {0};
    char *folder = folder_of(tokenizer);
    struct cadre_folder_template *form = cadre_calloc(1, sizeof *form);
    cadre_status rc = folder && form ? open_found(tokenizer, folder, &found, form, err)
                                     : cadre_no_memory(err, "a template");
    found_fini(&found);
    free(folder);
    if (rc == CADRE_OK)
        *out = form;
    else
        cadre_folder_template_close(form);
    return rc;
}

void cadre_folder_template_close(struct cadre_folder_template *form)
{
    if (!form)
        return;
    cadre_template_close(form->template);
    json_decref(form->tokens);
    free(form->path);
    free(form);
}

uint64_t cadre_folder_template_hash(const struct cadre_folder_template *form)
{
    return form->hash;
}

cadre_status cadre_folder_template_render(const struct cadre_folder_template *form,
                                          json_t *messages, bool prompt,
                                          const time_t *now, struct cadre_text *out,
                                          struct cadre_error *err)
{
    json_t *context = json_copy(form->tokens);
    cadre_status rc = CADRE_OK;
    if (!context || json_object_set(context, "messages", messages) != 0 ||
        json_object_set_new(context, "add_generation_prompt", json_boolean(prompt)) ||
        json_object_set_new(context, "tools", json_null()) ||
        json_object_set_new(context, "documents", json_null()))
        rc = cadre_no_memory(err, "a template's names");
    if (rc == CADRE_OK)
        rc = cadre_template_render(form->template, context, now, out, err);
    if (rc != CADRE_OK)
        cadre_error_prefix(err, "the chat template of '%s'", form->path);
    json_decref(context);
    return rc;
}
