/* SPDX-License-Identifier: Apache-2.0 */
/* WFDB annotations in MIT format (.atr). Source: annot(5) of the WFDB applications
 * guide. */
#ifndef CADRE_DATA_WFDB_WFDB_ANNOTATION_H
#define CADRE_DATA_WFDB_WFDB_ANNOTATION_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

struct cadre_wfdb_annotation {
    int64_t time; /* in samples from the record's start */
    uint8_t code; /* 1 to 49; see cadre_wfdb_symbol */
    int8_t subtype;
    int8_t chan;
    int8_t num;
    uint8_t aux_size;
    const char *aux; /* bytes of the list's own memory, or NULL; not zero-ended */
};

struct cadre_wfdb_annotations {
    struct cadre_wfdb_annotation *items; /* (count), in the file's order; owned */
    size_t count;
    double frequency; /* the file's own time resolution, or 0 where it names none */
    char *bytes; /* the file, owned: aux points into it */
};

/* Read the whole file; on success the caller frees with cadre_wfdb_annotations_fini.
 * Only the word 0 ends a file: code 0 with a time step is a filler and not listed.
 * [any thread] Errors: CADRE_E_IO; CADRE_E_INVALID (a file that ends within an
 * annotation or without its end mark, times below zero, unknown codes);
 * CADRE_E_RESOURCE. */
cadre_status cadre_wfdb_annotations_read(const char *path,
                                         struct cadre_wfdb_annotations *list,
                                         struct cadre_error *err);

/* As above from bytes[0, size), which is copied. `where` names it in errors. */
cadre_status cadre_wfdb_annotations_parse(const void *bytes, size_t size,
                                          const char *where,
                                          struct cadre_wfdb_annotations *list,
                                          struct cadre_error *err);

/* Safe on a zeroed list. */
void cadre_wfdb_annotations_fini(struct cadre_wfdb_annotations *list);

/* The mnemonic of a code, as rdann prints it: "N", "V", "+", "[15]". Static storage. */
const char *cadre_wfdb_symbol(uint8_t code);

/* Class of a beat after ANSI/AAMI EC57, -1 for what is no beat. Beats are
 * N L R a V F J A S E j / Q B ? e n f r. */
enum cadre_aami_class {
    CADRE_AAMI_N,
    CADRE_AAMI_S,
    CADRE_AAMI_V,
    CADRE_AAMI_F,
    CADRE_AAMI_Q,
    CADRE_AAMI_CLASSES,
};
int cadre_wfdb_aami_class(uint8_t code);

/* Codes of the ventricular beats V and E. */
enum { CADRE_WFDB_PVC = 5, CADRE_WFDB_VESC = 10 };

#endif
