/* SPDX-License-Identifier: Apache-2.0 */
#include "core/report/run_page.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/path.h"
#include "core/page/build.h"
#include "core/page/chart.h"
#include "core/page/page.h"
#include "core/report/run_setup.h"
#include "core/run/format.h"

enum { MOST_TAGS = 24, MOST_BYTES = 1 << 30 };

static void put_setup(const struct cadre_run_data *data, struct cadre_text *out)
{
    struct cadre_run_setup *setup = cadre_calloc(1, sizeof *setup);
    char date[CADRE_PAGE_DATE];
    if (!setup) {
        out->failed = true;
        return;
    }
    cadre_run_setup_fill(data, setup);
    cadre_run_setup_add(setup, "page written", cadre_page_date(date));
    cadre_run_setup_add(setup, "page written by", cadre_page_build());
    cadre_page_setup(out, setup->item, setup->n);
    free(setup);
}

/* ---- curves ---- */

struct points {
    double x[2][CADRE_CURVE_POINTS], y[2][CADRE_CURVE_POINTS];
};

struct curves {
    const char *title, *unit;
    double factor; /* of the values, for short numbers at the axis */
    enum cadre_run_series series[2];
    const char *name[2]; /* NULL: one series */
};

/* Nothing without a point. */
static void put_curves(const struct cadre_run_data *data, const struct curves *curves,
                       struct points *points, struct cadre_text *out)
{
    struct cadre_chart_series drawn[2];
    const double *x[2];
    size_t n = 0;
    for (size_t i = 0; i < 2 && curves->name[i]; i++) {
        size_t found = cadre_curve_points(&data->curve[curves->series[i]], points->x[i],
                                          points->y[i]);
        for (size_t k = 0; k < found; k++)
            points->y[i][k] *= curves->factor;
        drawn[n] = (struct cadre_chart_series){curves->name[i], points->y[i], found};
        x[n] = points->x[i];
        n += found > 0;
    }
    if (n > 0)
        cadre_chart_curves(out, curves->title, curves->unit, drawn, x, n);
}

static void put_series(const struct cadre_run_data *data, struct cadre_text *out)
{
    static const struct curves charts[] = {
        {"Loss",
         "nats",
         1,
         {CADRE_SERIES_LOSS, CADRE_SERIES_VALID},
         {"training", "validation"}},
        {"Gradient norm before clipping", "", 1, {CADRE_SERIES_NORM}, {"norm"}},
        {"Learning rate", "", 1, {CADRE_SERIES_LR}, {"learning rate"}},
        {"Speed, 1000 tokens/s", "", 1e-3, {CADRE_SERIES_TOKENS}, {"1000 tokens/s"}},
    };
    struct points *points = cadre_calloc(1, sizeof *points);
    out->failed = out->failed || !points;
    for (size_t i = 0; points && i < sizeof charts / sizeof charts[0]; i++)
        put_curves(data, &charts[i], points, out);
    free(points);
}

/* ---- time and memory ---- */

/* The kinds of a step's time and their seconds. */
struct kinds {
    struct cadre_chart_kind kind[CADRE_PARTS + CADRE_STEP_AXES + 1];
    char name[CADRE_STEP_AXES][CADRE_AXIS_CHARS + 24];
    double value[CADRE_PARTS + CADRE_STEP_AXES + 1];
    size_t n;
};

static void add_kind(struct kinds *kinds, const char *name, int style, double value)
{
    kinds->kind[kinds->n] = (struct cadre_chart_kind){name, style};
    kinds->value[kinds->n++] = fmax(value, 0);
}

static void fill_kinds(const struct cadre_run_data *data, struct kinds *kinds)
{
    /* names and colours are those of a comparison's page */
    static const int styles[] = {1, 3, 7, 9, 13, 15, 19, 21};
    enum { STYLES_OF_AXES = sizeof styles / sizeof styles[0] };
    const struct cadre_step_parts *parts = &data->parts;
    add_kind(kinds, "compute", 0, parts->part[CADRE_PART_COMPUTE]);
    for (int i = 0; i < parts->exposed.n; i++) {
        snprintf(kinds->name[i], sizeof kinds->name[i], "exposed: %s",
                 parts->exposed.of[i].axis);
        add_kind(kinds, kinds->name[i], styles[i % STYLES_OF_AXES],
                 parts->exposed.of[i].s);
    }
    add_kind(kinds, "wait for ranks", 4, parts->part[CADRE_PART_RANKS]);
    add_kind(kinds, "bubble", CADRE_CHART_HOLLOW, parts->part[CADRE_PART_BUBBLE]);
    add_kind(kinds, "data", 2, parts->part[CADRE_PART_DATA]);
    add_kind(kinds, "optimizer", 5, parts->part[CADRE_PART_OPTIMIZER]);
    add_kind(kinds, "other", CADRE_CHART_GREY,
             data->parts_step_s - cadre_step_parts_sum(parts));
}

static void put_parts(const struct cadre_run_data *data, struct cadre_text *out)
{
    struct kinds kinds = {0};
    char label[64];
    if (!data->parts.known)
        return;
    fill_kinds(data, &kinds);
    const struct cadre_chart_stack_row row = {
        .name = "rank 0",
        .value = kinds.value,
        .label = cadre_format_seconds(data->parts_step_s, label, sizeof label),
    };
    const struct cadre_chart_stack chart = {
        .title = "Time of a step, by its parts",
        .kind = kinds.kind,
        .n_kinds = kinds.n,
        .row = &row,
        .n = 1,
        .format = cadre_format_seconds,
    };
    cadre_chart_stack(out, &chart);
}

/* A bar a tag of the ledger: the most bytes of a rank. */
static void put_memory(const struct cadre_run_data *data, struct cadre_text *out)
{
    struct cadre_chart_bar bar[MOST_TAGS];
    json_t *memory = json_object_get(data->summary, "memory"), *list;
    const char *tag;
    size_t n = 0;
    json_object_foreach(memory, tag, list)
    {
        double most = 0;
        for (size_t r = 0; r < json_array_size(list); r++)
            most = fmax(most, json_number_value(json_array_get(list, r)));
        if (n == MOST_TAGS || !(most > 0))
            continue;
        bar[n] = (struct cadre_chart_bar){
            .name = tag, .value = most, .low = NAN, .high = NAN, .mark = NAN};
        cadre_format_bytes(most, bar[n].label, sizeof bar[n].label);
        n++;
    }
    const struct cadre_chart_bars chart = {
        .title = "Peak memory by kind, of the rank with most", .bar = bar, .n = n};
    if (n > 0)
        cadre_chart_bars(out, &chart);
}

/* ---- the page ---- */

static void say(struct cadre_text *out, const char *class,
                const struct cadre_text *text)
{
    if (text->len > 0)
        cadre_page_paragraph(out, class, cadre_text_str(text));
    out->failed = out->failed || text->failed;
}

/* Losses and speed in a sentence each, and what to know of the figures. */
static void put_words(const struct cadre_run_data *data, struct cadre_text *out)
{
    struct cadre_text text = {0};
    char a[64], b[64], c[64];
    double last = data->steps ? data->loss[data->steps - 1] : (double)NAN;
    if (isfinite(last))
        cadre_text_printf(&text, "Training loss %.4f at step %" PRId64 ".", last,
                          data->last_step);
    if (isfinite(data->best_valid))
        cadre_text_printf(
            &text, "%sLowest validation loss %.4f at step %" PRId64 ", last one %.4f.",
            text.len ? " " : "", data->best_valid, data->best_valid_step,
            data->last_valid);
    say(out, "said", &text);
    cadre_text_reset(&text);
    if (isfinite(data->step_s.median))
        cadre_text_printf(
            &text,
            "A step took %s in the median, %s to %s in the middle half of %zu %s.",
            cadre_format_seconds(data->step_s.median, a, sizeof a),
            cadre_format_seconds(data->step_s.low, b, sizeof b),
            cadre_format_seconds(data->step_s.high, c, sizeof c), data->step_s.n,
            data->bench.n ? "windows" : "steps after warm-up");
    say(out, "said", &text);
    cadre_text_reset(&text);
    if (data->not_finite)
        cadre_text_printf(&text, "%zu of %zu steps have no finite loss.",
                          data->not_finite, data->steps);
    say(out, "said bad", &text);
    cadre_text_reset(&text);
    if (data->unread)
        cadre_text_printf(&text,
                          "%zu line%s of metrics.jsonl is no step and is left out.",
                          data->unread, data->unread == 1 ? "" : "s");
    say(out, "soft", &text);
    cadre_text_fini(&text);
}

static void put_links(const struct cadre_run_data *data, struct cadre_text *out)
{
    static const char *const names[] = {"summary.json", "metrics.jsonl", "config.ini",
                                        "bench.json", "trace.json"};
    bool first = true;
    cadre_text_printf(out, "<p class=\"soft\">Files: ");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!cadre_path_has(data->dir, names[i]))
            continue;
        cadre_text_printf(out, "%s", first ? "" : ", ");
        cadre_page_link(out, names[i], names[i]);
        first = false;
    }
    cadre_text_printf(out, "</p>\n");
}

static void put_foot(const struct cadre_run_data *data, bool beside,
                     struct cadre_text *out)
{
    cadre_page_paragraph(
        out, "soft",
        "Long runs are drawn in at most 800 points a curve, the lowest and the highest "
        "of as many stretches as half of them: no peak is lost. Times are those of "
        "rank 0 after warm-up, the parts of a step are means. One run says how fast it "
        "was, not whether it is faster than another: cadre compare does.");
    if (beside)
        put_links(data, out);
}

void cadre_run_page(const struct cadre_run_data *data, bool beside,
                    struct cadre_text *out)
{
    struct cadre_text title = {0};
    cadre_text_printf(&title, "Run: %s", data->name);
    cadre_page_begin(out, data->name, cadre_text_str(&title));
    cadre_text_fini(&title);
    put_words(data, out); /* what was found stands first, on a phone too */
    put_setup(data, out);
    cadre_text_printf(out, "<div class=\"charts\">\n");
    put_series(data, out);
    put_parts(data, out);
    put_memory(data, out);
    cadre_text_printf(out, "</div>\n");
    put_foot(data, beside, out);
    cadre_page_end(out);
}

cadre_status cadre_run_page_save(const struct cadre_run_data *data, const char *dir,
                                 struct cadre_error *err)
{
    struct cadre_text page = {0};
    char *path = cadre_path_join(dir, "run.html");
    cadre_run_page(data, strcmp(dir, data->dir) == 0, &page);
    cadre_status rc =
        path && !page.failed
            ? cadre_path_write_file(path, cadre_text_str(&page), page.len, err)
            : cadre_no_memory(err, "run.html");
    cadre_text_fini(&page);
    free(path);
    return rc;
}

cadre_status cadre_run_page_write(const char *dir, struct cadre_error *err)
{
    struct cadre_run_data *data = cadre_calloc(1, sizeof *data);
    if (!data)
        return cadre_no_memory(err, "run.html");
    cadre_status rc = cadre_run_data_read(dir, data, err);
    if (rc == CADRE_OK)
        rc = cadre_run_page_save(data, dir, err);
    cadre_run_data_fini(data);
    free(data);
    return rc;
}

cadre_status cadre_run_page_leave(const char *dir, struct cadre_error *err)
{
    struct stat info;
    char *path = cadre_path_join(dir, "metrics.jsonl");
    bool large = path && stat(path, &info) == 0 && info.st_size > MOST_BYTES;
    free(path);
    if (large)
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s/metrics.jsonl' has more than 1 GiB, which takes a while "
                          "to read; `cadre report %s` does",
                          dir, dir);
    return cadre_run_page_write(dir, err);
}
