/* SPDX-License-Identifier: Apache-2.0 */
/* What a shared object says of itself, read from the file: none of its code runs. */
#ifndef CADRE_CHECK_KIT_ELF_H
#define CADRE_CHECK_KIT_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

struct cadre_elf {
    char *data; /* the whole file; owned */
    size_t bytes;
    uint64_t strings, strings_bytes; /* of the dynamic names; offset in the file */
    uint64_t symbols, n_symbols; /* of the dynamic symbols */
    uint64_t dynamic, n_dynamic;
    uint64_t comment, comment_bytes;
    uint64_t constructors; /* functions that the loader calls; those of crt included */
    bool executable_stack;
    bool relro; /* relocations become read-only once they are made */
};

struct cadre_elf_symbol {
    const char *name; /* borrowed from the file */
    bool defined; /* else it is looked for in other objects */
    bool weak;
};

/* Read the file. The caller closes *out. Errors: CADRE_E_INVALID: no 64-bit shared
 * object, or damaged; CADRE_E_IO. */
cadre_status cadre_elf_open(const char *path, struct cadre_elf *out,
                            struct cadre_error *err);
void cadre_elf_close(struct cadre_elf *elf);

/* The index-th symbol that other objects see or must provide, local ones left out;
 * false after the last. *at starts at 0 and is moved. */
bool cadre_elf_next_symbol(const struct cadre_elf *elf, uint64_t *at,
                           struct cadre_elf_symbol *out);

/* Does it need a symbol whose name begins with `prefix`? */
bool cadre_elf_imports(const struct cadre_elf *elf, const char *prefix);

/* The index-th library that it is linked with; NULL after the last. */
const char *cadre_elf_library(const struct cadre_elf *elf, size_t index);

/* NULL: it has none. */
const char *cadre_elf_soname(const struct cadre_elf *elf);

/* Do the compilers' notes name `word`? */
bool cadre_elf_made_by(const struct cadre_elf *elf, const char *word);

#endif
