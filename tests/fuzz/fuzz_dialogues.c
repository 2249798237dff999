/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/readers.h"

#include "core/data/chat/dialogue.h"
#include "core/data/chat/dialogue_file.h"

static cadre_status each(void *arg, const json_t *record, uint64_t line,
                         struct cadre_error *err)
{
    struct cadre_dialogue dialogue[2] = {{0}, {0}};
    int n = 0;
    (void)arg;
    (void)line;
    const cadre_status rc = cadre_dialogue_read(record, dialogue, &n, err);
    for (int i = 0; i < 2; i++) /* after a failure too */
        cadre_dialogue_fini(&dialogue[i]);
    return rc;
}

void fuzz_dialogues(const uint8_t *data, size_t size)
{
    struct cadre_error err = {0};
    cadre_dialogue_file_read((const char *)data, size, "a.jsonl", each, NULL, &err);
}
