/* SPDX-License-Identifier: Apache-2.0 */
/* fault_run [OPTION]... -- COMMAND...: runs the command once under the shim to find its
 * call stacks, and then once for each fault: the first, the middle and the last call of
 * each stack, with each error that the call can have. After each the command must have
 * ended by itself within the limit, not by a signal, with status 0, 1, 3 or 4, and with
 * one line `cadre: ...` on stderr where it failed and none where not; no process may be
 * left, and nothing in the folder of temporary files. The fault must have been
 * delivered.
 *   --shim FILE      the library
 *   --every          every call of each stack
 *   --points N       a sample of so many faults, 0: all
 *   --seed N         of the sample
 *   --part K/N       of N parts of the stacks that K, from 0, so that N of these run
 * all
 *   --limit S        seconds after which the command hangs
 *   --kinds a,b      memory mmap open read write sync rename fork thread socket
 *   --before SH      run before each; the fault's name is in $FAULT
 *   --after SH       run after each, with the command's status in $STATUS; fails what
 * is not as it must be
 *   --tmp DIR        TMPDIR of the command, empty before and after
 *   --alone          the command is not under the shim itself: it starts what is, with
 * LD_PRELOAD=$FAULT_SHIM
 * A process that crashed inside a library that is not Cadre's must be named in the
 * line, and is counted apart. Ends with status 1 where a fault was not survived; its
 * stack is shown then. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/fault_table.h"

enum { TRIES = 3, TEXT = 1 << 16 };

static const char *const kind_name[FAULT_KINDS] = {"none", "memory", "mmap",  "open",
                                                   "read", "write",  "sync",  "rename",
                                                   "fork", "thread", "socket"};
static const int errors[FAULT_KINDS][5] = {
    [FAULT_MEMORY] = {ENOMEM},
    [FAULT_MMAP] = {ENOMEM},
    [FAULT_OPEN] = {EMFILE, EIO},
    [FAULT_READ] = {EIO, EINTR, FAULT_SHORT},
    [FAULT_WRITE] = {ENOSPC, EIO, EINTR, FAULT_SHORT},
    [FAULT_SYNC] = {EIO},
    [FAULT_RENAME] = {EIO},
    [FAULT_FORK] = {EAGAIN},
    [FAULT_THREAD] = {EAGAIN},
    [FAULT_SOCKET] = {ECONNRESET},
};

struct point {
    uint64_t stack;
    uint32_t kind, at;
    int32_t error;
};

static struct {
    const char *shim, *before, *after, *tmp;
    bool every, alone;
    size_t points;
    unsigned seed, part, parts;
    int limit;
    uint32_t kinds;
    char **command;
    struct fault_table *table;
    char path[256], err[256];
    struct point *point;
    size_t n, room, library;
} run = {.limit = 60, .seed = 1, .parts = 1, .kinds = ~0u};

static void die(const char *what)
{
    fprintf(stderr, "fault_run: %s: %s\n", what, strerror(errno));
    exit(2);
}

static uint32_t kinds_of(char *text)
{
    uint32_t kinds = 0;
    for (char *word = strtok(text, ","); word; word = strtok(NULL, ",")) {
        uint32_t kind = 1;
        while (kind < FAULT_KINDS && strcmp(kind_name[kind], word) != 0)
            kind++;
        if (kind == FAULT_KINDS) {
            fprintf(stderr, "fault_run: no kind of call '%s'\n", word);
            exit(2);
        }
        kinds |= 1u << kind;
    }
    return kinds;
}

static void read_part(const char *text)
{
    if (sscanf(text, "%u/%u", &run.part, &run.parts) == 2 && run.part < run.parts)
        return;
    fprintf(stderr, "fault_run: --part is '%s', expected K/N with K below N\n", text);
    exit(2);
}

static void read_arguments(int argc, char **argv)
{
    int i = 1;
    for (; i + 1 < argc && strcmp(argv[i], "--") != 0; i++) {
        char *value = argv[i + 1];
        const char *name = argv[i];
        if (strcmp(name, "--every") == 0) {
            run.every = true;
            continue;
        }
        if (strcmp(name, "--alone") == 0) {
            run.alone = true;
            continue;
        }
        if (strcmp(name, "--shim") == 0)
            run.shim = value;
        else if (strcmp(name, "--before") == 0)
            run.before = value;
        else if (strcmp(name, "--after") == 0)
            run.after = value;
        else if (strcmp(name, "--tmp") == 0)
            run.tmp = value;
        else if (strcmp(name, "--points") == 0)
            run.points = (size_t)strtoul(value, NULL, 10);
        else if (strcmp(name, "--seed") == 0)
            run.seed = (unsigned)strtoul(value, NULL, 10);
        else if (strcmp(name, "--part") == 0)
            read_part(value);
        else if (strcmp(name, "--limit") == 0)
            run.limit = (int)strtol(value, NULL, 10);
        else if (strcmp(name, "--kinds") == 0)
            run.kinds = kinds_of(value);
        else
            break;
        i++;
    }
    if (i + 1 >= argc || strcmp(argv[i], "--") != 0 || !run.shim || !run.tmp) {
        fprintf(stderr, "usage: fault_run --shim FILE --tmp DIR [OPTION]... -- "
                        "COMMAND...\n");
        exit(2);
    }
    run.command = argv + i + 1;
}

static void map_table(void)
{
    snprintf(run.path, sizeof run.path, "%s.table", run.tmp);
    snprintf(run.err, sizeof run.err, "%s.err", run.tmp);
    const int fd = open(run.path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof *run.table) != 0)
        die(run.path);
    run.table =
        mmap(NULL, sizeof *run.table, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (run.table == MAP_FAILED)
        die(run.path);
    close(fd);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Children of ours, also those that lost their parent: the command's. */
static int others(void)
{
    char path[64], line[256] = "";
    int n = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    if (fgets(line, sizeof line, file))
        for (char *word = strtok(line, " \n"); word; word = strtok(NULL, " \n"))
            n++;
    fclose(file);
    return n;
}

static void kill_others(void)
{
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    for (int again = 0; again < 100 && others() > 0; again++) {
        FILE *file = fopen(path, "r");
        if (file && fgets(line, sizeof line, file))
            for (char *word = strtok(line, " \n"); word; word = strtok(NULL, " \n"))
                kill((pid_t)strtol(word, NULL, 10), SIGKILL);
        if (file)
            fclose(file);
        usleep(10000);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    }
}

static void in_child(void)
{
    const int null = open("/dev/null", O_RDONLY);
    const int err = open(run.err, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    char out[300];
    snprintf(out, sizeof out, "%s.out", run.tmp);
    const int file = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (null < 0 || err < 0 || file < 0)
        _exit(126);
    dup2(null, 0);
    dup2(file, 1);
    dup2(err, 2);
    setenv(run.alone ? "FAULT_SHIM" : "LD_PRELOAD", run.shim, 1);
    setenv(FAULT_TABLE_ENV, run.path, 1);
    setenv("TMPDIR", run.tmp, 1);
    execvp(run.command[0], run.command);
    _exit(127);
}

/* The wait status; -1: it hung. `left`: processes that did not end with it. */
static int start(int *left)
{
    int status = -1;
    fflush(stdout);
    const pid_t pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0)
        in_child();
    const double end = now() + run.limit;
    for (;;) {
        const pid_t ended = waitpid(pid, &status, WNOHANG);
        if (ended == pid)
            break;
        if (now() > end) {
            kill_others();
            return -1;
        }
        usleep(500);
    }
    for (int i = 0; i < 400 && others() > 0; i++) { /* those on their way out */
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        usleep(5000);
    }
    *left = others();
    kill_others();
    return status;
}

static bool shell(const char *text, const char *fault, int status)
{
    char number[16];
    if (!text)
        return true;
    snprintf(number, sizeof number, "%d", status);
    setenv("STATUS", number, 1);
    setenv("FAULT", fault, 1);
    return system(text) == 0; /* NOLINT(cert-env33-c): the caller's own words */
}

/* What is in the folder of temporary files, NULL for nothing; removes it. */
static const char *leftover(void)
{
    static char name[300];
    const struct dirent *entry;
    DIR *dir = opendir(run.tmp);
    name[0] = 0;
    if (!dir)
        die(run.tmp);
    while ((entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            snprintf(name, sizeof name, "%s", entry->d_name);
            unlinkat(dirfd(dir), entry->d_name, 0);
        }
    closedir(dir);
    return name[0] ? name : NULL;
}

static int error_lines(char *text)
{
    int n = 0;
    FILE *file = fopen(run.err, "r");
    const size_t got = file ? fread(text, 1, TEXT - 1, file) : 0;
    text[got] = 0;
    if (file)
        fclose(file);
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        n += strncmp(line, "cadre: ", 7) == 0;
    }
    return n;
}

/* Is the call that failed one of a library that Cadre does not own: no frame of Cadre
 * before one of it? Such a crash cannot be kept from the process, which must then be
 * named. */
static bool in_library(void)
{
    char first[128] = "";
    const char *end = strchr(run.table->trace, '+');
    const char *line = run.table->trace;
    /* operator new; and the shim's own, where a sanitizer stands between */
    while (end && (strncmp(line, "libstdc++", 9) == 0 ||
                   strncmp(line, "fault_calls", 11) == 0)) {
        line = strchr(end, '\n');
        line = line ? line + 1 : "";
        end = strchr(line, '+');
    }
    if (end && (size_t)(end - line) < sizeof first)
        snprintf(first, sizeof first, "%.*s", (int)(end - line), line);
    return strncmp(first, "libdnnl", 7) == 0 ||
           strncmp(first, "libiniparser", 12) == 0 ||
           strncmp(first, "libopenblas", 11) == 0 || strncmp(first, "libgomp", 7) == 0;
}

static const char *verdict(int status, int left, const char *fault)
{
    static char text[TEXT];
    const int lines = error_lines(text);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (status == -1)
        return "it hung";
    if (WIFSIGNALED(status))
        return strsignal(WTERMSIG(status));
    if (code != 0 && code != 1 && code != 3 && code != 4)
        return "an exit status that is not for this";
    /* a rank's process that fails before it joins the others says so itself too */
    const int most = getenv("FAULT_LINES") ? 2 : 1;
    if (code == 0 ? lines != 0 : lines < 1 || lines > most)
        return code ? "not one error line" : "an error line, and status 0";
    if (strstr(text, "killed by signal")) {
        if (!in_library())
            return "a process of it crashed";
        run.library++;
    }
    if (left)
        return "processes were left";
    if (leftover())
        return "temporary files were left";
    return shell(run.after, fault, code) ? NULL : "what it left is not as it must be";
}

static void add_point(const struct fault_slot *slot, uint32_t at)
{
    for (const int *error = errors[slot->kind]; *error; error++) {
        if (run.n == run.room) {
            run.room = run.room ? 2 * run.room : 1024;
            run.point = realloc(run.point, run.room * sizeof *run.point);
            if (!run.point)
                die("points");
        }
        run.point[run.n++] = (struct point){slot->stack, slot->kind, at, *error};
    }
}

static int by_name(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct point));
}

/* The stacks of an undisturbed run; how many there are. */
static size_t find_points(void)
{
    int left = 0;
    size_t stacks = 0;
    run.table->kinds = run.kinds;
    if (!shell(run.before, "none", 0))
        die("--before");
    const int status = start(&left);
    const char *wrong = verdict(status, left, "none");
    if (wrong || status != 0) {
        fprintf(stderr, "fault_run: without a fault: %s (%d); see '%s'\n",
                wrong ? wrong : "it failed", status, run.err);
        exit(2);
    }
    if (run.table->full) {
        fprintf(stderr, "fault_run: more than %d stacks\n", FAULT_SLOTS);
        exit(2);
    }
    for (size_t i = 0; i < FAULT_SLOTS; i++) {
        const struct fault_slot *slot = &run.table->slot[i];
        const uint32_t calls = slot->calls, middle = (calls + 1) / 2;
        if (!slot->stack)
            continue;
        stacks++;
        if (slot->stack % run.parts != run.part)
            continue;
        for (uint32_t at = 1; at <= calls; at++)
            if (run.every || at == 1 || at == calls || at == middle)
                add_point(slot, at);
    }
    qsort(run.point, run.n, sizeof *run.point, by_name);
    return stacks;
}

static void sample(void)
{
    uint64_t x = run.seed * 2654435761u + 1;
    for (size_t i = 0; i + 1 < run.n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        const size_t k = i + (size_t)((x >> 33) % (run.n - i));
        const struct point swapped = run.point[i];
        run.point[i] = run.point[k];
        run.point[k] = swapped;
    }
    if (run.points && run.points < run.n)
        run.n = run.points;
}

/* Whether the fault was delivered; `wrong` is then what was not right. A call that
 * another process or thread made in an undisturbed run may not come again: then an
 * earlier one. */
static bool try_point(struct point point, const char **wrong, const char *fault)
{
    for (int i = 0; i < TRIES; i++) {
        int left = 0;
        memset(run.table, 0, sizeof *run.table);
        run.table->kinds = run.kinds;
        run.table->fails = 1;
        run.table->stack = point.stack;
        run.table->at = i < TRIES - 1 ? point.at : 1;
        run.table->error = point.error;
        if (!shell(run.before, fault, 0))
            die("--before");
        const int status = start(&left);
        *wrong = verdict(status, left, fault);
        if (run.table->delivered || *wrong)
            return run.table->delivered != 0;
    }
    return false;
}

static void show(const char *fault, const char *wrong)
{
    char command[400];
    printf("FAULT %s: %s; stderr, and the call:\n", fault, wrong);
    fflush(stdout);
    snprintf(command, sizeof command, "head -c 1500 '%s' | sed 's/^/    /'", run.err);
    if (system(command) != 0) /* NOLINT(cert-env33-c) */
        printf("    (no stderr)\n");
    run.table->trace[FAULT_TRACE - 1] = 0;
    for (char *line = strtok(run.table->trace, "\n"); line; line = strtok(NULL, "\n"))
        printf("      %s\n", line);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    size_t delivered = 0, failed = 0, missed = 0;
    read_arguments(argc, argv);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    mkdir(run.tmp, 0700);
    map_table();
    const size_t stacks = find_points(), all = run.n;
    sample();
    for (size_t i = 0; i < run.n; i++) {
        const struct point point = run.point[i];
        const char *wrong = NULL;
        char fault[96];
        snprintf(fault, sizeof fault, "%s %016llx call %u: %s", kind_name[point.kind],
                 (unsigned long long)point.stack, point.at,
                 point.error > 0 ? strerrorname_np(point.error) : "SHORT");
        const bool made = try_point(point, &wrong, fault);
        delivered += made;
        missed += !made;
        failed += wrong != NULL;
        if (wrong)
            show(fault, wrong);
    }
    printf("%zu faults of %zu (%zu stacks): %zu delivered, %zu not survived", run.n,
           all, stacks, delivered, failed);
    if (run.library)
        printf(", %zu ended by a crash of a library, named", run.library);
    printf("\n");
    if (missed * 20 > run.n) {
        printf("FAULT %zu faults of %zu were not delivered\n", missed, run.n);
        return 1;
    }
    return failed != 0;
}
