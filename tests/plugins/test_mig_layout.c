/* SPDX-License-Identifier: Apache-2.0 */
/* What fits on a GPU, by the tables of three boards, against trying everything. */
#include <stdio.h>
#include <string.h>

#include "plugins/mig/layout.h"
#include "tests/support/check_main.h"
#include "tests/support/fake_nvml/layouts.h"

/* An empty GPU of a layout. */
static void make_gpu(struct mig_gpu *gpu, const struct fake_layout *layout)
{
    memset(gpu, 0, sizeof *gpu);
    gpu->on = true;
    gpu->slices = 7;
    gpu->end = 8;
    gpu->memory = layout->memory_mib << 20;
    snprintf(gpu->name, sizeof gpu->name, "%s", layout->name);
    for (int i = 0; i < FAKE_PROFILES && layout->profile[i].name; i++) {
        const struct fake_profile *from = &layout->profile[i];
        struct mig_profile *to = &gpu->profile[gpu->n_profiles++];
        snprintf(to->name, sizeof to->name, "%s", from->name);
        to->id = from->id;
        to->slices = from->slices;
        to->instances = from->instances;
        to->sms = from->sms;
        to->memory = (uint64_t)from->memory_mib << 20;
        to->n_places = from->n_starts;
        for (unsigned k = 0; k < from->n_starts; k++)
            to->place[k] = (struct mig_span){from->starts[k], from->size};
    }
}

static void take(struct mig_gpu *gpu, const char *profile, uint32_t start)
{
    for (uint32_t i = 0; i < gpu->n_profiles; i++)
        if (strcmp(gpu->profile[i].name, profile) == 0)
            gpu->taken[gpu->n_taken++] = (struct mig_taken){
                .profile = i,
                .id = start,
                .at = {start, gpu->profile[i].place[0].size},
            };
}

/* Is it a layout of what was wanted? */
static void check_layout(const struct mig_gpu *gpu, const struct mig_wanted *wanted,
                         const struct mig_layout *layout)
{
    uint64_t taken = mig_gpu_taken(gpu);
    struct mig_wanted found = {{0}};
    uint32_t slices = 0;
    for (uint32_t i = 0; i < gpu->n_taken; i++)
        slices += gpu->profile[gpu->taken[i].profile].slices;
    for (uint32_t i = 0; i < layout->n; i++) {
        const struct mig_placed *item = &layout->item[i];
        const struct mig_profile *p = &gpu->profile[item->profile];
        bool may = false;
        for (uint32_t k = 0; k < p->n_places; k++)
            may |= p->place[k].start == item->at.start &&
                   p->place[k].size == item->at.size;
        ck_assert_msg(may, "%s at %u", p->name, item->at.start);
        ck_assert_msg(!(taken & mig_span_bits(item->at)), "%s overlaps", p->name);
        taken |= mig_span_bits(item->at);
        slices += p->slices;
        found.count[item->profile]++;
    }
    ck_assert_uint_le(slices, gpu->slices);
    ck_assert_mem_eq(&found, wanted, sizeof found);
}

/* Try every place for every instance, in the order of profiles. */
static bool try_all(const struct mig_gpu *gpu, struct mig_wanted *left, uint64_t taken)
{
    uint32_t i = 0;
    while (i < gpu->n_profiles && !left->count[i])
        i++;
    if (i == gpu->n_profiles)
        return true;
    bool found = false;
    left->count[i]--;
    for (uint32_t k = 0; k < gpu->profile[i].n_places && !found; k++) {
        uint64_t bits = mig_span_bits(gpu->profile[i].place[k]);
        found = !(taken & bits) && try_all(gpu, left, taken | bits);
    }
    left->count[i]++;
    return found;
}

static bool fits_at_all(const struct mig_gpu *gpu, const struct mig_wanted *wanted)
{
    struct mig_wanted left = *wanted;
    uint32_t slices = 0;
    for (uint32_t i = 0; i < gpu->n_profiles; i++) {
        uint32_t n = wanted->count[i];
        slices += n * gpu->profile[i].slices;
        for (uint32_t k = 0; k < gpu->n_taken; k++)
            n += gpu->taken[k].profile == i;
        if (wanted->count[i] && n > gpu->profile[i].instances)
            return false;
    }
    for (uint32_t k = 0; k < gpu->n_taken; k++)
        slices += gpu->profile[gpu->taken[k].profile].slices;
    return slices <= gpu->slices && try_all(gpu, &left, mig_gpu_taken(gpu));
}

static bool next_set(const struct mig_gpu *gpu, struct mig_wanted *wanted)
{
    for (uint32_t i = 0; i < gpu->n_profiles; i++) {
        if (wanted->count[i]++ < gpu->profile[i].instances)
            return true;
        wanted->count[i] = 0;
    }
    return false;
}

/* What is there already, in the three cases of each board. */
static void occupy(struct mig_gpu *gpu, int how)
{
    if (how == 1)
        take(gpu, gpu->profile[4].name, 0); /* 3g */
    if (how == 2) {
        take(gpu, gpu->profile[0].name, 3);
        take(gpu, gpu->profile[3].name, 4); /* 2g */
    }
}

START_TEST(as_trying_everything)
{
    struct mig_gpu gpu;
    struct mig_wanted wanted = {{0}};
    struct mig_layout layout;
    unsigned n = 0, fitting = 0;
    make_gpu(&gpu, &fake_layouts[_i / 3]);
    occupy(&gpu, _i % 3);
    do {
        if (test_lean() && n++ % 3)
            continue;
        bool expected = fits_at_all(&gpu, &wanted);
        ck_assert_int_eq(mig_layout_fit(&gpu, &wanted, &layout), expected);
        fitting += expected;
        if (expected)
            check_layout(&gpu, &wanted, &layout);
        else
            ck_assert_uint_eq(layout.n, 0);
    } while (next_set(&gpu, &wanted));
    ck_assert_uint_gt(fitting, test_lean() ? 3 : 10);
}
END_TEST

static uint32_t draw(uint64_t *state, uint32_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33) % below;
}

/* A board that nobody makes: its places are such that the search must go back. */
static void make_strange_gpu(struct mig_gpu *gpu, uint64_t *state)
{
    memset(gpu, 0, sizeof *gpu);
    gpu->on = true;
    gpu->end = 8;
    gpu->slices = 4 + draw(state, 5);
    gpu->n_profiles = 2 + draw(state, 3);
    for (uint32_t i = 0; i < gpu->n_profiles; i++) {
        struct mig_profile *p = &gpu->profile[i];
        uint32_t size = 1 + draw(state, 3), starts = draw(state, 256);
        snprintf(p->name, sizeof p->name, "p%u", i);
        p->slices = 1 + draw(state, 2);
        p->instances = 1 + draw(state, 3);
        for (uint32_t s = 0; s + size <= 8; s++)
            if (starts >> s & 1)
                p->place[p->n_places++] = (struct mig_span){s, size};
    }
    if (draw(state, 2) && gpu->profile[0].n_places) {
        gpu->n_taken = 1;
        gpu->taken[0].at = gpu->profile[0].place[0];
    }
}

START_TEST(strange_boards)
{
    struct mig_gpu gpu;
    struct mig_layout layout;
    uint64_t state = (uint64_t)_i;
    unsigned fitting = 0, not_fitting = 0;
    for (int board = 0; board < (test_lean() ? 40 : 400); board++) {
        struct mig_wanted wanted = {{0}};
        make_strange_gpu(&gpu, &state);
        do {
            bool expected = fits_at_all(&gpu, &wanted);
            ck_assert_int_eq(mig_layout_fit(&gpu, &wanted, &layout), expected);
            if (expected)
                check_layout(&gpu, &wanted, &layout);
            fitting += expected;
            not_fitting += !expected;
        } while (next_set(&gpu, &wanted));
    }
    ck_assert_uint_gt(fitting, 100);
    ck_assert_uint_gt(not_fitting, 100);
}
END_TEST

/* The nearest fits, and no part of what was wanted that fits has more slices. */
START_TEST(the_nearest_is_near)
{
    struct mig_gpu gpu;
    struct mig_wanted wanted = {{0}}, nearest;
    struct mig_layout layout;
    char why[400];
    unsigned n = 0;
    make_gpu(&gpu, &fake_layouts[2]);
    occupy(&gpu, _i);
    do {
        if (n++ % (test_lean() ? 97 : 13) || mig_layout_fit(&gpu, &wanted, &layout))
            continue;
        uint32_t of_nearest = 0;
        mig_layout_explain(&gpu, &wanted, &nearest, why, sizeof why);
        ck_assert_str_ne(why, "");
        ck_assert(mig_layout_fit(&gpu, &nearest, &layout));
        check_layout(&gpu, &nearest, &layout);
        for (uint32_t i = 0; i < gpu.n_profiles; i++)
            of_nearest += nearest.count[i] * gpu.profile[i].slices;
        for (uint32_t i = 0; i < gpu.n_profiles; i++) {
            struct mig_wanted one = {{0}};
            one.count[i] = wanted.count[i] != 0;
            if (mig_layout_fit(&gpu, &one, &layout))
                ck_assert_uint_ge(of_nearest, one.count[i] * gpu.profile[i].slices);
        }
    } while (next_set(&gpu, &wanted));
}
END_TEST

/* Known of the boards, by short names: a line of what fits, a line of what does not. */
static const struct {
    const char *text;
    bool fits;
} known[] = {
    {"1g x2 + 2g + 3g", true},
    {"1g x7", true},
    {"2g x3 + 1g", true},
    {"3g x2", true},
    {"4g + 3g", true},
    {"4g + 2g + 1g", true},
    {"7g", true},
    {"1g x6, 1g+me", true},
    {"3g + 1g x3", true},
    {"2g x2 + 3g", true},
    {"3g x2 + 1g", false},
    {"4g x2", false},
    {"2g x3 + 1g x2", false},
    {"1g x8", false},
    {"1g+me x2", false},
    {"7g + 1g", false},
    {"4g + 1g x4", false},
    {"1g x7 + 1g+me", false},
    {"2 x 1g + 2g+3g", true},
    {" 3G  X2 ", true},
};

START_TEST(what_is_known_of_boards)
{
    struct mig_gpu gpu;
    struct mig_wanted wanted;
    struct mig_layout layout;
    char why[400];
    for (size_t b = 0; b < FAKE_LAYOUTS; b++) {
        make_gpu(&gpu, &fake_layouts[b]);
        bool read = mig_wanted_read(&gpu, known[_i].text, &wanted, why, sizeof why);
        ck_assert_msg(read, "%s", why);
        ck_assert_msg(mig_layout_fit(&gpu, &wanted, &layout) == known[_i].fits,
                      "%s on %s", known[_i].text, gpu.name);
    }
}
END_TEST

static const struct {
    const char *text, *means;
} readings[] = {
    {"1g", "1g.18gb"},
    {"1g.35gb x4", "1g.35gb x4"},
    {"1g + 2g x2+1G.18GB+ME", "2g.35gb x2 + 1g.18gb+me + 1g.18gb"},
    {"1g+1g+me", "1g.18gb+me + 1g.18gb"},
    {"2x1g,3x 2g", "2g.35gb x3 + 1g.18gb x2"},
    {"1gx2", "1g.18gb x2"},
};

START_TEST(readings_of_wanted)
{
    struct mig_gpu gpu;
    struct mig_wanted wanted;
    char why[400], text[200];
    make_gpu(&gpu, &fake_layouts[2]);
    bool read = mig_wanted_read(&gpu, readings[_i].text, &wanted, why, sizeof why);
    ck_assert_msg(read, "%s: %s", readings[_i].text, why);
    ck_assert_str_eq(mig_wanted_text(&gpu, &wanted, text, sizeof text),
                     readings[_i].means);
}
END_TEST

static const struct {
    const char *text, *why;
} mistakes[] = {
    {"", "say what is wanted"},
    {"  ", "say what is wanted"},
    {"1g +", "expected a profile at ''"},
    {"1g 2g", "expected + at '2g'"},
    {"1g; 2g", "expected + at '; 2g'"},
    {"5g", "'5g' is no profile of GPU 0 (NVIDIA H200), which has 1g.18gb,"},
    {"1g.10gb", "'1g.10gb' is no profile"},
    {"1g+you", "'1g+you' is no profile"},
    {"x2", "expected a profile at 'x2'"},
    {"\x80", "expected a profile at"},
};

START_TEST(mistakes_are_named)
{
    struct mig_gpu gpu;
    struct mig_wanted wanted;
    char why[400] = "";
    make_gpu(&gpu, &fake_layouts[2]);
    ck_assert(!mig_wanted_read(&gpu, mistakes[_i].text, &wanted, why, sizeof why));
    ck_assert_msg(strstr(why, mistakes[_i].why) == why, "%s", why);
}
END_TEST

static const struct {
    int taken;
    const char *text, *why, *nearest;
} refusals[] = {
    {0, "4g x2", "a GPU holds at most 1 of 4g.71gb, 2 are wanted and 0 exist",
     "4g.71gb + 3g.71gb"},
    {0, "3g x2 + 2g", "8 compute slices are wanted, 7 of 7 are free", "3g.71gb x2"},
    {0, "3g x2 + 1g", "9 memory slices are wanted, 8 of 8 are free", "3g.71gb x2"},
    {1, "4g",
     "4g.71gb takes 4 memory slices and can begin at 0 (taken) only: no arrangement "
     "leaves room for it",
     "3g.71gb"},
    {1, "3g x2", "a GPU holds at most 2 of 3g.71gb, 2 are wanted and 1 exist",
     "3g.71gb"},
    {2, "7g", "7 compute slices are wanted, 4 of 7 are free", "2g.35gb"},
    {0, "1g x1000", "a GPU holds at most 7 of 1g.18gb, 1000 are wanted and 0 exist",
     "1g.18gb x7"},
};

START_TEST(refusals_say_why)
{
    struct mig_gpu gpu;
    struct mig_wanted wanted, nearest;
    struct mig_layout layout;
    char why[400], text[200];
    make_gpu(&gpu, &fake_layouts[2]);
    occupy(&gpu, refusals[_i].taken);
    ck_assert(mig_wanted_read(&gpu, refusals[_i].text, &wanted, why, sizeof why));
    ck_assert(!mig_layout_fit(&gpu, &wanted, &layout));
    mig_layout_explain(&gpu, &wanted, &nearest, why, sizeof why);
    ck_assert_str_eq(why, refusals[_i].why);
    ck_assert_str_eq(mig_wanted_text(&gpu, &nearest, text, sizeof text),
                     refusals[_i].nearest);
}
END_TEST

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

Suite *test_suite(void)
{
    Suite *s = suite_create("mig_layout");
    TCase *tc = tcase_create("mig_layout");
    tcase_add_loop_test(tc, as_trying_everything, 0, 3 * (int)FAKE_LAYOUTS);
    tcase_add_loop_test(tc, strange_boards, 0, 2);
    tcase_add_loop_test(tc, the_nearest_is_near, 0, 3);
    tcase_add_loop_test(tc, what_is_known_of_boards, 0, COUNT(known));
    tcase_add_loop_test(tc, readings_of_wanted, 0, COUNT(readings));
    tcase_add_loop_test(tc, mistakes_are_named, 0, COUNT(mistakes));
    tcase_add_loop_test(tc, refusals_say_why, 0, COUNT(refusals));
    suite_add_tcase(s, tc);
    return s;
}
