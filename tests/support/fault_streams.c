/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: they are failed at their own calls, as the C library's inner ones cannot be
 * replaced. */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "tests/support/fault_calls.h"

enum { STREAM_ERROR = 0x20 /* _IO_ERR_SEEN */ };

/* The stream has failed, as after a write that could not be done. */
static int stream_fails(FILE *file, enum fault_kind kind)
{
    if (file == stderr || fileno(file) < 0) /* or one in memory */
        return 0;
    const int failed = fault_of_call(kind);
    if (!failed)
        return 0;
    file->_flags |= STREAM_ERROR;
    errno = failed > 0 ? failed : EIO;
    return failed;
}

FAULT_EXPORT size_t fwrite(const void *data, size_t size, size_t n, FILE *file)
{
    FAULT_NEXT(fwrite)
    return stream_fails(file, FAULT_WRITE) ? 0 : next(data, size, n, file);
}

FAULT_EXPORT size_t fread(void *data, size_t size, size_t n, FILE *file)
{
    FAULT_NEXT(fread)
    return stream_fails(file, FAULT_READ) ? 0 : next(data, size, n, file);
}

FAULT_EXPORT char *fgets(char *line, int bytes, FILE *file)
{
    FAULT_NEXT(fgets)
    return stream_fails(file, FAULT_READ) ? NULL : next(line, bytes, file);
}

FAULT_EXPORT ssize_t getline(char **line, size_t *bytes, FILE *file)
{
    FAULT_NEXT(getline)
    return stream_fails(file, FAULT_READ) ? -1 : next(line, bytes, file);
}

FAULT_EXPORT int fputs(const char *text, FILE *file)
{
    FAULT_NEXT(fputs)
    return stream_fails(file, FAULT_WRITE) ? EOF : next(text, file);
}

FAULT_EXPORT int fputc(int c, FILE *file)
{
    FAULT_NEXT(fputc)
    return stream_fails(file, FAULT_WRITE) ? EOF : next(c, file);
}

FAULT_EXPORT int fflush(FILE *file)
{
    FAULT_NEXT(fflush)
    return file && stream_fails(file, FAULT_WRITE) ? EOF : next(file);
}

FAULT_EXPORT int vfprintf(FILE *file, const char *fmt, va_list ap)
{
    FAULT_NEXT(vfprintf)
    return stream_fails(file, FAULT_WRITE) ? -1 : next(file, fmt, ap);
}

FAULT_EXPORT int fprintf(FILE *file, const char *fmt, ...)
{
    va_list ap;
    if (stream_fails(file, FAULT_WRITE))
        return -1;
    va_start(ap, fmt);
    fault_pause();
    const int n = vfprintf(file, fmt, ap);
    fault_go_on();
    va_end(ap);
    return n;
}

FAULT_EXPORT int __fprintf_chk(FILE *file, int flag, const char *fmt, ...);
FAULT_EXPORT int __fprintf_chk(FILE *file, int flag, const char *fmt, ...)
{
    va_list ap;
    (void)flag;
    if (stream_fails(file, FAULT_WRITE))
        return -1;
    va_start(ap, fmt);
    fault_pause();
    const int n = vfprintf(file, fmt, ap);
    fault_go_on();
    va_end(ap);
    return n;
}

FAULT_EXPORT int fclose(FILE *file)
{
    FAULT_NEXT(fclose)
    const bool fails = (file->_flags & 0x2) == 0 /* written to */ &&
                       stream_fails(file, FAULT_WRITE) != 0;
    const int kept = errno;
    const int rc = next(file);
    if (fails)
        errno = kept;
    return fails ? EOF : rc;
}
