/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA device compared with the CPU device through the table of ops: on the
 * stand-in, or with CADRE_TEST_DEVICE=cuda on a GPU, and with more and larger shapes
 * there unless CADRE_TEST_LEAN is 1, or 2, the least: for a tool under which a kernel
 * takes a thousand times as long. */
#include <stdio.h>
#include <unistd.h>

#include "tests/device/cuda/parity.h"
#include "tests/device/cuda/standin.h"
#include "tests/device/op_testing.h"
#include "tests/support/check_main.h"

START_TEST(every_op)
{
    struct parity parity = {.lean = test_lean(),
                            .leanest = test_leanest(),
                            .real = standin_is_real() && !test_lean()};
    if (!standin_or_cuda())
        return;
    parity.cpu = open_cpu(parity.real ? (int)sysconf(_SC_NPROCESSORS_ONLN) : 1);
    parity.gpu = standin_open(true);
    parity_experts(&parity); /* first: it logs errors that are expected */
    parity_gemms(&parity);
    parity_attentions(&parity);
    parity_rows(&parity);
    parity_elements(&parity);
    parity_losses(&parity);
    parity_lists(&parity);
    parity_compression(&parity);
    parity_vectors(&parity);
    cadre_device_close(parity.gpu);
    cadre_device_close(parity.cpu);
    parity_show(&parity);
    parity_covered(&parity);
    ck_assert_msg(parity.failures == 0, "%d differences between the devices",
                  parity.failures);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("parity");
    TCase *tc = tcase_create("parity");
    tcase_set_timeout(tc, standin_is_real() ? 540 : 120);
    tcase_add_test(tc, every_op);
    suite_add_tcase(s, tc);
    return s;
}
