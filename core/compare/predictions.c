/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/predictions.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/compare/report/report.h"

cadre_status cadre_predictions_make(struct cadre_comparison *comparison,
                                    const struct cadre_prediction_request *request,
                                    struct cadre_error *err)
{
    if (!request->hardware)
        return CADRE_OK;
    comparison->predicted_by = cadre_strdup(request->hardware);
    if (!comparison->predicted_by)
        return cadre_no_memory(err, "a hardware file's name");
    for (size_t i = 0; i < comparison->n; i++) {
        struct cadre_compared_run *run = &comparison->run[i];
        struct cadre_error why = {0};
        double seconds = NAN;
        if (!run->options)
            snprintf(run->unpredicted, sizeof run->unpredicted,
                     "its options are not known");
        else if (run->instances)
            snprintf(run->unpredicted, sizeof run->unpredicted,
                     "it is made of independent runs");
        else if (request->predict(request->arg, run->options, &seconds, &why) ==
                 CADRE_OK)
            run->predicted_s = seconds;
        else
            snprintf(run->unpredicted, sizeof run->unpredicted, "%.159s", why.text);
    }
    return CADRE_OK;
}

static cadre_status put_lines(const struct cadre_comparison *c, bool first, FILE *file)
{
    char date[32];
    cadre_report_date(date, sizeof date);
    bool wrong = false;
    if (first)
        wrong = fputs("date\thardware\trun\tstack\tforecast_s\tmeasured_s\terror\n",
                      file) < 0;
    for (size_t i = 0; i < c->n && !wrong; i++) {
        const struct cadre_compared_run *run = &c->run[i];
        const double measured = cadre_report_step_s(run);
        if (run->predicted_s > 0 && isfinite(measured))
            wrong = fprintf(file, "%s\t%s\t%s\t%s\t%.6g\t%.6g\t%.4f\n", date,
                            c->predicted_by, run->name, run->strategy, run->predicted_s,
                            measured, run->predicted_s / measured - 1) < 0;
    }
    return wrong ? CADRE_E_IO : CADRE_OK;
}

cadre_status cadre_predictions_log(const struct cadre_comparison *c, const char *dir,
                                   struct cadre_error *err)
{
    if (!c->predicted_by)
        return CADRE_OK;
    char *path = cadre_path_join(dir, "predictions.tsv");
    if (!path)
        return cadre_no_memory(err, "a path");
    const bool first = !cadre_path_exists(path);
    FILE *file = fopen(path, "ae");
    cadre_status rc = CADRE_OK;
    if (!file || put_lines(c, first, file) != CADRE_OK)
        rc = CADRE_E_IO;
    if (file && fclose(file) != 0)
        rc = CADRE_E_IO;
    if (rc != CADRE_OK)
        rc = cadre_fail_errno(err, rc, errno, "cannot write '%s'", path);
    free(path);
    return rc;
}
