/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer's program: CADRE_FUZZ_READER names the reader. */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/log.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct fuzz_reader *reader;
    if (!reader) {
        const char *name = getenv("CADRE_FUZZ_READER");
        reader = fuzz_find(name ? name : "");
        if (!reader) {
            fprintf(stderr, "fuzz: no reader '%s': set CADRE_FUZZ_READER\n",
                    name ? name : "");
            exit(2);
        }
        atexit(fuzz_end);
        cadre_log_set_level(CADRE_LOG_ERROR); /* a line costs more than an input */
    }
    fuzz_run(reader, data, size);
    return 0;
}
