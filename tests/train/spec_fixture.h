/* SPDX-License-Identifier: Apache-2.0 */
/* Runs made from options, on text that the fixture writes. Failures end the test. */
#ifndef CADRE_TESTS_SPEC_FIXTURE_H
#define CADRE_TESTS_SPEC_FIXTURE_H

#include "core/run/spec.h"

struct spec_fixture {
    int given_ranks, local_ranks; /* of a launcher outside; 0: none */
    char *dir;
    char out[1100]; /* the run's folder, dir/run */
    struct cadre_error err;
};

void spec_fixture_open(struct spec_fixture *f);
void spec_fixture_close(struct spec_fixture *f);

/* A spec of a small model (two blocks of 16 channels, 16 tokens, 8 sequences in
 * micro-batches of 2) and the assignments in `sets`, separated by blanks; "" for none.
 */
cadre_status spec_fixture_try(struct spec_fixture *f, const char *sets,
                              struct cadre_spec **out);
/* The same without its data, so that model.vocab is given. */
cadre_status spec_fixture_plan(struct spec_fixture *f, const char *sets,
                               struct cadre_spec **out);
/* As spec_fixture_try; it must go well. */
struct cadre_spec *spec_fixture_make(struct spec_fixture *f, const char *sets);

/* A bound rank of the spec, which is of one rank. */
void spec_fixture_rank(struct spec_fixture *f, const struct cadre_spec *spec,
                       struct cadre_rank *rank);

/* Contents of dir/name; the caller frees. */
char *spec_fixture_read(const struct spec_fixture *f, const char *name);
void spec_fixture_write(const struct spec_fixture *f, const char *name,
                        const char *text);

#endif
