/* SPDX-License-Identifier: Apache-2.0 */
/* Every offset is checked against the file before it is used: the file may be anything.
 * Source: System V ABI, chapters 4 and 5. */
#include "core/check/kit/elf.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/path.h"

enum { FILE_LIMIT = 1 << 30 };

static bool inside(const struct cadre_elf *elf, uint64_t at, uint64_t bytes)
{
    return at <= elf->bytes && bytes <= elf->bytes - at;
}

/* Structs are copied out: nothing says that the file aligns them. */
static bool take(const struct cadre_elf *elf, uint64_t at, void *out, size_t bytes)
{
    if (!inside(elf, at, bytes))
        return false;
    memcpy(out, elf->data + at, bytes);
    return true;
}

/* A name that ends inside of the table of names, else "". */
static const char *name_at(const struct cadre_elf *elf, uint64_t offset)
{
    if (offset >= elf->strings_bytes)
        return "";
    const char *name = elf->data + elf->strings + offset;
    return memchr(name, 0, elf->strings_bytes - offset) ? name : "";
}

/* ---- opening ---- */

static bool read_strings(struct cadre_elf *elf, const Elf64_Ehdr *header, uint32_t link)
{
    Elf64_Shdr names;
    if (!take(elf, header->e_shoff + (uint64_t)link * sizeof names, &names,
              sizeof names) ||
        !inside(elf, names.sh_offset, names.sh_size))
        return false;
    elf->strings = names.sh_offset;
    elf->strings_bytes = names.sh_size;
    return true;
}

static bool read_section(struct cadre_elf *elf, const Elf64_Ehdr *header,
                         const Elf64_Shdr *section, const char *name)
{
    if (section->sh_type == SHT_NOBITS)
        return true;
    if (!inside(elf, section->sh_offset, section->sh_size))
        return false;
    switch (section->sh_type) {
    case SHT_DYNSYM:
        elf->symbols = section->sh_offset;
        elf->n_symbols = section->sh_size / sizeof(Elf64_Sym);
        return read_strings(elf, header, section->sh_link);
    case SHT_DYNAMIC:
        elf->dynamic = section->sh_offset;
        elf->n_dynamic = section->sh_size / sizeof(Elf64_Dyn);
        return true;
    case SHT_INIT_ARRAY:
        elf->constructors += section->sh_size / sizeof(Elf64_Addr);
        return true;
    default:
        if (strcmp(name, ".comment") == 0) {
            elf->comment = section->sh_offset;
            elf->comment_bytes = section->sh_size;
        }
        return true;
    }
}

static bool read_sections(struct cadre_elf *elf, const Elf64_Ehdr *header)
{
    Elf64_Shdr section, names;
    uint64_t at = header->e_shoff;
    if (header->e_shentsize != sizeof section || header->e_shnum == 0 ||
        !take(elf, at + (uint64_t)header->e_shstrndx * sizeof names, &names,
              sizeof names) ||
        !inside(elf, names.sh_offset, names.sh_size))
        return false;
    for (uint32_t i = 0; i < header->e_shnum; i++) {
        const char *name = "";
        if (!take(elf, at + (uint64_t)i * sizeof section, &section, sizeof section))
            return false;
        if (section.sh_name < names.sh_size &&
            memchr(elf->data + names.sh_offset + section.sh_name, 0,
                   names.sh_size - section.sh_name))
            name = elf->data + names.sh_offset + section.sh_name;
        if (!read_section(elf, header, &section, name))
            return false;
    }
    return elf->n_symbols > 0 && elf->n_dynamic > 0;
}

static bool read_segments(struct cadre_elf *elf, const Elf64_Ehdr *header)
{
    Elf64_Phdr segment;
    if (header->e_phentsize != sizeof segment)
        return false;
    for (uint32_t i = 0; i < header->e_phnum; i++) {
        if (!take(elf, header->e_phoff + (uint64_t)i * sizeof segment, &segment,
                  sizeof segment) ||
            !inside(elf, segment.p_offset, segment.p_filesz))
            return false;
        if (segment.p_type == PT_GNU_STACK && (segment.p_flags & PF_X))
            elf->executable_stack = true;
        if (segment.p_type == PT_GNU_RELRO)
            elf->relro = true;
    }
    return true;
}

cadre_status cadre_elf_open(const char *path, struct cadre_elf *out,
                            struct cadre_error *err)
{
    struct cadre_elf elf = {0};
    Elf64_Ehdr header;
    CADRE_TRY(cadre_path_read_file(path, FILE_LIMIT, &elf.data, &elf.bytes, err));
    bool object = take(&elf, 0, &header, sizeof header) &&
                  memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
                  header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_type == ET_DYN;
    if (object && read_segments(&elf, &header) && read_sections(&elf, &header)) {
        *out = elf;
        return CADRE_OK;
    }
    free(elf.data);
    return cadre_fail(err, CADRE_E_INVALID,
                      object ? "'%s' is cut off, or its section headers were removed: "
                               "expected a shared object as the linker leaves it"
                             : "'%s' is no 64-bit shared object",
                      path);
}

void cadre_elf_close(struct cadre_elf *elf)
{
    free(elf->data);
    *elf = (struct cadre_elf){0};
}

/* ---- reading ---- */

bool cadre_elf_next_symbol(const struct cadre_elf *elf, uint64_t *at,
                           struct cadre_elf_symbol *out)
{
    Elf64_Sym symbol;
    while (*at < elf->n_symbols) {
        if (!take(elf, elf->symbols + (*at)++ * sizeof symbol, &symbol, sizeof symbol))
            return false;
        unsigned char bind = ELF64_ST_BIND(symbol.st_info);
        unsigned char seen = ELF64_ST_VISIBILITY(symbol.st_other);
        const char *name = name_at(elf, symbol.st_name);
        bool defined = symbol.st_shndx != SHN_UNDEF;
        if (bind == STB_LOCAL || !*name || (defined && seen != STV_DEFAULT))
            continue;
        *out = (struct cadre_elf_symbol){name, defined, bind == STB_WEAK};
        return true;
    }
    return false;
}

bool cadre_elf_imports(const struct cadre_elf *elf, const char *prefix)
{
    struct cadre_elf_symbol symbol;
    uint64_t at = 0;
    while (cadre_elf_next_symbol(elf, &at, &symbol))
        if (!symbol.defined && strncmp(symbol.name, prefix, strlen(prefix)) == 0)
            return true;
    return false;
}

static const char *dynamic_name(const struct cadre_elf *elf, int64_t tag, size_t index)
{
    Elf64_Dyn entry;
    for (uint64_t i = 0; i < elf->n_dynamic; i++) {
        if (!take(elf, elf->dynamic + i * sizeof entry, &entry, sizeof entry) ||
            entry.d_tag == DT_NULL)
            return NULL;
        if (entry.d_tag == tag && index-- == 0)
            return name_at(elf, entry.d_un.d_val);
    }
    return NULL;
}

const char *cadre_elf_library(const struct cadre_elf *elf, size_t index)
{
    return dynamic_name(elf, DT_NEEDED, index);
}

const char *cadre_elf_soname(const struct cadre_elf *elf)
{
    return dynamic_name(elf, DT_SONAME, 0);
}

bool cadre_elf_made_by(const struct cadre_elf *elf, const char *word)
{
    return elf->comment_bytes > 0 &&
           memmem(elf->data + elf->comment, elf->comment_bytes, word, strlen(word));
}
