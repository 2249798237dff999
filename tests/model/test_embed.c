/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/check_main.h"
#include "tests/support/finite.h"
#include "tests/support/trainer.h"

static uint32_t find(const struct test_trainer *t, const char *name)
{
    int32_t index = cadre_model_find(t->model, name);
    ck_assert_int_ge(index, 0);
    return (uint32_t)index;
}

/* Row of sequence b at time t is the token's row, plus that of the position in GPT-2.
 */
static void check_rows(enum cadre_arch arch, const char *wte_name, const char *wpe_name)
{
    struct cadre_model_config config = test_small_model(arch);
    struct test_trainer t;
    test_trainer_open(&t, &config, 0, 1, 3, 7);
    test_trainer_scramble(&t, 1, 0.3);
    test_trainer_random_batch(&t, 2, 3, 7);
    test_trainer_forward(&t, 3, 7);
    const double *wte = t.values[find(&t, wte_name)];
    const double *wpe = wpe_name ? t.values[find(&t, wpe_name)] : NULL;
    const double *rows = t.acts[0];
    for (int n = 0; n < 21; n++)
        for (int c = 0; c < 24; c++) {
            double expected = wte[t.tokens[n] * 24 + c];
            if (wpe)
                expected += wpe[n % 7 * 24 + c];
            ck_assert(rows[n * 24 + c] == expected);
        }
    test_trainer_close(&t);
}

START_TEST(rows_are_token_plus_position)
{
    check_rows(CADRE_ARCH_GPT2, "transformer.wte.weight", "transformer.wpe.weight");
    check_rows(CADRE_ARCH_LLAMA, "model.embed_tokens.weight", NULL);
}
END_TEST

/* Tokens and positions that do not occur have a gradient of exactly zero. */
START_TEST(unused_rows_have_no_gradient)
{
    struct cadre_model_config config = test_small_model(CADRE_ARCH_GPT2);
    struct test_trainer t;
    test_trainer_open(&t, &config, 0, 1, 2, 4);
    test_trainer_scramble(&t, 1, 0.3);
    for (int i = 0; i < 8; i++)
        t.tokens[i] = t.targets[i] = i < 4 ? 3 : 9;
    test_trainer_forward(&t, 2, 4);
    test_trainer_backward(&t, false);
    const double *dwte = t.grads[find(&t, "transformer.wte.weight")];
    const double *dwpe = t.grads[find(&t, "transformer.wpe.weight")];
    for (int row = 0; row < 26; row++)
        for (int c = 0; c < 24; c++)
            ck_assert((dwte[row * 24 + c] != 0) == (row == 3 || row == 9));
    for (int row = 0; row < 11; row++)
        for (int c = 0; c < 24; c++)
            ck_assert((dwpe[row * 24 + c] != 0) == (row < 4));
    test_trainer_close(&t);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("embed");
    TCase *tc = tcase_create("embed");
    tcase_add_test(tc, rows_are_token_plus_position);
    tcase_add_test(tc, unused_rows_have_no_gradient);
    suite_add_tcase(s, tc);
    return s;
}
