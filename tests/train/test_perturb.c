/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/perturb.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"
#include "tests/train/spec_fixture.h"

static struct spec_fixture f;
static struct cadre_spec *spec;
static struct cadre_rank before, after;

static void setup(void)
{
    spec_fixture_open(&f);
}

static void teardown(void)
{
    cadre_rank_fini(&before);
    cadre_rank_fini(&after);
    cadre_spec_destroy(spec);
    spec_fixture_close(&f);
}

static void make(const char *sets, uint64_t seed)
{
    spec = spec_fixture_make(&f, sets);
    spec_fixture_rank(&f, spec, &before);
    spec_fixture_rank(&f, spec, &after);
    ck_assert_int_eq(cadre_perturb(&after, seed, &f.err), CADRE_OK);
}

/* Values that are some representable values away; all must be 1, or 0 for zero. */
static void count(uint64_t *up, uint64_t *down)
{
    bool wide = spec->run.model.dtype == CADRE_F64;
    *up = *down = 0;
    for (uint32_t i = 0; i < before.model->n_params; i++) {
        const void *a = before.store.param[i].data, *b = after.store.param[i].data;
        uint64_t n =
            before.model->params[i].tied_to < 0 ? before.store.param[i].count : 0;
        for (uint64_t k = 0; k < n; k++) {
            double x = wide ? ((const double *)a)[k] : (double)((const float *)a)[k];
            double y = wide ? ((const double *)b)[k] : (double)((const float *)b)[k];
            double next =
                wide ? nextafter(x, y) : (double)nextafterf((float)x, (float)y);
            ck_assert(x != 0 ? y != x && y == next : y == 0);
            *up += y > x;
            *down += y < x;
        }
    }
}

static const char *const kinds[] = {"", "train.precision=fp64 model.arch=llama"};

START_TEST(moves_every_value_by_one)
{
    uint64_t up, down;
    make(kinds[_i], 1);
    count(&up, &down);
    ck_assert_uint_gt(up, 1000);
    double tilt = (double)up / (double)(up + down);
    ck_assert_msg(tilt > 0.45 && tilt < 0.55, "%g", tilt);
}
END_TEST

START_TEST(another_seed_moves_otherwise)
{
    uint64_t up, down, other_up;
    make("", 1);
    count(&up, &down);
    cadre_rank_fini(&after);
    spec_fixture_rank(&f, spec, &after);
    ck_assert_int_eq(cadre_perturb(&after, 2, &f.err), CADRE_OK);
    count(&other_up, &down);
    ck_assert_uint_ne(up, other_up);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("perturb");
    TCase *tc = tcase_create("perturb");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, moves_every_value_by_one, 0, 2);
    tcase_add_test(tc, another_seed_moves_otherwise);
    suite_add_tcase(suite, tc);
    return suite;
}
