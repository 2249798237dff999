/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/check_main.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cadre/types.h>

#include "core/base/memory.h"
#include "core/checkpoint/format/file.h"
#include "core/checkpoint/format/folder.h"
#include "core/checkpoint/format/hf.h"
#include "tests/checkpoint/format/save.h"

static struct cadre_error err;
static char *root;
static char *dir; /* of step 20 */

#define OK(call) ck_assert_msg((call) == CADRE_OK, "%s", err.text)

static void setup(void)
{
    root = test_tmpdir();
    dir = cadre_folder_path(root, 20, "");
    OK(save_checkpoint(root, 10, 1, 1000000, 0, &err));
    OK(save_checkpoint(root, 20, 1, 1000000, 0, &err));
}

static void teardown(void)
{
    test_tmpdir_destroy(root);
    free(dir);
}

static cadre_status verify(void)
{
    struct cadre_checkpoint *checkpoint = NULL;
    cadre_status rc = cadre_checkpoint_open(dir, &checkpoint, &err);
    if (rc == CADRE_OK)
        rc = cadre_checkpoint_verify(checkpoint, &err);
    cadre_checkpoint_close(checkpoint);
    return rc;
}

/* Step 20 is skipped, step 10 found. */
static void expect_the_one_before(void)
{
    char *path = NULL;
    OK(cadre_checkpoint_find_latest(root, &path, &err));
    ck_assert_ptr_nonnull(path);
    ck_assert_ptr_nonnull(strstr(path, "step-00000010"));
    free(path);
}

/* Flip one bit of a byte of a file of the checkpoint, counted from its end if < 0. */
static void flip(const char *name, off_t at)
{
    char *path = cadre_format("%s/%s", dir, name);
    unsigned char byte;
    int fd = open(path, O_RDWR);
    if (at < 0)
        at += lseek(fd, 0, SEEK_END);
    ck_assert_int_eq((int)pread(fd, &byte, 1, at), 1);
    byte ^= 0x10;
    ck_assert_int_eq((int)pwrite(fd, &byte, 1, at), 1);
    close(fd);
    free(path);
}

START_TEST(parts_and_tensors_are_checked)
{
    struct cadre_checkpoint *checkpoint = NULL;
    struct cadre_safetensors_spec other[SAVE_TENSORS];
    double value;
    OK(cadre_checkpoint_open(dir, &checkpoint, &err));
    ck_assert_uint_eq(cadre_safetensors_count(cadre_checkpoint_model(checkpoint)),
                      SAVE_TENSORS);
    OK(cadre_checkpoint_check(checkpoint, save_tensors, SAVE_TENSORS, &err));
    ck_assert_int_eq(
        cadre_checkpoint_check(checkpoint, save_tensors, SAVE_TENSORS - 1, &err),
        CADRE_E_INVALID);
    memcpy(other, save_tensors, sizeof other);
    other[0].dim[0] = 301;
    ck_assert_int_eq(cadre_checkpoint_check(checkpoint, other, SAVE_TENSORS, &err),
                     CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "expected shape [301, 1000]"));
    other[0].name = "model.new";
    ck_assert_int_eq(cadre_checkpoint_check(checkpoint, other, SAVE_TENSORS, &err),
                     CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "model.new"));
    ck_assert_int_eq(cadre_checkpoint_read(checkpoint, CADRE_CHECKPOINT_PARAM,
                                           "model.new", 0, 1, CADRE_F64, &value, &err),
                     CADRE_E_INVALID);
    ck_assert_int_eq(cadre_checkpoint_read(checkpoint, CADRE_CHECKPOINT_PARAM,
                                           "model.norm.weight", 64, 1, CADRE_F64,
                                           &value, &err),
                     CADRE_E_INVALID);
    ck_assert_int_eq(cadre_checkpoint_read(checkpoint, CADRE_CHECKPOINT_PARAM,
                                           "model.norm.weight", UINT64_MAX, 2,
                                           CADRE_F64, &value, &err),
                     CADRE_E_INVALID);
    cadre_checkpoint_close(checkpoint);
}
END_TEST

/* f32 data read as f64 and the reverse. */
START_TEST(precisions_convert)
{
    struct cadre_checkpoint *checkpoint = NULL;
    float f32[2];
    double f64[2];
    OK(cadre_checkpoint_open(dir, &checkpoint, &err));
    save_values(20, 0, 1, 5, 2, f32);
    OK(cadre_checkpoint_read(checkpoint, CADRE_CHECKPOINT_PARAM, "model.norm.weight", 5,
                             2, CADRE_F64, f64, &err));
    ck_assert(f64[0] == (double)f32[0] && f64[1] == (double)f32[1]);
    save_values(20, 2, 2, 5, 2, f64);
    OK(cadre_checkpoint_read(checkpoint, CADRE_CHECKPOINT_EXP_AVG_SQ,
                             "model.wide.weight", 5, 2, CADRE_F32, f32, &err));
    ck_assert(f32[0] == (float)f64[0] && f32[1] == (float)f64[1]);
    cadre_checkpoint_close(checkpoint);
}
END_TEST

static const struct {
    const char *file;
    off_t at;
    const char *words[3];
} flips[] = {
    {"model.safetensors", 3, {"model.safetensors", "", ""}},
    {"model.safetensors", 20, {"model.safetensors", "", ""}},
    {"model.safetensors", -1, {"model.wide.weight", "[0, 1848)", ""}},
    {"model.safetensors", -1848, {"model.wide.weight", "[0, 1848)", ""}},
    {"model.safetensors", -1849, {"model.norm.weight", "[0, 256)", ""}},
    {"model.safetensors", -1848 - 256 - 1, {"embed", "[1048576, 1200000)", ""}},
    {"model.safetensors", -1848 - 256 - 1200000, {"embed", "[0, 1048576)", ""}},
    {"optimizer.safetensors", -1, {"wide.weight.exp_avg_sq", "[0, 1848)", ""}},
    {"optimizer.safetensors", -1849, {"wide.weight.exp_avg'", "[0, 1848)", ""}},
    {"optimizer.safetensors", 8, {"optimizer.safetensors", "", ""}},
    {"state.json", 100, {"state.json", "", ""}},
    {"state.json", -1, {"state.json", "", ""}},
};

START_TEST(a_flipped_bit_is_named)
{
    flip(flips[_i].file, flips[_i].at);
    ck_assert_int_eq(verify(), CADRE_E_INVALID);
    for (int i = 0; i < 3; i++)
        ck_assert_msg(strstr(err.text, flips[_i].words[i]), "'%s' lacks '%s'", err.text,
                      flips[_i].words[i]);
    expect_the_one_before();
}
END_TEST

/* Random bits, from a printed seed. */
START_TEST(any_flipped_bit_is_found)
{
    static const char *const files[] = {"model.safetensors", "optimizer.safetensors",
                                        "state.json"};
    const char *text = getenv("CADRE_TEST_SEED");
    unsigned int seed = text ? (unsigned int)atoi(text) : 1;
    printf("seed %u\n", seed);
    for (int i = 0; i < 200; i++) {
        const char *file = files[rand_r(&seed) % 3];
        char *path = cadre_format("%s/%s", dir, file);
        struct stat st;
        ck_assert_int_eq(stat(path, &st), 0);
        off_t at = rand_r(&seed) % st.st_size;
        flip(file, at);
        ck_assert_msg(verify() == CADRE_E_INVALID, "%s byte %ld", file, (long)at);
        ck_assert_ptr_nonnull(strstr(err.text, file));
        flip(file, at);
        free(path);
    }
    OK(verify());
}
END_TEST

/* Only what is read is checked: damage stops only a rank that reads the damaged part.
 */
START_TEST(damage_shows_where_it_is_read)
{
    struct cadre_checkpoint *checkpoint = NULL;
    float values[4];
    flip("model.safetensors", -1848 - 256 - 1);
    OK(cadre_checkpoint_open(dir, &checkpoint, &err));
    OK(cadre_checkpoint_read(checkpoint, CADRE_CHECKPOINT_PARAM, "model.embed.weight",
                             262140, 4, CADRE_F32, values, &err));
    ck_assert_int_eq(cadre_checkpoint_read(checkpoint, CADRE_CHECKPOINT_PARAM,
                                           "model.embed.weight", 262141, 4, CADRE_F32,
                                           values, &err),
                     CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "[1048576, 1200000)"));
    cadre_checkpoint_close(checkpoint);
}
END_TEST

START_TEST(a_truncated_or_missing_file_is_named)
{
    static const char *const files[] = {"model.safetensors", "optimizer.safetensors",
                                        "state.json"};
    char *path = cadre_format("%s/%s", dir, files[_i]);
    struct stat st;
    ck_assert_int_eq(stat(path, &st), 0);
    for (off_t size = st.st_size - 1; size >= 0; size = size * 3 / 4 - 1) {
        ck_assert_int_eq(truncate(path, size), 0);
        ck_assert_int_eq(verify(), CADRE_E_INVALID);
        ck_assert_ptr_nonnull(strstr(err.text, files[_i]));
    }
    unlink(path);
    ck_assert_int_eq(verify(), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, files[_i]));
    expect_the_one_before();
    free(path);
}
END_TEST

START_TEST(a_partial_one_is_passed_over)
{
    char *path = NULL;
    struct cadre_checkpoint *checkpoint = NULL;
    char *partial = cadre_draft_path(root, 30);
    OK(cadre_draft_begin(root, 30, save_tensors, SAVE_TENSORS, 2, &err));
    OK(cadre_checkpoint_find_latest(root, &path, &err));
    ck_assert_str_eq(path, dir);
    ck_assert_int_eq(cadre_checkpoint_open(partial, &checkpoint, &err),
                     CADRE_E_INVALID);
    free(path);
    free(partial);
}
END_TEST

START_TEST(nothing_there_is_no_error)
{
    char *none = cadre_format("%s/none", root);
    char *path = root;
    OK(cadre_checkpoint_find_latest(none, &path, &err));
    ck_assert_ptr_null(path);
    free(none);
}
END_TEST

/* Out of descriptors, a good checkpoint must not be skipped for an older one. */
START_TEST(want_of_descriptors_is_an_error)
{
    struct rlimit limit;
    char *path = NULL;
    int probe = dup(0);
    close(probe);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = (rlim_t)probe + 1; /* one file at a time: two are needed */
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(cadre_checkpoint_find_latest(root, &path, &err), CADRE_E_RESOURCE);
    ck_assert_ptr_null(path);
    limit.rlim_cur = (rlim_t)probe;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(verify(), CADRE_E_RESOURCE);
    limit.rlim_cur = limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}
END_TEST

/* Step 20 again, without optimizer state, with a config.json. */
static void save_with_config(void)
{
    static const struct cadre_hf_config config = {.arch = CADRE_HF_LLAMA,
                                                  .layers = 1,
                                                  .channels = 64,
                                                  .heads = 2,
                                                  .kv_heads = 2,
                                                  .hidden = 128,
                                                  .context = 32,
                                                  .vocab = 300,
                                                  .tied = true,
                                                  .norm_eps = 1e-5,
                                                  .head_size = 32,
                                                  .rotary = {.theta = 1e4}};
    struct cadre_manifest manifest = save_manifest(20);
    struct cadre_draft *writer = NULL;
    char *partial = cadre_draft_path(root, 20);
    OK(cadre_draft_begin(root, 20, save_tensors, SAVE_TENSORS, 0, &err));
    OK(cadre_hf_config_write(partial, &config, &err));
    OK(cadre_draft_open(root, 20, 0, &writer, &err));
    for (size_t t = 0; t < SAVE_TENSORS; t++) {
        double *data = cadre_calloc(save_count(t), sizeof *data);
        save_values(20, 0, t, 0, save_count(t), data);
        OK(cadre_draft_write(writer, CADRE_CHECKPOINT_PARAM, save_tensors[t].name, 0,
                             save_count(t), data, &err));
        free(data);
    }
    OK(cadre_draft_sync(writer, &err));
    cadre_draft_close(writer);
    OK(cadre_draft_commit(root, 1, &manifest, 0, &err));
    free(partial);
}

START_TEST(a_checkpoint_is_a_hugging_face_folder)
{
    struct cadre_hf_config config;
    struct cadre_hf *hf = NULL;
    float want;
    float got;
    save_with_config();
    OK(cadre_hf_config_read(dir, &config, &err));
    ck_assert_int_eq(config.vocab, 300);
    OK(cadre_hf_open(dir, &hf, &err));
    OK(cadre_hf_check(hf, save_tensors, SAVE_TENSORS, true, &err));
    save_values(20, 0, 0, 299999, 1, &want);
    OK(cadre_hf_read(hf, "embed.weight", 299999, 1, CADRE_F32, &got, &err));
    ck_assert(got == want);
    cadre_hf_close(hf);
}
END_TEST

START_TEST(optimizer_state_is_optional_and_config_is_sealed)
{
    struct cadre_checkpoint *checkpoint = NULL;
    float value;
    save_with_config();
    OK(verify());
    OK(cadre_checkpoint_open(dir, &checkpoint, &err));
    ck_assert_int_eq(cadre_checkpoint_read(checkpoint, CADRE_CHECKPOINT_EXP_AVG,
                                           "model.norm.weight", 0, 1, CADRE_F32, &value,
                                           &err),
                     CADRE_E_INVALID);
    cadre_checkpoint_close(checkpoint);
    flip("config.json", 5);
    ck_assert_int_eq(verify(), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "config.json"));
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("checkpoint");
    TCase *tc = tcase_create("checkpoint");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, parts_and_tensors_are_checked);
    tcase_add_test(tc, precisions_convert);
    tcase_add_loop_test(tc, a_flipped_bit_is_named, 0, sizeof flips / sizeof flips[0]);
    tcase_add_test(tc, any_flipped_bit_is_found);
    tcase_add_test(tc, damage_shows_where_it_is_read);
    tcase_add_loop_test(tc, a_truncated_or_missing_file_is_named, 0, 3);
    tcase_add_test(tc, a_partial_one_is_passed_over);
    tcase_add_test(tc, nothing_there_is_no_error);
    tcase_add_test(tc, want_of_descriptors_is_an_error);
    tcase_add_test(tc, a_checkpoint_is_a_hugging_face_folder);
    tcase_add_test(tc, optimizer_state_is_optional_and_config_is_sealed);
    suite_add_tcase(suite, tc);
    return suite;
}
