/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/train/spec_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"

void spec_fixture_write(const struct spec_fixture *f, const char *name,
                        const char *text)
{
    test_file_put(f->dir, name, text, strlen(text));
}

char *spec_fixture_read(const struct spec_fixture *f, const char *name)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/%s", f->dir, name);
    return test_file_read(path, NULL);
}

void spec_fixture_open(struct spec_fixture *f)
{
    char text[4001];
    memset(f, 0, sizeof *f);
    f->dir = test_tmpdir();
    snprintf(f->out, sizeof f->out, "%s/run", f->dir);
    for (int i = 0; i < 4000; i++)
        text[i] = "the quick brown fox "[i * i % 19];
    text[4000] = 0;
    spec_fixture_write(f, "text", text);
}

void spec_fixture_close(struct spec_fixture *f)
{
    test_tmpdir_destroy(f->dir);
}

static cadre_status set_all(struct spec_fixture *f, struct cadre_options *options,
                            const char *sets)
{
    static const char small[] =
        "model.layers=2 model.channels=16 model.heads=2 model.context=16 "
        "train.global_batch=8 train.micro_batch=2 train.steps=20 data.cache=no";
    char text[2400], *save = NULL;
    int n = snprintf(text, sizeof text, "%s data.path=%s/text %s", small, f->dir, sets);
    ck_assert_int_lt(n, (int)sizeof text);
    cadre_status rc = CADRE_OK;
    for (char *one = strtok_r(text, " ", &save); one && rc == CADRE_OK;
         one = strtok_r(NULL, " ", &save))
        rc = cadre_options_set(options, one, "command line", &f->err);
    return rc;
}

static cadre_status make(struct spec_fixture *f, const char *sets, bool data,
                         struct cadre_spec **out)
{
    const struct cadre_spec_request request = {.out = f->out,
                                               .name = "test",
                                               .given_ranks = f->given_ranks,
                                               .local_ranks = f->local_ranks,
                                               .need_data = data};
    struct cadre_options *options = NULL;
    memset(&f->err, 0, sizeof f->err);
    ck_assert_int_eq(cadre_options_create(&options, &f->err), CADRE_OK);
    cadre_status rc = set_all(f, options, sets);
    if (rc == CADRE_OK)
        return cadre_spec_create(options, &request, out, &f->err);
    cadre_options_destroy(options);
    return rc;
}

cadre_status spec_fixture_try(struct spec_fixture *f, const char *sets,
                              struct cadre_spec **out)
{
    return make(f, sets, true, out);
}

cadre_status spec_fixture_plan(struct spec_fixture *f, const char *sets,
                               struct cadre_spec **out)
{
    return make(f, sets, false, out);
}

struct cadre_spec *spec_fixture_make(struct spec_fixture *f, const char *sets)
{
    struct cadre_spec *spec = NULL;
    cadre_status rc = spec_fixture_try(f, sets, &spec);
    ck_assert_msg(rc == CADRE_OK, "%s", f->err.text);
    return spec;
}

void spec_fixture_rank(struct spec_fixture *f, const struct cadre_spec *spec,
                       struct cadre_rank *rank)
{
    cadre_status rc = cadre_rank_plan(rank, &spec->run, 0, &f->err);
    if (rc == CADRE_OK)
        rc = cadre_rank_bind(rank, NULL, 0, &f->err);
    ck_assert_msg(rc == CADRE_OK, "%s", f->err.text);
}
