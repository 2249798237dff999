/* SPDX-License-Identifier: Apache-2.0 */
/* Forecasts beside what was measured, in report.json and in the notes: never in a
 * column of measurements. */
#include <math.h>

#include "core/compare/report/report_private.h"

void cadre_report_put_prediction(struct cadre_json *json,
                                 const struct cadre_comparison *c, size_t i)
{
    const struct cadre_compared_run *run = &c->run[i];
    const double measured = cadre_report_step_s(run);
    cadre_json_key(json, "forecast");
    if (!c->predicted_by) {
        cadre_json_null(json);
        return;
    }
    const bool known = run->predicted_s > 0;
    cadre_json_begin_object(json);
    cadre_json_put_string(json, "hardware", c->predicted_by);
    cadre_json_put_bool(json, "measured", false);
    cadre_json_put_f64(json, "step_s", known ? run->predicted_s : NAN);
    cadre_json_put_f64(json, "error", known ? run->predicted_s / measured - 1 : NAN);
    cadre_json_put_string(json, "why", known ? NULL : run->unpredicted);
    cadre_json_end_object(json);
}

void cadre_report_note_predictions(const struct cadre_comparison *c,
                                   struct cadre_text *out)
{
    for (size_t i = 0; c->predicted_by && i < c->n; i++) {
        const struct cadre_compared_run *run = &c->run[i];
        const double measured = cadre_report_step_s(run);
        cadre_text_printf(out, "Forecast, not measured (%s): %s ", c->predicted_by,
                          run->name);
        if (run->predicted_s <= 0)
            cadre_text_printf(out, "has none: %s.\n", run->unpredicted);
        else if (!isfinite(measured))
            cadre_text_printf(out, "%.4g s a step; no time was measured.\n",
                              run->predicted_s);
        else
            cadre_text_printf(
                out, "%.4g s a step, where %.4g s were measured: %+.1f %%.\n",
                run->predicted_s, measured, 100 * (run->predicted_s / measured - 1));
    }
}
