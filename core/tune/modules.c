/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tune/modules.h"

#include <string.h>

#include "core/model/unit_private.h"

struct module {
    const char *name;
    uint32_t position;
};

static const struct module llama[] = {
    {"self_attn.q_proj", LLAMA_Q_W}, {"self_attn.k_proj", LLAMA_K_W},
    {"self_attn.v_proj", LLAMA_V_W}, {"self_attn.o_proj", LLAMA_O_W},
    {"mlp.gate_proj", LLAMA_GATE_W}, {"mlp.up_proj", LLAMA_UP_W},
    {"mlp.down_proj", LLAMA_DOWN_W}, {NULL, 0},
};
static const struct module gpt2[] = {
    {"attn.c_attn", GPT2_QKV_W},
    {"attn.c_proj", GPT2_PROJ_W},
    {"mlp.c_fc", GPT2_FC_W},
    {"mlp.c_proj", GPT2_OUT_W},
    {NULL, 0},
};

const char *cadre_modules_name(enum cadre_arch arch, int i, uint32_t *position)
{
    const struct module *module = &(arch == CADRE_ARCH_LLAMA ? llama : gpt2)[i];
    *position = module->position;
    return module->name;
}

static bool is_text(const char *text, size_t n, const char *word)
{
    return strlen(word) == n && strncmp(text, word, n) == 0;
}

/* Does `text` (n) name the module in one of the ways of tune.targets? */
static bool names(const char *text, size_t n, const char *module)
{
    const char *last = strchr(module, '.') + 1;
    const size_t first = (size_t)(last - 1 - module), stem = strlen(last);
    if (is_text(text, n, "attn") && strncmp(module, "self_attn.", 10) == 0)
        return true;
    return is_text(text, n, module) || is_text(text, n, last) ||
           (n == first && strncmp(text, module, n) == 0) ||
           (stem == n + 5 && strncmp(text, last, n) == 0 &&
            strcmp(last + n, "_proj") == 0);
}

static uint32_t find(enum cadre_arch arch, const char *text, size_t n)
{
    uint32_t targets = 0, position;
    const char *module;
    for (int i = 0; (module = cadre_modules_name(arch, i, &position)); i++)
        if (is_text(text, n, "all") || names(text, n, module))
            targets |= 1U << position;
    return targets;
}

cadre_status cadre_modules_parse(enum cadre_arch arch, const char *text,
                                 uint32_t *targets, struct cadre_error *err)
{
    const bool is_llama = arch == CADRE_ARCH_LLAMA;
    *targets = 0;
    for (const char *at = text; *at;) {
        at += strspn(at, " \t,");
        const size_t n = strcspn(at, " \t,");
        const uint32_t found = find(arch, at, n);
        if (n > 0 && found == 0)
            return cadre_fail(err, CADRE_E_INVALID,
                              "tune.targets: '%.*s' is no module of a %s block; "
                              "expected all, attn, mlp, or some of %s",
                              (int)n, at, is_llama ? "llama" : "gpt2",
                              is_llama
                                  ? "q, k, v, o, gate, up, down"
                                  : "attn.c_attn, attn.c_proj, mlp.c_fc, mlp.c_proj");
        *targets |= found;
        at += n;
    }
    if (*targets == 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "tune.targets is empty, expected names of modules, or all");
    return CADRE_OK;
}

uint32_t cadre_modules_find(enum cadre_arch arch, const char *name)
{
    uint32_t targets = 0, position;
    const char *module;
    for (int i = 0; (module = cadre_modules_name(arch, i, &position)); i++)
        if (strcmp(module, name) == 0 || strcmp(strchr(module, '.') + 1, name) == 0)
            targets |= 1U << position;
    return targets;
}
