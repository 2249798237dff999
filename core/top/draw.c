/* SPDX-License-Identifier: Apache-2.0 */
/* One frame of a folder, whichever it is. */
#include <inttypes.h>
#include <stdlib.h>

#include "core/base/json.h"
#include "core/base/path.h"
#include "core/top/find.h"
#include "core/top/show.h"

/* All runs of a folder at one moment. */
struct moment {
    struct cadre_top_runs runs;
    struct cadre_top_snapshot *snapshot; /* (runs.n); without a lead: unknown */
    struct cadre_error *why; /* (runs.n) why it is unknown */
};

static cadre_status open_moment(const char *dir, struct moment *m,
                                struct cadre_error *err)
{
    CADRE_TRY(cadre_top_find(dir, &m->runs, err));
    m->snapshot = cadre_calloc(m->runs.n, sizeof *m->snapshot);
    m->why = cadre_calloc(m->runs.n, sizeof *m->why);
    if (!m->snapshot || !m->why)
        return cadre_no_memory(err, "%zu runs", m->runs.n);
    for (size_t i = 0; i < m->runs.n; i++)
        if (cadre_top_snapshot_take(m->runs.dir[i], &m->snapshot[i], &m->why[i]) !=
            CADRE_OK)
            cadre_top_snapshot_fini(&m->snapshot[i]);
    return CADRE_OK;
}

static void close_moment(struct moment *m)
{
    for (size_t i = 0; m->snapshot && i < m->runs.n; i++)
        cadre_top_snapshot_fini(&m->snapshot[i]);
    free(m->snapshot);
    free(m->why);
    cadre_top_runs_fini(&m->runs);
}

static bool is_at_work(const struct cadre_top_snapshot *snapshot)
{
    return snapshot->lead && snapshot->state == CADRE_TOP_RUNNING;
}

/* The only run, or the only one at work; NULL: there are several. */
static const struct cadre_top_snapshot *choose(const struct moment *m)
{
    const struct cadre_top_snapshot *found = NULL;
    int n = 0;
    if (m->runs.n == 1)
        return &m->snapshot[0];
    for (size_t i = 0; i < m->runs.n; i++)
        if (is_at_work(&m->snapshot[i])) {
            found = &m->snapshot[i];
            n++;
        }
    return n == 1 ? found : NULL;
}

static void list_plain(const struct moment *m, const char *dir, struct cadre_text *out)
{
    cadre_text_printf(out, "%zu runs in '%s'; `cadre top` shows one of them:\n",
                      m->runs.n, dir);
    for (size_t i = 0; i < m->runs.n; i++) {
        const struct cadre_top_snapshot *s = &m->snapshot[i];
        if (s->lead)
            cadre_text_printf(out, "  %s  %s  step %" PRId64 "/%" PRId64 "\n",
                              m->runs.dir[i], cadre_top_state_name(s->state), s->step,
                              s->last_step);
        else
            cadre_text_printf(out, "  %s  unknown: %s\n", m->runs.dir[i],
                              m->why[i].text);
    }
}

static cadre_status list_json(const struct moment *m, const char *dir,
                              struct cadre_text *out)
{
    struct cadre_json json;
    cadre_json_init_text(&json, out, true);
    cadre_json_begin_object(&json);
    cadre_json_put_i64(&json, "format", CADRE_TOP_FORMAT);
    cadre_json_put_string(&json, "dir", dir);
    cadre_json_key(&json, "runs");
    cadre_json_begin_array(&json);
    for (size_t i = 0; i < m->runs.n; i++) {
        const struct cadre_top_snapshot *s = &m->snapshot[i];
        cadre_json_begin_object(&json);
        cadre_json_put_string(&json, "dir", m->runs.dir[i]);
        cadre_json_put_string(&json, "state",
                              s->lead ? cadre_top_state_name(s->state) : NULL);
        if (s->lead) {
            cadre_json_put_i64(&json, "step", s->step);
            cadre_json_put_i64(&json, "last_step", s->last_step);
        } else {
            cadre_json_put_string(&json, "why", m->why[i].text);
        }
        cadre_json_end_object(&json);
    }
    cadre_json_end_array(&json);
    cadre_json_end_object(&json);
    return cadre_json_finish(&json);
}

static cadre_status draw(const struct cadre_top_request *request,
                         const struct cadre_top_look *look, const struct moment *m,
                         struct cadre_text *out, struct cadre_error *err)
{
    const struct cadre_top_snapshot *one = choose(m);
    cadre_status rc = CADRE_OK;
    if (one && !one->lead) { /* the only run of the folder */
        *err = m->why[0];
        return err->code;
    }
    if (one && request->json)
        rc = cadre_top_frame_json(one, out);
    else if (one)
        cadre_top_frame(one, look, out);
    else if (request->json)
        rc = list_json(m, request->dir, out);
    else
        list_plain(m, request->dir, out);
    return rc != CADRE_OK || out->failed ? cadre_no_memory(err, "a frame") : CADRE_OK;
}

/* Between two runs of a sweep or a comparison, which have a file of options, none is at
 * work: that is over where its report is there. */
static bool is_over(const char *dir, const struct moment *m)
{
    static const char *const reports[] = {"report.json", "instances.json"};
    static const char *const options[] = {"comparison.ini", "config.ini"};
    bool reported = m->runs.n == 1 || (!cadre_path_has(dir, options[0]) &&
                                       !cadre_path_has(dir, options[1]));
    for (size_t i = 0; i < m->runs.n; i++)
        if (is_at_work(&m->snapshot[i]))
            return false;
    return reported || cadre_path_has(dir, reports[0]) ||
           cadre_path_has(dir, reports[1]);
}

cadre_status cadre_top_draw(const struct cadre_top_request *request,
                            const struct cadre_top_look *look, struct cadre_text *out,
                            bool *over, struct cadre_error *err)
{
    struct moment m = {0};
    cadre_status rc = open_moment(request->dir, &m, err);
    *over = false;
    if (rc == CADRE_OK && m.snapshot)
        rc = draw(request, look, &m, out, err);
    if (rc == CADRE_OK && m.snapshot)
        *over = is_over(request->dir, &m);
    close_moment(&m);
    return rc;
}
