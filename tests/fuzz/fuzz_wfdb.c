/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/readers.h"

#include <stdlib.h>

#include "core/data/wfdb/wfdb_annotation.h"
#include "core/data/wfdb/wfdb_header.h"
#include "core/data/wfdb/wfdb_signal.h"

void fuzz_wfdb_header(const uint8_t *data, size_t size)
{
    struct cadre_wfdb_header header;
    struct cadre_error err = {0};
    if (cadre_wfdb_header_parse((const char *)data, size, "a.hea", &header, &err) !=
        CADRE_OK)
        return;
    cadre_wfdb_header_find(&header, "MLII");
    cadre_wfdb_header_fini(&header);
}

/* A header, and its signal file a.dat. */
void fuzz_wfdb_signal(const uint8_t *data, size_t size)
{
    struct cadre_wfdb_header header;
    struct cadre_error err = {0};
    const uint8_t *rest;
    size_t n;
    const size_t first = fuzz_split(data, size, &rest, &n);
    fuzz_file("a.dat", rest, n);
    const char *path = fuzz_file("a.hea", data, first);
    if (cadre_wfdb_header_read(path, &header, &err) != CADRE_OK)
        return;
    for (int32_t i = 0; i < header.signals && i < 4; i++) {
        int32_t *samples = NULL;
        int64_t count = 0;
        if (cadre_wfdb_signal_read(path, &header, i, &samples, &count, &err) ==
            CADRE_OK)
            free(samples);
    }
    cadre_wfdb_header_fini(&header);
}

void fuzz_wfdb_annotation(const uint8_t *data, size_t size)
{
    struct cadre_wfdb_annotations list;
    struct cadre_error err = {0};
    int sum = 0;
    if (cadre_wfdb_annotations_parse(data, size, "a.atr", &list, &err) != CADRE_OK)
        return;
    for (size_t i = 0; i < list.count; i++) {
        for (uint8_t k = 0; k < list.items[i].aux_size; k++)
            sum += list.items[i].aux[k];
        cadre_wfdb_aami_class(list.items[i].code);
        cadre_wfdb_symbol(list.items[i].code);
    }
    *(volatile int *)&sum = sum;
    cadre_wfdb_annotations_fini(&list);
}
