/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/progress.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/log.h"

#define BAR_CELLS 24

void cadre_progress_init(struct cadre_progress *progress, const struct cadre_spec *spec,
                         int64_t first_step, int64_t last_step)
{
    const enum cadre_config_switch bar = spec->config.log.progress;
    bool terminal = isatty(STDERR_FILENO) == 1;
    memset(progress, 0, sizeof *progress);
    progress->spec = spec;
    progress->bar = bar == CADRE_CONFIG_YES || (bar == CADRE_CONFIG_AUTO && terminal);
    progress->first_step = first_step;
    progress->last_step = last_step;
    progress->every = spec->config.log.every;
    progress->start_s = cadre_now_s();
}

/* "1:02:03" or "2:03". */
static void format_left(double seconds, char *out, size_t size)
{
    long s = seconds > 0 && seconds < 1e9 ? (long)(seconds + 0.5) : 0;
    if (s >= 3600)
        snprintf(out, size, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, size, "%ld:%02ld", s / 60, s % 60);
}

/* Columns of the terminal, 80 if unknown. */
static int terminal_columns(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return 80;
}

/* One line that never wraps: the bar shrinks first, then the name, then the end. */
static void compose(const struct cadre_progress *progress, int64_t step,
                    const char *figures, char *line, size_t size)
{
    const struct cadre_spec *spec = progress->spec;
    int64_t last = progress->last_step;
    int room = terminal_columns() - 1 - (int)strlen(figures);
    int name = (int)strlen(spec->name);
    char cells[BAR_CELLS + 4] = "";
    int width = room - name - 4 < BAR_CELLS ? room - name - 4 : BAR_CELLS;
    if (width >= 4) {
        int full = (int)(width * step / (last > 0 ? last : 1));
        cells[0] = ' ';
        cells[1] = '[';
        for (int i = 0; i < width; i++)
            cells[i + 2] = i < full ? '#' : '.';
        cells[width + 2] = ']';
        cells[width + 3] = 0;
    }
    int most = terminal_columns() - 1;
    snprintf(line, size, "%.*s%s %s", name < room - 1 ? name : 0, spec->name, cells,
             figures);
    if ((size_t)most < size)
        line[most] = 0;
}

void cadre_progress_step(struct cadre_progress *progress, int64_t step,
                         const struct cadre_step_report *report,
                         const struct cadre_valid_result *valid)
{
    const struct cadre_spec *spec = progress->spec;
    int64_t done = step - progress->first_step, last = progress->last_step;
    double per_step = (cadre_now_s() - progress->start_s) / (double)(done ? done : 1);
    double rate = (double)(spec->run.global_batch * spec->run.time) / per_step;
    char left[32], extra[48] = "", figures[160], line[256];
    format_left(per_step * (double)(last - step), left, sizeof left);
    if (valid->has)
        snprintf(extra, sizeof extra, "  valid %.4f", valid->loss);
    bool due = step % progress->every == 0 || step == last || done == 1;
    if (!progress->bar) {
        if (due || valid->has)
            cadre_log(CADRE_LOG_INFO, "train",
                      "%s: step %lld/%lld  loss %.4f%s  %.0f tokens/s  %s left",
                      spec->name, (long long)step, (long long)last, report->loss, extra,
                      rate, left);
        return;
    }
    /* the bar's next line would overwrite it */
    if (valid->has)
        cadre_log(CADRE_LOG_INFO, "train", "step %lld  loss %.4f%s", (long long)step,
                  report->loss, extra);
    snprintf(figures, sizeof figures, "%lld/%lld  loss %.4f  %.0f tokens/s  %s left",
             (long long)step, (long long)last, report->loss, rate, left);
    compose(progress, step, figures, line, sizeof line);
    cadre_log_bar(line);
}

void cadre_progress_fini(struct cadre_progress *progress)
{
    if (progress->bar)
        cadre_log_bar(NULL);
}
