/* SPDX-License-Identifier: Apache-2.0 */
#include "core/device/peak.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cores.h"
#include "core/base/path.h"
#include "core/tensor/dtype.h"
#include "tests/support/check_main.h"

static struct cadre_peak peak;
static char *root;

static void setup(void)
{
    root = test_tmpdir();
}

static void teardown(void)
{
    test_tmpdir_destroy(root);
}

static void put(const char *name, const char *text)
{
    char *path = cadre_path_join(root, name), *dir = cadre_path_dirname(path);
    ck_assert_int_eq(cadre_path_make_dirs(dir, NULL), CADRE_OK);
    test_file_write(path, text, strlen(text));
    free(dir);
    free(path);
}

START_TEST(gpus_are_known_by_name_and_format)
{
    static const struct {
        const char *name;
        uint32_t dtype;
        double tera;
    } known[] = {
        {"NVIDIA A100-SXM4-80GB", CADRE_BF16, 312},
        {"NVIDIA A100-SXM4-80GB", CADRE_F32, 19.5},
        {"NVIDIA H100 80GB HBM3", CADRE_F16, 989.5},
        {"NVIDIA H100 PCIe", CADRE_BF16, 756.5},
        {"NVIDIA H100 NVL", CADRE_BF16, 835.5},
        {"NVIDIA H200", CADRE_F32, 67},
        {"NVIDIA GH200 480GB", CADRE_F64, 67},
        {"NVIDIA L40S", CADRE_BF16, 362},
        {"NVIDIA L4", CADRE_BF16, 121},
        {"NVIDIA GeForce RTX 4090", CADRE_BF16, 165.2},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        cadre_peak_gpu(known[i].name, known[i].dtype, &peak);
        ck_assert_msg(peak.flops == 1e12 * known[i].tera, "%s: %g", known[i].name,
                      peak.flops);
        ck_assert_msg(strstr(peak.source, "data sheet of NVIDIA") != NULL, "%s",
                      peak.source);
    }
}
END_TEST

START_TEST(gpus_that_are_not_known_are_said)
{
    static const char *const unknown[] = {"NVIDIA A10G", "NVIDIA RTX A4000", "",
                                          "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
                                          "stand-in on the host"};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        cadre_peak_gpu(unknown[i], CADRE_BF16, &peak);
        ck_assert_msg(isnan(peak.flops), "%s", unknown[i]);
        ck_assert_ptr_nonnull(strstr(peak.source, "set report.peak_flops"));
    }
    cadre_peak_gpu("NVIDIA L40S", CADRE_F64, &peak); /* its data sheet has none */
    ck_assert(isnan(peak.flops));
}
END_TEST

static void expect(uint32_t dtype, double giga, const char *source)
{
    cadre_peak_core(dtype, root, &peak);
    ck_assert_double_eq_tol(peak.flops, 1e9 * giga, 1);
    ck_assert_str_eq(peak.source, source);
}

START_TEST(cores_are_computed)
{
    put("proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\n"
                        "cpu MHz\t\t: 2100.000\nflags\t\t: fma avx2 avx512f\n\n"
                        "processor\t: 1\ncpu MHz\t\t: 2500.000\n");
    expect(CADRE_F32, 160,
           "2.50 GHz (present clock) x 64 FLOP a cycle (AVX-512, two FMA units)");
    put("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3500000\n");
    expect(CADRE_F32, 224,
           "3.50 GHz (highest clock) x 64 FLOP a cycle (AVX-512, two FMA units)");
    expect(CADRE_F64, 112,
           "3.50 GHz (highest clock) x 32 FLOP a cycle (AVX-512, two FMA units)");
    cadre_peak_core(CADRE_BF16, root, &peak); /* widened to fp32 */
    ck_assert_double_eq_tol(peak.flops, 224e9, 1);
    put("proc/cpuinfo", "vendor_id\t: AuthenticAMD\ncpu family\t: 25\n"
                        "flags\t\t: fma avx2 avx512f avx512_bf16\n");
    expect(CADRE_F32, 112,
           "3.50 GHz (highest clock) x 32 FLOP a cycle (AVX-512 in two passes)");
    cadre_peak_core(CADRE_BF16, root, &peak);
    ck_assert(isnan(peak.flops));
    put("proc/cpuinfo", "vendor_id\t: AuthenticAMD\ncpu family\t: 23\n"
                        "flags\t\t: fma avx2\n");
    expect(CADRE_F32, 112,
           "3.50 GHz (highest clock) x 32 FLOP a cycle (AVX2, two FMA units)");
    put("proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd\n");
    expect(CADRE_F32, 56,
           "3.50 GHz (highest clock) x 16 FLOP a cycle (NEON, two FMA units)");
}
END_TEST

START_TEST(cores_that_are_not_described_are_said)
{
    cadre_peak_core(CADRE_F32, root, &peak);
    ck_assert(isnan(peak.flops));
    ck_assert_ptr_nonnull(strstr(peak.source, "the processor's clock; set"));
    put("proc/cpuinfo", "cpu MHz\t\t: 2100.000\nflags\t\t: sse2\n");
    cadre_peak_core(CADRE_F32, root, &peak);
    ck_assert(isnan(peak.flops));
    ck_assert_ptr_nonnull(strstr(peak.source, "the processor's vector units; set"));
}
END_TEST

START_TEST(hardware_threads_of_a_core_count_once)
{
    ck_assert_double_eq(cadre_peak_core_share(root), 1); /* the kernel does not say */
    cpu_set_t allowed;
    ck_assert_int_eq(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    for (int thread = 0; thread < CPU_SETSIZE; thread++) {
        char name[96];
        if (!CPU_ISSET((size_t)thread, &allowed))
            continue;
        snprintf(name, sizeof name,
                 "sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", thread);
        put(name, "0-1023\n");
    }
    ck_assert_double_eq_tol(cadre_peak_core_share(root), 1.0 / cadre_cores(), 1e-12);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("peak");
    TCase *tc = tcase_create("peak");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, gpus_are_known_by_name_and_format);
    tcase_add_test(tc, gpus_that_are_not_known_are_said);
    tcase_add_test(tc, cores_are_computed);
    tcase_add_test(tc, cores_that_are_not_described_are_said);
    tcase_add_test(tc, hardware_threads_of_a_core_count_once);
    suite_add_tcase(s, tc);
    return s;
}
