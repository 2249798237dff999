/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cli/plan_html.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/path.h"
#include "core/cli/plan_ask.h"
#include "core/cli/plan_draw.h"
#include "core/plan/plan_page.h"
#include "core/run/spec.h"

/* ---- whether it may be written ---- */

/* Somebody's own file is not replaced, nor what is no file. */
static cadre_status refuse_foreign(const char *path, struct cadre_error *err)
{
    char begin[1024] = "";
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return cadre_fail(err, CADRE_E_INVALID,
                          "--html: '%s' is no regular file, choose another one", path);
    FILE *file = fopen(path, "r");
    if (!file)
        return cadre_fail_errno(err, CADRE_E_INVALID, errno, "--html: cannot read '%s'",
                                path);
    const size_t n = fread(begin, 1, sizeof begin - 1, file);
    fclose(file);
    begin[n] = 0;
    if (n == 0 || cadre_plan_page_is(begin))
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "--html: '%s' is no page of a plan, which would replace it; "
                      "choose another file",
                      path);
}

/* It is a page of the list. */
static cadre_status refuse_questions(const struct cadre_cli_args *args,
                                     struct cadre_error *err)
{
    const struct {
        bool asked;
        const char *name;
    } other[] = {
        {args->plan.explain, "--explain"},
        {args->plan.what_if.n, "--what-if"},
        {args->plan.fit, "--fit"},
        {args->plan.cost, "--cost"},
        {args->plan.replay, "--replay"},
        {args->plan.measure, "--measure"},
        {args->plan.simulate, "--simulate"},
        {args->plan.ranks && strstr(args->plan.ranks, ".."), "FIRST..LAST of --ranks"},
    };
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++)
        if (other[i].asked)
            return cadre_fail(
                err, CADRE_E_INVALID,
                "--html is a page of the list of candidates; leave %s out",
                other[i].name);
    return CADRE_OK;
}

cadre_status cadre_plan_html_check(const struct cadre_cli_args *args,
                                   struct cadre_error *err)
{
    const char *path = args->plan.html;
    cadre_status rc = CADRE_OK;
    if (!path)
        return CADRE_OK;
    CADRE_TRY(refuse_questions(args, err));
    char *dir = cadre_path_dirname(path);
    if (!dir)
        return cadre_no_memory(err, "a path");
    if (!*path || cadre_path_is_dir(path))
        rc = cadre_fail(err, CADRE_E_INVALID, "--html: '%s' is a folder, expected FILE",
                        path);
    else if (!cadre_path_is_dir(dir))
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "--html %s: '%s' is no folder; make it first", path, dir);
    else if (access(dir, W_OK) != 0)
        rc = cadre_fail_errno(err, CADRE_E_INVALID, errno, "--html: cannot write '%s'",
                              path);
    else if (cadre_path_exists(path))
        rc = refuse_foreign(path, err);
    free(dir);
    return rc;
}

/* ---- the page ---- */

/* What is known of the file's own stack, as a line of the list says it. */
static cadre_status describe_own(const struct cadre_plan_answers *a,
                                 struct cadre_text *out, struct cadre_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    if (!file)
        return cadre_no_memory(err, "a text");
    cadre_plan_own_print(a, file);
    const bool bad = fclose(file) != 0;
    if (!bad)
        cadre_text_printf(out, "%.*s", (int)strcspn(text, "\n"), text);
    free(text);
    return bad || out->failed ? cadre_no_memory(err, "a text") : CADRE_OK;
}

static cadre_status write_page(const struct cadre_plan_page *page, const char *path,
                               struct cadre_error *err)
{
    struct cadre_text text = {0};
    cadre_plan_page(page, &text);
    cadre_status rc = text.failed
                          ? cadre_no_memory(err, "the page of a plan")
                          : cadre_path_write_file(path, text.data, text.len, err);
    cadre_text_fini(&text);
    if (rc != CADRE_E_IO)
        return rc;
    cadre_error_prefix(err, "--html");
    return CADRE_E_INVALID;
}

cadre_status cadre_plan_html_write(const struct cadre_plan_answers *a,
                                   struct cadre_error *err)
{
    struct cadre_text drawing = {0}, note = {0}, own = {0};
    char *command = cadre_cli_command_line(a->args);
    cadre_status rc = command ? CADRE_OK : cadre_no_memory(err, "the command");
    if (rc != CADRE_OK)
        goto out;
    CADRE_TRY_OR(describe_own(a, &own, err), out);
    CADRE_TRY_OR(cadre_plan_draw(a, &drawing, &note, err), out);
    const struct cadre_plan_page page = {
        .search = &a->search,
        .question = &a->question,
        .hw = &a->hardware,
        .intervals = &a->intervals,
        .top = (size_t)a->top,
        .conf = a->args->conf,
        .hardware = a->args->plan.hardware,
        .command = command,
        .own = cadre_text_str(&own),
        .asked = a->question.ranks <= CADRE_RUN_RANKS,
        .drawing = cadre_text_str(&drawing),
        .drawing_note = cadre_text_str(&note),
    };
    rc = write_page(&page, a->args->plan.html, err);
out:
    cadre_text_fini(&drawing);
    cadre_text_fini(&note);
    free(command);
    cadre_text_fini(&own);
    return rc;
}
