/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of classes, the split, changes to training images, and images through the
 * data set and its loader. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/data/image/images.h"
#include "core/data/loader.h"
#include "tests/data/pictures.h"

enum { W = 6, H = 4, C = 3, BYTES = W * H * C, EACH = 10, N = 2 * EACH };

static char *dir;

static uint8_t value(int image, int i)
{
    return (uint8_t)(image * 11 + i);
}

static const char *name_of(const char *folder, const char *file)
{
    static char path[1400];
    snprintf(path, sizeof path, "%s/%s%s%s", dir, folder, file ? "/" : "",
             file ? file : "");
    return path;
}

/* Class "a" has images 0 to 9, "b" 10 to 19: each another file. */
static void setup(void)
{
    dir = test_tmpdir();
    for (int i = 0; i < N; i++) {
        const char *folder = i < EACH ? "a" : "b";
        char file[16];
        uint8_t bytes[BYTES];
        for (int k = 0; k < BYTES; k++)
            bytes[k] = value(i, k);
        mkdir(name_of(folder, NULL), 0700);
        snprintf(file, sizeof file, "%d.png", i % EACH);
        write_png(name_of(folder, file), PNG_COLOR_TYPE_RGB, 8, W, H, bytes);
    }
}

static void teardown(void)
{
    test_tmpdir_destroy(dir);
}

static struct cadre_images_config config_of(bool nhwc)
{
    return (struct cadre_images_config){
        .path = dir, .folders = true, .nhwc = nhwc, .valid_fraction = 0.3, .seed = 5};
}

static uint64_t open_images(const struct cadre_images_config *config,
                            struct cadre_images *out)
{
    struct cadre_hash hash;
    struct cadre_error err = {0};
    cadre_hash_init(&hash, 0);
    ck_assert_msg(cadre_images_init(config, &hash, out, &err) == CADRE_OK, "%s",
                  err.text);
    return cadre_hash_final(&hash);
}

/* Element (y, x, c) of a sample. */
static uint8_t element(const struct cadre_images *images, const uint8_t *bytes, int y,
                       int x, int c)
{
    return bytes[images->nhwc ? (y * W + x) * C + c : (c * H + y) * W + x];
}

START_TEST(reads_folders)
{
    const struct cadre_images_config config = config_of(_i);
    struct cadre_images images;
    open_images(&config, &images);
    ck_assert_uint_eq(images.count, N);
    ck_assert_uint_eq(images.holdout.held, 6);
    ck_assert_int_eq(images.classes, 2);
    ck_assert_str_eq(images.names[0], "a");
    ck_assert_str_eq(images.names[1], "b");
    for (int i = 0; i < N; i++) {
        ck_assert_int_eq(images.labels[i], i / EACH);
        for (int k = 0; k < BYTES; k++)
            ck_assert_int_eq(
                element(&images, images.bytes + i * BYTES, k / C / W, k / C % W, k % C),
                value(i, k));
    }
    cadre_images_fini(&images);
}
END_TEST

/* Every image once, some of each split, another split under another seed. */
START_TEST(splits)
{
    struct cadre_images_config config = config_of(false);
    struct cadre_images images, other;
    int seen[N] = {0};
    open_images(&config, &images);
    for (uint64_t i = 0; i < N; i++)
        seen[cadre_images_find(&images, i < 6, i < 6 ? i : i - 6)]++;
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(seen[i], 1);
    config.seed = 6;
    open_images(&config, &other);
    ck_assert(memcmp(images.order, other.order, sizeof *other.order * N) != 0);
    cadre_images_fini(&other);
    config.valid_fraction = 0;
    open_images(&config, &other);
    ck_assert_uint_eq(other.holdout.held, 0);
    cadre_images_fini(&other);
    cadre_images_fini(&images);
}
END_TEST

/* What a changed image would be, by trying each shift and mirror. */
static bool explains(const struct cadre_images *images, int image, const uint8_t *got,
                     int down, int right, bool flip)
{
    for (int i = 0; i < BYTES; i++) {
        const int y = i / C / W, x = i / C % W, c = i % C;
        const int from_y = y - down, from_x = (flip ? W - 1 - x : x) - right;
        const bool in = from_y >= 0 && from_y < H && from_x >= 0 && from_x < W;
        const int want = in ? value(image, (from_y * W + from_x) * C + c) : 0;
        if (element(images, got, y, x, c) != want)
            return false;
    }
    return true;
}

/* Each is one of the shifts, mirrored or not, of its own image; all of them happen; the
 * same again for the same epoch and index; the same in either layout. */
START_TEST(changes)
{
    struct cadre_images_config config = config_of(false);
    struct cadre_images planes, pixels;
    int happened[3][3][2] = {0};
    config.shift = 1;
    config.flip = true;
    open_images(&config, &planes);
    config.nhwc = true;
    open_images(&config, &pixels);
    for (uint64_t i = 0; i < 14 * 40; i++) {
        uint8_t a[BYTES], b[BYTES], again[BYTES];
        const int image = (int)cadre_images_find(&planes, false, i % 14);
        int found = 0;
        cadre_images_augment(&planes, i / 14, i % 14, a);
        cadre_images_augment(&planes, i / 14, i % 14, again);
        cadre_images_augment(&pixels, i / 14, i % 14, b);
        ck_assert(memcmp(a, again, BYTES) == 0);
        for (int k = 0; k < 18; k++) {
            const int down = k % 3 - 1, right = k / 3 % 3 - 1;
            if (!explains(&planes, image, a, down, right, k / 9))
                continue;
            ck_assert(explains(&pixels, image, b, down, right, k / 9));
            happened[k % 3][k / 3 % 3][k / 9]++;
            found++;
        }
        ck_assert_int_eq(found, 1);
    }
    for (int k = 0; k < 18; k++)
        ck_assert_int_gt(happened[k % 3][k / 3 % 3][k / 9], 5);
    cadre_images_fini(&planes);
    cadre_images_fini(&pixels);
}
END_TEST

/* The layout is no part of what the data is; all that changes training is. */
START_TEST(fingerprints)
{
    struct cadre_images_config config = config_of(false);
    struct cadre_images images;
    const uint64_t plain = open_images(&config, &images);
    cadre_images_fini(&images);
    config.nhwc = true;
    ck_assert_uint_eq(open_images(&config, &images), plain);
    cadre_images_fini(&images);
    config.flip = true;
    ck_assert_uint_ne(open_images(&config, &images), plain);
    cadre_images_fini(&images);
    config.flip = false;
    config.shift = 1;
    ck_assert_uint_ne(open_images(&config, &images), plain);
    cadre_images_fini(&images);
}
END_TEST

static void refused(const struct cadre_images_config *config, const char *says)
{
    struct cadre_images images = {.count = 77};
    struct cadre_error err = {0};
    struct cadre_hash hash;
    cadre_hash_init(&hash, 0);
    ck_assert(cadre_images_init(config, &hash, &images, &err) != CADRE_OK);
    ck_assert_msg(strstr(err.text, says), "%s", err.text);
    ck_assert_uint_eq(images.count, 77);
}

START_TEST(refuses)
{
    struct cadre_images_config config = config_of(false);
    uint8_t bytes[2 * BYTES] = {0};
    config.classes = 3;
    refused(&config, "data.classes = 3");
    config.classes = 0;
    write_png(name_of("b", "x.png"), PNG_COLOR_TYPE_RGB, 8, W + 1, H, bytes);
    refused(&config, "b/x.png\": 7 x 4 pixels");
    write_png(name_of("b", "x.png"), PNG_COLOR_TYPE_GRAY, 8, W, H, bytes);
    refused(&config, "b/x.png\": 6 x 4 pixels with 1 channel");
    FILE *f = fopen(name_of("b", "x.png"), "w");
    fclose(f);
    refused(&config, "b/x.png\": expected a PNG or JPEG");
    remove(name_of("b", "x.png"));
    write_png(name_of("x.png", NULL), PNG_COLOR_TYPE_RGB, 8, W, H, bytes);
    refused(&config, "found a file beside them");
    remove(name_of("x.png", NULL));
    mkdir(name_of("c", NULL), 0700);
    refused(&config, "/c\": expected pictures of its class, found an empty folder");
    config.path = name_of("nowhere", NULL);
    refused(&config, "cannot read the folder");
}
END_TEST

static struct cadre_dataset *open_set(void)
{
    const struct cadre_dataset_config config = {.format = "images",
                                                .path = dir,
                                                .patch = 2,
                                                .shift = 1,
                                                .flip = true,
                                                .nhwc = true,
                                                .valid_fraction = 0.3,
                                                .shuffle = true,
                                                .seed = 5};
    struct cadre_dataset *set = NULL;
    struct cadre_error err = {0};
    ck_assert_msg(cadre_dataset_open(&config, &set, &err) == CADRE_OK, "%s", err.text);
    return set;
}

START_TEST(is_a_data_set)
{
    struct cadre_dataset *set = open_set();
    struct cadre_dataset_info info;
    uint64_t counts[2][2];
    cadre_dataset_info(set, &info);
    ck_assert_int_eq(info.seq_len, 7);
    ck_assert_int_eq(info.inputs, BYTES / 4);
    ck_assert_int_eq(info.vocab, 2);
    ck_assert_uint_eq(info.train_samples, 14);
    ck_assert_uint_eq(info.valid_samples, 6);
    ck_assert_str_eq(cadre_dataset_class_name(set, 1), "b");
    cadre_dataset_class_counts(set, CADRE_SPLIT_TRAIN, counts[0]);
    cadre_dataset_class_counts(set, CADRE_SPLIT_VALID, counts[1]);
    ck_assert_uint_eq(counts[0][0] + counts[1][0], EACH);
    ck_assert_uint_eq(counts[0][1] + counts[1][1], EACH);
    cadre_dataset_close(set);
}
END_TEST

/* A sample of a batch is that of its position; is it changed? */
static bool check_sample(const struct cadre_dataset *set, uint64_t position,
                         const int32_t *inputs, int32_t label)
{
    int32_t want[BYTES / 4], same[BYTES / 4], labels[2];
    const uint64_t index = cadre_dataset_order(set, position);
    ck_assert_int_eq(cadre_dataset_train_sample(set, position, want, NULL, &labels[0]),
                     CADRE_OK);
    ck_assert_int_eq(
        cadre_dataset_sample(set, CADRE_SPLIT_TRAIN, index, same, NULL, &labels[1]),
        CADRE_OK);
    ck_assert(memcmp(want, inputs, sizeof want) == 0);
    ck_assert_int_eq(label, labels[0]);
    ck_assert_int_eq(label, labels[1]);
    return memcmp(want, same, sizeof want) != 0;
}

/* Read ahead or not, the same samples. */
START_TEST(loads)
{
    struct cadre_dataset *set = open_set();
    const struct cadre_loader_config config = {.dataset = set,
                                               .global_batch = 14,
                                               .micro_batch = 7,
                                               .microbatch_stride = 1,
                                               .n_microbatches = 2,
                                               .prefetch = _i};
    struct cadre_loader *loader = NULL;
    int changed = 0;
    ck_assert_int_eq(cadre_loader_create(&config, &loader, NULL), CADRE_OK);
    for (uint64_t position = 0; position < 14 * 3; position += 7) {
        int32_t inputs[7 * BYTES / 4], labels[7];
        struct cadre_batch batch = {.inputs = inputs, .labels = labels};
        ck_assert_int_eq(cadre_loader_next(loader, position / 14,
                                           (int64_t)(position % 14 / 7), &batch),
                         CADRE_OK);
        for (uint64_t b = 0; b < 7; b++)
            changed +=
                check_sample(set, position + b, inputs + b * BYTES / 4, labels[b]);
    }
    ck_assert_int_gt(changed, 20);
    cadre_loader_destroy(loader);
    cadre_dataset_close(set);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("images");
    TCase *tc = tcase_create("images");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, reads_folders, 0, 2);
    tcase_add_test(tc, splits);
    tcase_add_test(tc, changes);
    tcase_add_test(tc, fingerprints);
    tcase_add_test(tc, refuses);
    tcase_add_test(tc, is_a_data_set);
    tcase_add_loop_test(tc, loads, 0, 3);
    suite_add_tcase(suite, tc);
    return suite;
}
