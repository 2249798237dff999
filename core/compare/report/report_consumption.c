/* SPDX-License-Identifier: Apache-2.0 */
/* What tokens took, in report.json and in the notes. */
#include <math.h>

#include "core/compare/report/report_private.h"
#include "core/compare/verdict/consumption.h"

void cadre_report_put_consumption(struct cadre_json *json,
                                  const struct cadre_comparison *c, size_t i)
{
    const struct cadre_compared_run *run = &c->run[i];
    cadre_json_put_f64(json, "j_per_token", cadre_consumption_joules(c, i));
    cadre_json_put_string(json, "energy_why",
                          run->record.summary
                              ? cadre_record_text_in(&run->record, "energy", "why")
                              : NULL);
    cadre_json_put_f64(json, "mfu", cadre_consumption_mfu(run));
    cadre_json_put_f64(json, "hfu", cadre_consumption_hfu(run));
    cadre_json_put_f64(json, "price_per_million_tokens", cadre_consumption_price(run));
}

static void note_energy(const struct cadre_record *record, bool known,
                        struct cadre_text *out)
{
    const char *scope = cadre_record_text_in(record, "energy", "scope");
    const char *why = cadre_record_text_in(record, "energy", "why");
    const double idle_w = cadre_record_number_in(record, "energy", "idle_w");
    if (known && scope)
        cadre_text_printf(out,
                          "J/token: energy of %s during the training steps / their "
                          "tokens.\n",
                          scope);
    if (known && scope && isfinite(idle_w))
        cadre_text_printf(out,
                          "Idle power of the packages, before the ranks started: %.3g "
                          "W, included.\n",
                          idle_w);
    else if (!(known && scope) && why)
        cadre_text_printf(out, "Energy is not readable here, because %s.\n", why);
}

static void note_utilisation(const struct cadre_record *record, struct cadre_text *out)
{
    const char *source = cadre_record_text_in(record, NULL, "peak_source");
    const char *why = cadre_record_text_in(record, NULL, "mfu_why");
    if (source)
        cadre_text_printf(out, "%s; peak: %s.\n", CADRE_FORMULA_MFU, source);
    else if (why)
        cadre_text_printf(out, "MFU is not known, because %s.\n", why);
}

void cadre_report_note_consumption(const struct cadre_comparison *c,
                                   struct cadre_text *out)
{
    const struct cadre_record *record = NULL;
    bool known = false;
    for (size_t i = 0; i < c->n; i++) {
        known = known || isfinite(cadre_consumption_joules(c, i));
        if (!record && c->run[i].record.summary)
            record = &c->run[i].record;
    }
    if (!record)
        return;
    note_energy(record, known, out);
    note_utilisation(record, out);
}
