/* SPDX-License-Identifier: Apache-2.0 */
#include "core/top/show.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/base/terminal.h"

#define PERIOD_S 1
/* Frames that a run has ended before the last one is left: ranks that are started again
 * (run.elastic) have ended for a moment. */
#define LAST_FRAMES 4

/* The alternate screen without a cursor, and back. */
#define ENTER "\033[?1049h\033[?25l"
#define LEAVE "\033[?25h\033[?1049l"
#define HOME "\033[H"
#define CLEAR_BELOW "\033[J"

struct view {
    const struct cadre_top_request *request;
    bool terminal;
    struct cadre_top_look look;
    sigset_t watched, before;
};

static void look_at_terminal(struct view *v)
{
    const char *term = getenv("TERM"), *plain = getenv("NO_COLOR");
    struct winsize size;
    v->look.columns = cadre_terminal_columns(STDOUT_FILENO);
    v->look.rows = 0;
    v->look.colours =
        v->terminal && !(plain && *plain) && term && strcmp(term, "dumb") != 0;
    if (v->terminal && !v->request->once &&
        ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 1)
        v->look.rows = size.ws_row - 1;
}

static cadre_status put(const char *text, struct cadre_error *err)
{
    if (fputs(text, stdout) >= 0 && fflush(stdout) == 0)
        return CADRE_OK;
    return cadre_fail_errno(err, CADRE_E_IO, errno, "cannot write to stdout");
}

/* Lines are cleared to their ends, so nothing flickers. */
static void put_over(const struct cadre_text *frame, struct cadre_text *out)
{
    cadre_text_printf(out, HOME);
    for (const char *line = cadre_text_str(frame); *line;) {
        const size_t n = strcspn(line, "\n");
        cadre_text_append(out, line, n);
        cadre_text_printf(out, "\033[K\r\n");
        line += n + (line[n] == '\n');
    }
    cadre_text_printf(out, CLEAR_BELOW);
}

static cadre_status one_frame(struct view *v, struct cadre_text *frame, bool *over,
                              struct cadre_error *err)
{
    look_at_terminal(v);
    cadre_text_reset(frame);
    return cadre_top_draw(v->request, &v->look, frame, over, err);
}

/* ---- frame after frame ---- */

static void watch_signals(struct view *v)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP};
    sigemptyset(&v->watched);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaddset(&v->watched, signals[i]);
    sigprocmask(SIG_BLOCK, &v->watched, &v->before);
}

/* Wait for the next frame; false: there is none. */
static bool wait_for_next(const struct view *v)
{
    const struct timespec period = {.tv_sec = PERIOD_S};
    const int sig = sigtimedwait(&v->watched, NULL, &period);
    if (sig == SIGTSTP) {
        put(v->terminal ? LEAVE : "", NULL);
        raise(SIGSTOP);
        put(v->terminal ? ENTER : "", NULL);
    }
    return sig != SIGINT && sig != SIGTERM && sig != SIGHUP;
}

static cadre_status put_frame(const struct view *v, const struct cadre_text *frame,
                              struct cadre_error *err)
{
    struct cadre_text out = {0};
    if (v->terminal)
        put_over(frame, &out);
    else
        cadre_text_printf(&out, "%s\n", cadre_text_str(frame));
    cadre_status rc =
        out.failed ? cadre_no_memory(err, "a frame") : put(cadre_text_str(&out), err);
    cadre_text_fini(&out);
    return rc;
}

static cadre_status all_frames(struct view *v, struct cadre_text *frame, bool over,
                               struct cadre_error *err)
{
    int ended = over ? LAST_FRAMES : 0; /* before it was looked at */
    for (;;) {
        CADRE_TRY(put_frame(v, frame, err));
        if (ended >= LAST_FRAMES || !wait_for_next(v))
            return CADRE_OK;
        struct cadre_error why = {0};
        if (one_frame(v, frame, &over, &why) != CADRE_OK) {
            cadre_text_reset(frame);
            cadre_text_printf(frame, "%s\n", why.text);
            over = true;
        }
        ended = over ? ended + 1 : 0;
    }
}

/* The last frame stays on the terminal's own screen. */
static cadre_status keep_showing(struct view *v, struct cadre_text *frame, bool over,
                                 struct cadre_error *err)
{
    watch_signals(v);
    cadre_status rc = put(v->terminal ? ENTER : "", err);
    if (rc == CADRE_OK)
        rc = all_frames(v, frame, over, err);
    if (v->terminal) {
        put(LEAVE, NULL);
        put(cadre_text_str(frame), NULL);
    }
    sigprocmask(SIG_SETMASK, &v->before, NULL);
    return rc;
}

cadre_status cadre_top_show(const struct cadre_top_request *request,
                            struct cadre_error *err)
{
    struct view v = {.request = request, .terminal = isatty(STDOUT_FILENO) == 1};
    struct cadre_text frame = {0};
    bool over = false;
    cadre_status rc = one_frame(&v, &frame, &over, err);
    if (rc == CADRE_OK && (request->once || request->json))
        rc = put(cadre_text_str(&frame), err);
    else if (rc == CADRE_OK)
        rc = keep_showing(&v, &frame, over, err);
    cadre_text_fini(&frame);
    return rc;
}
