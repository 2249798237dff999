/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/mig/choose.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/check_main.h"

static struct mig_list list;
static struct mig_wants wants;
static char uuid[NVML_TEXT_BYTES], why[1024];

static void add(uint32_t gpu, uint32_t index, const char *profile)
{
    struct mig_instance *item = &list.item[list.n++];
    *item = (struct mig_instance){.gpu = gpu, .index = index};
    snprintf(item->uuid, sizeof item->uuid, "MIG-%u-%u", gpu, index);
    snprintf(item->gpu_uuid, sizeof item->gpu_uuid, "GPU-%u", gpu);
    snprintf(item->profile, sizeof item->profile, "%s", profile);
    item->slices = (uint32_t)(profile[0] - '0');
}

/* GPU 0: 3g 1g 1g+me; GPU 1: 1g, and a part of a 3g. */
static void setup(void)
{
    list.n = 0;
    list.reason[0] = '\0';
    add(0, 0, "3g.71gb");
    add(0, 1, "1g.18gb");
    add(0, 2, "1g.18gb+me");
    add(1, 0, "1g.18gb");
    add(1, 1, "1c.3g.71gb");
    wants = (struct mig_wants){.profile = "", .instances = "", .visible = "", .n = 2};
    uuid[0] = why[0] = '\0';
}

/* Rank `index` gets the instance. */
static void gets(uint32_t index, const char *want)
{
    const bool found = mig_choose(&list, &wants, index, uuid, why, sizeof why);
    ck_assert_msg(found, "%s", why);
    ck_assert_str_eq(uuid, want);
}

/* No rank gets any. */
static void refused(const char *text)
{
    for (uint32_t index = 0; index < wants.n; index++) {
        uuid[0] = '\0';
        ck_assert(!mig_choose(&list, &wants, index, uuid, why, sizeof why));
        ck_assert_str_eq(uuid, "");
        ck_assert_msg(strstr(why, text), "'%s' lacks '%s'", why, text);
    }
}

START_TEST(the_first_found)
{
    gets(0, "MIG-0-0");
    gets(1, "MIG-0-1");
    wants.n = 5;
    gets(4, "MIG-1-1");
}
END_TEST

START_TEST(too_few)
{
    wants.n = 6;
    refused("needs 6 MIG instances, found 5; take fewer");
    wants.share = true;
    gets(5, "MIG-0-0");
}
END_TEST

START_TEST(none_at_all)
{
    list.n = 0;
    snprintf(list.reason, sizeof list.reason, "GPU 0 (H200): MIG is off");
    refused("there is none: GPU 0 (H200): MIG is off; `cadre mig plan`");
    wants.instances = "0:0 0:1";
    refused("MIG is off");
    wants.share = true;
    refused("mig.pin = no");
}
END_TEST

START_TEST(of_a_profile)
{
    wants.profile = "1g";
    wants.n = 3;
    gets(0, "MIG-0-1");
    gets(1, "MIG-0-2");
    gets(2, "MIG-1-0");
    wants.profile = "1g.18gb";
    gets(2, "MIG-1-0");
    wants.n = 1;
    wants.profile = "1g.18gb+me";
    gets(0, "MIG-0-2");
    wants.profile = "3g";
    gets(0, "MIG-0-0");
    wants.profile = "1"; /* no part of a name */
    refused("needs 1 MIG instance, found 0 of mig.profile = 1;");
    wants.profile = "3g.71gbx";
    refused("found 0");
}
END_TEST

/* GPU 0: 3 1 1; GPU 1: 1 1 compute slices. */
START_TEST(of_sizes)
{
    static const uint32_t small_first[] = {1, 3}, two_threes[] = {3, 3};
    wants.slices = small_first;
    gets(0, "MIG-0-1");
    gets(1, "MIG-0-0");
    wants.profile = "1g";
    refused("mig.sizes asks for 3 compute slices at index 1 of the axis, and no "
            "instance of that size is left");
    wants.profile = "";
    wants.slices = two_threes;
    refused("no instance of that size is left");
    wants.share = true;
    gets(1, "MIG-0-0");
    wants.share = false;
    wants.slices = small_first;
    wants.instances = "1:0 0:0"; /* an order of its own */
    gets(0, "MIG-1-0");
    gets(1, "MIG-0-0");
    wants.instances = "0:0 1:0";
    refused("asks for 1 compute slices at index 0 of the axis, and the instance of "
            "mig.instances there has others");
    wants.instances = "";
    wants.visible = "MIG-0-0"; /* by an external launcher, one for this rank alone */
    wants.given = true;
    ck_assert(mig_choose(&list, &wants, 1, uuid, why, sizeof why));
    ck_assert_str_eq(uuid, "MIG-0-0");
    ck_assert(!mig_choose(&list, &wants, 0, uuid, why, sizeof why));
    ck_assert_ptr_nonnull(strstr(why, "started on MIG-0-0, which has 3 compute slices, "
                                      "but mig.sizes has 1 at index 0"));
}
END_TEST

START_TEST(of_a_list)
{
    wants.instances = "MIG-1-0, 0:2";
    gets(0, "MIG-1-0");
    gets(1, "MIG-0-2");
    wants.instances = "0:1\t0:0,";
    gets(0, "MIG-0-1");
    wants.instances = "0:1";
    refused("found 1 in mig.instances;");
    wants.instances = "0:1 0:7";
    refused(
        "mig.instances: '0:7' is none of the 5 MIG instances that there are; `cadre "
        "mig list`");
    wants.instances = "0:1 0";
    refused("'0' is none");
    wants.instances = "0:1 MIG-0-1";
    refused("'MIG-0-1' is listed twice");
    wants.share = true;
    gets(1, "MIG-0-1");
    wants.share = false;
    wants.profile = "1g";
    wants.instances = "0:1 0:0";
    refused("'0:0' is none of the 3 MIG instances that are of mig.profile");
}
END_TEST

START_TEST(a_word_too_long)
{
    char word[4096];
    memset(word, 'x', sizeof word);
    word[sizeof word - 1] = '\0';
    wants.instances = word;
    refused("mig.instances: 'xxx");
    wants.instances = "";
    wants.visible = word;
    refused("found 0 under CUDA_VISIBLE_DEVICES");
}
END_TEST

/* CUDA_VISIBLE_DEVICES of this process limits its ranks. */
START_TEST(under_cuda_visible_devices)
{
    wants.visible = "1";
    gets(0, "MIG-1-0");
    gets(1, "MIG-1-1");
    wants.visible = "GPU-1,0";
    gets(0, "MIG-1-0");
    wants.n = 3;
    gets(2, "MIG-0-0");
    wants.n = 2;
    wants.visible = "MIG-1-1,MIG-0-2";
    gets(0, "MIG-1-1");
    gets(1, "MIG-0-2");
    wants.instances = "0:0 0:2";
    refused("'0:0' is none of the 2 MIG instances that CUDA_VISIBLE_DEVICES lists");
    wants.instances = "";
    wants.visible = "MIG-1-1,none,MIG-0-2"; /* CUDA stops there too */
    refused("found 1 under CUDA_VISIBLE_DEVICES");
}
END_TEST

/* A rank of an external launcher runs on the instance it was given. */
START_TEST(what_was_given)
{
    wants.given = true;
    wants.visible = "MIG-0-2";
    gets(0, "MIG-0-2");
    gets(1, "MIG-0-2"); /* of that rank, this is what there is */
    wants.profile = "3g";
    refused("was started on MIG-0-2, which is a 1g.18gb+me, but mig.profile = 3g");
    wants.profile = "";
    wants.instances = "0:0 0:1"; /* what it should have; the core compares */
    gets(1, "MIG-0-1");
    wants.instances = "";
    wants.visible = "MIG-0-1,MIG-1-0"; /* several: none was chosen */
    gets(1, "MIG-1-0");
    list.n = 0; /* NVML is not there, say in a container */
    wants.visible = "MIG-7-7";
    gets(0, "MIG-7-7");
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("choose");
    TCase *tc = tcase_create("choose");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, the_first_found);
    tcase_add_test(tc, too_few);
    tcase_add_test(tc, none_at_all);
    tcase_add_test(tc, of_a_profile);
    tcase_add_test(tc, of_sizes);
    tcase_add_test(tc, of_a_list);
    tcase_add_test(tc, a_word_too_long);
    tcase_add_test(tc, under_cuda_visible_devices);
    tcase_add_test(tc, what_was_given);
    suite_add_tcase(suite, tc);
    return suite;
}
