/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_replay FOLDER [READER [FILE]...]: every input of FOLDER/READER/ once, for every
 * reader, and three of each that are damaged: cut, a bit flipped, doubled. A reader
 * without an input fails. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"

static size_t runs;

static void damaged(const struct fuzz_reader *reader, const uint8_t *data, size_t size)
{
    uint8_t *twice = malloc(2 * size + 1);
    if (!twice)
        exit(1);
    for (int way = 0; way < 3 && size > 0; way++) {
        memcpy(twice, data, size);
        memcpy(twice + size, data, size);
        if (way == 1)
            twice[size / 3] ^= 0x81;
        fuzz_run(reader, twice, way == 0 ? size / 2 : way == 1 ? size : 2 * size);
        runs++;
    }
    free(twice);
}

static int replay(const struct fuzz_reader *reader, const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(1 << 20);
    if (!file || !data) {
        fprintf(stderr, "fuzz_replay: cannot read '%s'\n", path);
        if (file)
            fclose(file);
        free(data);
        return 1;
    }
    const size_t size = fread(data, 1, 1 << 20, file);
    fclose(file);
    fuzz_run(reader, data, size);
    runs++;
    damaged(reader, data, size);
    free(data);
    return 0;
}

static int replay_folder(const struct fuzz_reader *reader, const char *root)
{
    char path[1024];
    const struct dirent *entry;
    int failed = 0, n = 0;
    snprintf(path, sizeof path, "%s/%s", root, reader->name);
    DIR *dir = opendir(path);
    while (dir && (entry = readdir(dir))) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s/%s", root, reader->name, entry->d_name);
        failed |= replay(reader, path);
        n++;
    }
    if (dir)
        closedir(dir);
    if (n == 0)
        fprintf(stderr, "fuzz_replay: no input for '%s'\n", reader->name);
    return failed || n == 0;
}

int main(int argc, char **argv)
{
    int failed = 0;
    if (argc < 2) {
        fprintf(stderr, "usage: fuzz_replay FOLDER [READER [FILE]...]\n");
        return 2;
    }
    if (argc > 2 && !fuzz_find(argv[2])) {
        fprintf(stderr, "fuzz_replay: no reader '%s'\n", argv[2]);
        return 2;
    }
    for (int i = 3; i < argc; i++)
        failed |= replay(fuzz_find(argv[2]), argv[i]);
    for (size_t i = 0; i < fuzz_n_readers && argc <= 3; i++)
        if (argc < 3 || strcmp(argv[2], fuzz_readers[i].name) == 0)
            failed |= replay_folder(&fuzz_readers[i], argv[1]);
    fuzz_end();
    printf("%zu inputs\n", runs);
    return failed;
}
