/* SPDX-License-Identifier: Apache-2.0 */
/* Layout of the buffers of a block. */
#include "core/model/block.h"

#include <stdlib.h>

#include "tests/support/check_main.h"

static const struct cadre_model_config config = {
    .arch = CADRE_ARCH_GPT2,
    .layers = 1,
    .channels = 12,
    .heads = 3,
    .kv_heads = 3,
    .hidden = 20,
    .context = 7,
    .vocab = 11,
    .norm_eps = 1e-5,
    .dtype = CADRE_F32,
};

static int by_address(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    return x < y ? -1 : x > y;
}

/* Parts are at least 64 bytes long, in the order of their buffers, and end inside. */
START_TEST(parts_are_disjoint_and_inside)
{
    const bool gated = _i & 1, separate = _i & 2;
    struct cadre_model *model;
    struct cadre_error err = {0};
    struct cadre_pass pass = {.batch = 2, .time = 7};
    ck_assert_int_eq(cadre_model_create(&config, 0, 1, &model, &err), CADRE_OK);
    struct cadre_unit unit = cadre_unit_of(model, 1, 2, 7, NULL);
    struct cadre_carver counted = {.unit = &unit};
    struct cadre_block none = cadre_block_carve(&counted, gated, 12);
    ck_assert_ptr_null(none.norm1);
    ck_assert_ptr_null(none.wide);
    const size_t *n = counted.used;
    const size_t saved = n[CADRE_UNIT_SAVED], input = n[CADRE_UNIT_SAVED_FOR_INPUT];
    const size_t grads = n[CADRE_UNIT_GRAD_OUTPUTS];
    const size_t all = saved + input + grads + n[CADRE_UNIT_SCRATCH];
    char *memory = calloc(1, all);
    pass.saved = memory;
    pass.saved_for_input = separate ? memory + saved : NULL;
    pass.grad_outputs = memory + saved + input;
    pass.scratch = memory + saved + input + grads;
    unit.pass = &pass;
    struct cadre_carver carver = {.unit = &unit};
    struct cadre_block b = cadre_block_carve(&carver, gated, 12);
    char *part[] = {b.norm1,   b.attn,   b.norm2, b.act, b.stats1, b.qkv, b.lse,
                    b.x1,      b.stats2, b.gate,  b.dy,  b.dgate,  b.dx1, b.dqkv,
                    b.partial, b.whole,  b.wide,  b.up,  b.dup};
    const size_t parts = gated ? 19 : 17;
    ck_assert_int_eq(b.up != NULL, gated);
    ck_assert_int_eq(b.dup != NULL, gated);
    qsort(part, parts, sizeof *part, by_address);
    ck_assert_ptr_eq(part[0], memory);
    for (size_t i = 1; i < parts; i++) {
        ck_assert_uint_ge((size_t)(part[i] - part[i - 1]), 64);
        ck_assert_uint_eq((size_t)(part[i] - memory) % 64, 0);
    }
    ck_assert_ptr_eq(b.stats1, memory + saved);
    ck_assert_ptr_eq(b.dy, memory + saved + input);
    ck_assert_uint_le((size_t)((char *)b.wide - memory) + 14 * 12 * 4, all);
    free(memory);
    cadre_model_destroy(model);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("block");
    TCase *tc = tcase_create("block");
    tcase_add_loop_test(tc, parts_are_disjoint_and_inside, 0, 4);
    suite_add_tcase(suite, tc);
    return suite;
}
