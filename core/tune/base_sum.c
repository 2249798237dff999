/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tune/base_sum.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/hash.h"
#include "core/base/memory.h"
#include "core/base/path.h"

enum { CHUNK = 1 << 20 };

static void add_form(struct cadre_hash *hash, const struct cadre_model_config *m,
                     uint64_t seed)
{
    const int64_t form[] = {(int64_t)m->arch, m->layers,    m->channels, m->heads,
                            m->kv_heads,      m->hidden,    m->context,  m->vocab,
                            m->tied,          (int64_t)seed};
    cadre_hash_update_string(hash, "initial values");
    cadre_hash_update(hash, form, sizeof form);
}

static cadre_status add_file(struct cadre_hash *hash, const char *path, char *buffer,
                             struct cadre_error *err)
{
    FILE *file = fopen(path, "rb");
    size_t n = 0;
    cadre_hash_update_string(hash, cadre_path_basename(path));
    while (file && (n = fread(buffer, 1, CHUNK, file)) > 0)
        cadre_hash_update(hash, buffer, n);
    const bool failed = !file || ferror(file);
    if (file)
        fclose(file);
    return failed ? cadre_fail(err, CADRE_E_IO, "%s: cannot read it for its checksum",
                               path)
                  : CADRE_OK;
}

static cadre_status add_folder(struct cadre_hash *hash, const char *dir,
                               struct cadre_error *err)
{
    glob_t found = {0};
    char *pattern = cadre_format("%s/model*.safetensors", dir);
    char *buffer = malloc(CHUNK);
    cadre_status rc = pattern && buffer ? CADRE_OK : cadre_no_memory(err, "a checksum");
    if (rc == CADRE_OK && glob(pattern, 0, NULL, &found) != 0)
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "'%s' has no model*.safetensors, expected the weights there "
                        "that model.init, or tune.reference, names",
                        dir);
    for (size_t i = 0; rc == CADRE_OK && i < found.gl_pathc; i++)
        rc = add_file(hash, found.gl_pathv[i], buffer, err);
    globfree(&found);
    free(pattern);
    free(buffer);
    return rc;
}

cadre_status cadre_base_sum(const char *init, const struct cadre_model_config *model,
                            uint64_t seed, uint64_t *sum, struct cadre_error *err)
{
    struct cadre_hash hash;
    cadre_hash_init(&hash, 0);
    if (init && *init)
        CADRE_TRY(add_folder(&hash, init, err));
    else
        add_form(&hash, model, seed);
    *sum = cadre_hash_final(&hash);
    return CADRE_OK;
}
