/* SPDX-License-Identifier: Apache-2.0 */
/* json_paths FILE: where the values of a file of JSON lie, one path a line, each once
 * and sorted: `a.b` is the key b in the object a, `a[]` a value of the list a. A file
 * may hold several documents (JSON Lines). Objects and lists that are empty have a path
 * themselves. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 1024 };

struct paths {
    char **path; /* owned */
    size_t n, room;
};

static int add(struct paths *paths, const char *path)
{
    if (paths->n == paths->room) {
        size_t room = 2 * paths->room + 64;
        char **more = realloc(paths->path, room * sizeof *more);
        if (!more)
            return -1;
        paths->path = more;
        paths->room = room;
    }
    paths->path[paths->n] = strdup(path);
    return paths->path[paths->n++] ? 0 : -1;
}

/* `at` is the value's path, which stays as it is. */
static int walk(struct paths *paths, json_t *value, const char *at)
{
    char below[PATH_BYTES];
    const char *key;
    json_t *one;
    int bad = 0;
    if (json_array_size(value) == 0 && json_object_size(value) == 0)
        return add(paths, at);
    for (size_t i = 0; !bad && i < json_array_size(value); i++) {
        int n = snprintf(below, sizeof below, "%s[]", at);
        bad = n >= PATH_BYTES || walk(paths, json_array_get(value, i), below);
    }
    json_object_foreach(value, key, one)
    {
        int n = snprintf(below, sizeof below, "%s%s%s", at, *at ? "." : "", key);
        bad = bad || n >= PATH_BYTES || walk(paths, one, below);
    }
    return bad;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int main(int argc, char **argv)
{
    struct paths paths = {0};
    json_error_t why = {0};
    FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;
    size_t documents = 0;
    int bad = !file, c = 0;
    while (!bad && (c = getc(file)) != EOF) {
        if (strchr(" \n", c))
            continue;
        ungetc(c, file);
        json_t *value =
            json_loadf(file, JSON_REJECT_DUPLICATES | JSON_DISABLE_EOF_CHECK, &why);
        bad = !value || walk(&paths, value, "");
        documents++;
        json_decref(value);
    }
    if (bad || documents == 0)
        fprintf(stderr, "json_paths: %s: %s\n", argc == 2 ? argv[1] : "no file",
                *why.text ? why.text : "nothing to read");
    if (paths.n > 0)
        qsort(paths.path, paths.n, sizeof *paths.path, by_text);
    for (size_t i = 0; i < paths.n; i++) {
        if (i == 0 || strcmp(paths.path[i], paths.path[i - 1]) != 0)
            puts(paths.path[i]);
    }
    for (size_t i = 0; i < paths.n; i++)
        free(paths.path[i]);
    free(paths.path);
    if (file)
        fclose(file);
    return bad || documents == 0;
}
