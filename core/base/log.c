/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const level_names[] = {"error", "warn", "info", "debug", "trace"};

static _Atomic int threshold = CADRE_LOG_INFO;
static _Thread_local int my_rank;
static _Thread_local int my_size = 1;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char bar[256]; /* "": there is none */
static char process[32]; /* "": it has no name */

void cadre_log_set_level(enum cadre_log_level level)
{
    atomic_store(&threshold, (int)level);
}

bool cadre_log_parse_level(const char *name, enum cadre_log_level *level)
{
    for (int i = 0; i <= CADRE_LOG_TRACE; i++)
        if (strcmp(name, level_names[i]) == 0) {
            *level = (enum cadre_log_level)i;
            return true;
        }
    return false;
}

void cadre_log_set_rank(int rank, int size)
{
    my_rank = rank;
    my_size = size;
}

void cadre_log_set_process(const char *name)
{
    snprintf(process, sizeof process, "%s", name ? name : "");
}

int cadre_log_rank(void)
{
    return my_rank;
}

/* Under the lock. stderr may be closed; then there is no place to report it. */
static void put(const char *text, size_t bytes)
{
    ssize_t ignored = write(STDERR_FILENO, text, bytes);
    (void)ignored;
}

#define WIPE "\r\033[K"

static void draw_bar(void)
{
    char line[sizeof bar + sizeof WIPE];
    int n = snprintf(line, sizeof line, WIPE "%s", bar);
    put(line, (size_t)n);
}

void cadre_log_bar(const char *text)
{
    pthread_mutex_lock(&lock);
    if (text) {
        snprintf(bar, sizeof bar, "%s", text);
        draw_bar();
    } else if (bar[0]) {
        bar[0] = 0;
        put("\n", 1);
    }
    pthread_mutex_unlock(&lock);
}

void cadre_log(enum cadre_log_level level, const char *subsystem, const char *fmt, ...)
{
    if ((int)level > atomic_load(&threshold))
        return;
    if (level > CADRE_LOG_WARN && my_rank != 0)
        return;

    char line[2048];
    time_t now = time(NULL);
    struct tm tm;
    localtime_r(&now, &tm);
    size_t n = strftime(line, sizeof line, "%H:%M:%S ", &tm);
    if (process[0])
        n += (size_t)snprintf(line + n, sizeof line - n, "%s: ", process);
    if (my_size > 1)
        n += (size_t)snprintf(line + n, sizeof line - n, "r%d/%d ", my_rank, my_size);
    if (level <= CADRE_LOG_WARN)
        n += (size_t)snprintf(line + n, sizeof line - n, "%s: ", level_names[level]);
    n += (size_t)snprintf(line + n, sizeof line - n, "%s: ", subsystem);
    va_list ap;
    va_start(ap, fmt);
    int m = vsnprintf(line + n, sizeof line - n - 1, fmt, ap);
    va_end(ap);
    n += m < 0 ? 0 : (size_t)m;
    if (n > sizeof line - 2)
        n = sizeof line - 2;
    line[n++] = '\n';

    pthread_mutex_lock(&lock);
    if (bar[0])
        put(WIPE, sizeof WIPE - 1);
    put(line, n);
    if (bar[0])
        draw_bar();
    pthread_mutex_unlock(&lock);
}
