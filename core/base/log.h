/* SPDX-License-Identifier: Apache-2.0 */
/* The log: lines on stderr, one write each. "12:00:01 r3/8 comm: message". Below warn
 * only rank 0 logs; warnings and errors come from every rank. A rank is a thread-local
 * property, because ranks may be threads. Metrics never go through the log. */
#ifndef CADRE_BASE_LOG_H
#define CADRE_BASE_LOG_H

#include <stdbool.h>

enum cadre_log_level {
    CADRE_LOG_ERROR,
    CADRE_LOG_WARN,
    CADRE_LOG_INFO,
    CADRE_LOG_DEBUG,
    CADRE_LOG_TRACE,
};

/* Process-wide threshold; default INFO. [main] */
void cadre_log_set_level(enum cadre_log_level level);

/* Parse "error", "warn", "info", "debug", "trace"; false for anything else. */
bool cadre_log_parse_level(const char *name, enum cadre_log_level *level);

/* Name the calling thread's rank in its lines; size <= 1 prints none. [any thread] */
void cadre_log_set_rank(int rank, int size);

/* Name the process in all its lines, before the rank: "12:00:01 instance 1: r0/2 ...".
 * At most 31 bytes, copied; "" or NULL removes the name, which is the default. [main,
 * before threads] */
void cadre_log_set_process(const char *name);

/* The calling thread's rank as set above, 0 by default. */
int cadre_log_rank(void);

/* A progress bar on the terminal's last line: log lines are printed above it. `text`
 * (at most 255 bytes, copied) replaces the previous bar; NULL ends the bar and keeps
 * its last text on screen. [any thread] */
void cadre_log_bar(const char *text);

/* Log one line. `subsystem` is a short static name. [any thread] */
void cadre_log(enum cadre_log_level level, const char *subsystem, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
