/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/loader.h"
#include "tests/support/check_main.h"

enum { T = 8, B = 3, MICROBATCHES = 4, GLOBAL = B * MICROBATCHES };

static char *dir;
static struct cadre_dataset *set;

/* 1000 tokens below 512, of which every sample is different. */
static void setup(void)
{
    uint16_t tokens[1000];
    struct cadre_error err = {0};
    dir = test_tmpdir();
    for (int i = 0; i < 1000; i++)
        tokens[i] = (uint16_t)(i * 37 % 512);
    const char *path = test_file_put(dir, "t.bin", tokens, sizeof tokens);
    struct cadre_dataset_config config = {.format = "tokens",
                                          .path = path,
                                          .context = T,
                                          .vocab = 512,
                                          .shuffle = true,
                                          .seed = 5};
    ck_assert_msg(cadre_dataset_open(&config, &set, &err) == CADRE_OK, "%s", err.text);
}

static void teardown(void)
{
    cadre_dataset_close(set);
    test_tmpdir_destroy(dir);
}

static struct cadre_loader *make(const struct cadre_loader_config *config)
{
    struct cadre_loader *loader = NULL;
    struct cadre_error err = {0};
    ck_assert_msg(cadre_loader_create(config, &loader, &err) == CADRE_OK, "%s",
                  err.text);
    return loader;
}

static void check_microbatch(struct cadre_loader *loader, uint64_t step,
                             int64_t microbatch)
{
    int32_t inputs[B * T], targets[B * T], labels[B], x[T], y[T];
    struct cadre_batch batch = {.inputs = inputs, .targets = targets, .labels = labels};
    ck_assert_int_eq(cadre_loader_next(loader, step, microbatch, &batch), CADRE_OK);
    ck_assert(batch.wait_s >= 0);
    for (int b = 0; b < B; b++) {
        uint64_t position = step * GLOBAL + (uint64_t)microbatch * B + (uint64_t)b;
        ck_assert_int_eq(cadre_dataset_sample(set, CADRE_SPLIT_TRAIN,
                                              cadre_dataset_order(set, position), x, y,
                                              NULL),
                         CADRE_OK);
        ck_assert_mem_eq(inputs + b * T, x, sizeof x);
        ck_assert_mem_eq(targets + b * T, y, sizeof y);
        ck_assert_int_eq(labels[b], -1);
    }
}

static struct cadre_loader_config config_of(int64_t first, int64_t stride,
                                            int64_t n_microbatches, int64_t prefetch)
{
    return (struct cadre_loader_config){.dataset = set,
                                        .global_batch = GLOBAL,
                                        .micro_batch = B,
                                        .first_microbatch = first,
                                        .microbatch_stride = stride,
                                        .n_microbatches = n_microbatches,
                                        .prefetch = prefetch};
}

/* Blocks and cycles of micro-batches, with every depth, over several epochs. */
START_TEST(announced_order_is_right)
{
    static const int64_t maps[][3] = {
        {0, 1, 4}, {0, 2, 2}, {1, 2, 2}, {2, 1, 2}, {3, 1, 1}};
    for (int64_t prefetch = 0; prefetch < 6; prefetch++)
        for (int m = 0; m < 5; m++) {
            struct cadre_loader_config config =
                config_of(maps[m][0], maps[m][1], maps[m][2], prefetch);
            struct cadre_loader *loader = make(&config);
            for (uint64_t step = 0; step < 40; step++)
                for (int64_t k = 0; k < config.n_microbatches; k++)
                    check_microbatch(loader, step,
                                     config.first_microbatch +
                                         k * config.microbatch_stride);
            ck_assert(cadre_loader_wait_s(loader) >= 0);
            cadre_loader_destroy(loader);
        }
}
END_TEST

/* Other micro-batches from a step on, read ahead or not, wherever the thread is. */
START_TEST(micro_batches_are_dealt_again)
{
    static const int64_t deals[][2] = {{0, 1}, {1, 3}, {0, 4}, {3, 1}, {1, 2}};
    for (int64_t prefetch = 0; prefetch < 5; prefetch++) {
        struct cadre_loader_config config = config_of(0, 1, 2, prefetch);
        struct cadre_loader *loader = make(&config);
        for (uint64_t step = 0; step < 60; step++) {
            const int64_t *deal = deals[step / 3 % 5];
            if (step % 3 == 0)
                ck_assert_int_eq(cadre_loader_divide(loader, step, deal[0], deal[1]),
                                 CADRE_OK);
            for (int64_t k = 0; k < deal[1]; k++)
                check_microbatch(loader, step, deal[0] + k);
        }
        ck_assert_int_eq(cadre_loader_divide(loader, 60, 3, 2), CADRE_E_INVALID);
        ck_assert_int_eq(cadre_loader_divide(loader, 60, -1, 2), CADRE_E_INVALID);
        ck_assert_int_eq(cadre_loader_divide(loader, 60, 0, 0), CADRE_E_INVALID);
        check_microbatch(loader, 60, 1);
        cadre_loader_destroy(loader);
    }
}
END_TEST

START_TEST(any_order_is_right)
{
    unsigned state = 11;
    for (int64_t prefetch = 0; prefetch < 5; prefetch++) {
        struct cadre_loader_config config = config_of(1, 2, 2, prefetch);
        config.first_step = 5;
        struct cadre_loader *loader = make(&config);
        for (int64_t microbatch = MICROBATCHES - 1; microbatch >= 0; microbatch--)
            check_microbatch(loader, 5, microbatch);
        for (int i = 0; i < 500; i++) {
            state = state * 1664525u + 1013904223u;
            check_microbatch(loader, (state >> 8) % (i < 250 ? 12 : 1000),
                             (state >> 20) % MICROBATCHES);
        }
        cadre_loader_destroy(loader);
    }
}
END_TEST

/* Parts of 2 and of 4 ranks put together are the whole, read ahead or not. */
START_TEST(parts_of_samples)
{
    for (int64_t prefetch = 0; prefetch < 4; prefetch += 3)
        for (int64_t n = T / 4; n < T; n *= 2)
            for (int64_t first = 0; first < T; first += n) {
                struct cadre_loader_config config = config_of(1, 2, 2, prefetch);
                struct cadre_loader *whole = make(&config);
                config.first_token = first;
                config.n_tokens = n;
                struct cadre_loader *part = make(&config);
                for (int i = 0; i < 30; i++) { /* announced ones, and others */
                    uint64_t step = (uint64_t)i / 4;
                    int32_t x[B * T], y[B * T], px[B * T], py[B * T], labels[B];
                    struct cadre_batch all = {.inputs = x, .targets = y};
                    struct cadre_batch own = {
                        .inputs = px, .targets = py, .labels = labels};
                    ck_assert_int_eq(cadre_loader_next(whole, step, i % 4, &all),
                                     CADRE_OK);
                    ck_assert_int_eq(cadre_loader_next(part, step, i % 4, &own),
                                     CADRE_OK);
                    for (int64_t t = 0; t < B * n; t++) {
                        int64_t at = t / n * T + first + t % n;
                        ck_assert_int_eq(px[t], x[at]);
                        ck_assert_int_eq(py[t], y[at]);
                        ck_assert_int_eq(labels[t / n], -1);
                    }
                }
                cadre_loader_destroy(whole);
                cadre_loader_destroy(part);
            }
}
END_TEST

START_TEST(parts_outside_of_a_sample)
{
    static const int64_t wrong[][2] = {{-1, 4}, {0, -1}, {0, T + 1}, {T - 3, 4}};
    for (int i = 0; i < 4; i++) {
        struct cadre_loader_config config = config_of(0, 1, 1, 0);
        struct cadre_loader *loader = NULL;
        struct cadre_error err = {0};
        config.first_token = wrong[i][0];
        config.n_tokens = wrong[i][1];
        ck_assert_int_eq(cadre_loader_create(&config, &loader, &err), CADRE_E_INVALID);
        ck_assert_msg(strstr(err.text, "expected tokens within the 8 of a sample"),
                      "%s", err.text);
    }
}
END_TEST

START_TEST(resuming_needs_the_step_alone)
{
    struct cadre_loader_config config = config_of(0, 1, MICROBATCHES, 3);
    config.first_step = 1000000;
    struct cadre_loader *loader = make(&config);
    for (uint64_t step = 1000000; step < 1000020; step++)
        for (int64_t microbatch = 0; microbatch < MICROBATCHES; microbatch++)
            check_microbatch(loader, step, microbatch);
    cadre_loader_destroy(loader);
}
END_TEST

static void *rank_main(void *argument)
{
    int64_t rank = *(const int64_t *)argument;
    struct cadre_loader_config config = config_of(rank, MICROBATCHES, 1, 2);
    struct cadre_loader *loader = make(&config);
    for (uint64_t step = 0; step < 200; step++)
        check_microbatch(loader, step, rank);
    cadre_loader_destroy(loader);
    return NULL;
}

START_TEST(ranks_share_a_data_set)
{
    pthread_t threads[MICROBATCHES];
    int64_t ranks[MICROBATCHES];
    for (int64_t r = 0; r < MICROBATCHES; r++) {
        ranks[r] = r;
        ck_assert_int_eq(pthread_create(&threads[r], NULL, rank_main, &ranks[r]), 0);
    }
    for (int r = 0; r < MICROBATCHES; r++)
        pthread_join(threads[r], NULL);
}
END_TEST

START_TEST(destroy_at_any_moment)
{
    for (int i = 0; i < 200; i++) {
        struct cadre_loader_config config = config_of(0, 1, MICROBATCHES, 1 + i % 4);
        struct cadre_loader *loader = make(&config);
        for (int64_t k = 0; k < i % 3; k++)
            check_microbatch(loader, 0, k);
        cadre_loader_destroy(loader);
    }
    cadre_loader_destroy(NULL);
}
END_TEST

/* A token that breaks after the file was opened is the error of the micro-batch that
 * holds it, prefetched or not. */
START_TEST(errors_arrive_where_they_belong)
{
    uint16_t tokens[T * GLOBAL + 1] = {0};
    struct cadre_dataset *broken = NULL;
    int32_t inputs[B * T];
    struct cadre_batch batch = {.inputs = inputs};
    const char *path = test_file_put(dir, "bad.bin", tokens, sizeof tokens);
    struct cadre_dataset_config data = {
        .format = "tokens", .path = path, .context = T, .vocab = 512};
    ck_assert_int_eq(cadre_dataset_open(&data, &broken, NULL), CADRE_OK);
    FILE *file = fopen(path, "r+");
    ck_assert_ptr_nonnull(file);
    fseek(file, (T * B * 2 + 5) * (long)sizeof *tokens, SEEK_SET);
    fwrite("\xff\xff", 1, 2, file);
    fclose(file);
    for (int64_t prefetch = 0; prefetch < 4; prefetch += 3) {
        struct cadre_loader_config config = config_of(0, 1, MICROBATCHES, prefetch);
        config.dataset = broken;
        struct cadre_loader *loader = make(&config);
        for (int64_t microbatch = 0; microbatch < MICROBATCHES; microbatch++)
            ck_assert_int_eq(cadre_loader_next(loader, 0, microbatch, &batch),
                             microbatch == 2 ? CADRE_E_INVALID : CADRE_OK);
        ck_assert_int_eq(cadre_loader_next(loader, 0, MICROBATCHES, &batch),
                         CADRE_E_INVALID);
        ck_assert_int_eq(cadre_loader_next(loader, 0, -1, &batch), CADRE_E_INVALID);
        cadre_loader_destroy(loader);
    }
    cadre_dataset_close(broken);
}
END_TEST

START_TEST(refuses_wrong_sizes)
{
    struct cadre_loader *loader = NULL;
    static const struct {
        int64_t global, micro, first, stride, n_microbatches, prefetch;
        const char *says;
    } wrong[] = {
        {12, 0, 0, 1, 1, 0, "train.micro_batch"},
        {12, 5, 0, 1, 1, 0, "train.micro_batch"},
        {0, 3, 0, 1, 1, 0, "train.global_batch"},
        {12, 3, 4, 1, 1, 0, "micro-batches"},
        {12, 3, 0, 1, 5, 0, "micro-batches"},
        {12, 3, 0, 2, 3, 0, "micro-batches"},
        {12, 3, 0, 0, 2, 0, "micro-batches"},
        {12, 3, -1, 1, 2, 0, "micro-batches"},
        {12, 3, 0, 1, 0, 0, "micro-batches"},
        {12, 3, 0, 1, 4, -1, "data.prefetch"},
        {12, 3, 0, 1, 4, 1 << 20, "data.prefetch"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct cadre_error err = {0};
        struct cadre_loader_config config =
            config_of(wrong[i].first, wrong[i].stride, wrong[i].n_microbatches,
                      wrong[i].prefetch);
        config.global_batch = wrong[i].global;
        config.micro_batch = wrong[i].micro;
        ck_assert_int_eq(cadre_loader_create(&config, &loader, &err), CADRE_E_INVALID);
        ck_assert_msg(strstr(err.text, wrong[i].says), "%s", err.text);
        ck_assert_ptr_null(loader);
    }
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("loader");
    TCase *tc = tcase_create("loader");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, announced_order_is_right);
    tcase_add_test(tc, micro_batches_are_dealt_again);
    tcase_add_test(tc, any_order_is_right);
    tcase_add_test(tc, parts_of_samples);
    tcase_add_test(tc, parts_outside_of_a_sample);
    tcase_add_test(tc, resuming_needs_the_step_alone);
    tcase_add_test(tc, ranks_share_a_data_set);
    tcase_add_test(tc, destroy_at_any_moment);
    tcase_add_test(tc, errors_arrive_where_they_belong);
    tcase_add_test(tc, refuses_wrong_sizes);
    suite_add_tcase(suite, tc);
    return suite;
}
