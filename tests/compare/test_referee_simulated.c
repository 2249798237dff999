/* SPDX-License-Identifier: Apache-2.0 */
/* The whole procedure on simulated machines, whose noise is known: how often it says
 * that runs differ that do not, and how often it finds a difference that is there. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/rng.h"
#include "tests/compare/referee.h"
#include "tests/support/check_main.h"

/* A machine: pieces take 0.1 s, times exp of its noise. */
struct machine {
    const struct noise *noise;
    uint64_t key, drawn;
    double scale; /* of the noise */
    double state;
    int at; /* pieces so far */
};

struct noise {
    const char *name;
    double (*next)(struct machine *machine, struct cadre_piece *piece);
};

static double normal(struct machine *machine)
{
    return cadre_rng_normal(machine->key, machine->drawn++);
}

static double uniform(struct machine *machine)
{
    return cadre_rng_uniform(machine->key, machine->drawn++);
}

/* Each piece as far from the mean as the one before, nearly. */
static double autoregressive(struct machine *m, struct cadre_piece *piece)
{
    (void)piece;
    m->state = m->at ? 0.9 * m->state + sqrt(1 - 0.81) * normal(m) : normal(m);
    return m->scale * m->state;
}

/* Ten times the scale from the first piece to the fiftieth, up or down. */
static double drift(struct machine *m, struct cadre_piece *piece)
{
    (void)piece;
    if (m->at == 0)
        m->state = uniform(m) < 0.5 ? -0.2 : 0.2;
    return m->scale * (m->state * m->at + 0.5 * normal(m));
}

/* Two speeds, one five times the scale above the other; a piece has that of the one
 * before in four of five cases. */
static double bimodal(struct machine *m, struct cadre_piece *piece)
{
    (void)piece;
    if (m->at == 0 || uniform(m) < 0.4)
        m->state = uniform(m) < 0.5;
    return m->scale * (5 * m->state + 0.5 * normal(m));
}

/* One piece of twenty takes up to twice as long. */
static double outliers(struct machine *m, struct cadre_piece *piece)
{
    (void)piece;
    double slow = uniform(m) < 0.05 ? uniform(m) * log(2) : 0;
    return slow + m->scale * normal(m);
}

/* Where a start put its pages and threads: never faster than the best place, and now
 * and then much slower. */
static double starts(struct machine *m, struct cadre_piece *piece)
{
    (void)piece;
    return m->scale * (-log(uniform(m)) + 0.2 * normal(m));
}

/* Another program that comes and goes, and takes a third of the time when there. The
 * kernel's counters show it. */
static double neighbour(struct machine *m, struct cadre_piece *piece)
{
    if (m->at == 0 || uniform(m) < 0.15)
        m->state = uniform(m) < 0.4;
    piece->load.foreign_s = m->state > 0 ? 0.8 : 0.004;
    return m->scale * normal(m) + (m->state > 0 ? 0.4 : 0);
}

/* A hypervisor that takes up to a third of the core, for some pieces on end. */
static double stolen(struct machine *m, struct cadre_piece *piece)
{
    if (m->at == 0 || uniform(m) < 0.3)
        m->state = uniform(m) / 3;
    piece->load.foreign_s = m->state;
    return m->scale * normal(m) - log1p(-m->state);
}

/* The same, whenever run 1 is on, and never else. */
static double against_one(struct machine *m, struct cadre_piece *piece)
{
    m->state = piece->run == 1 ? 0.05 + uniform(m) / 3 : 0;
    piece->load.foreign_s = m->state;
    return m->scale * normal(m) - log1p(-m->state);
}

/* The same, but never so much that a round is disturbed. */
static double little_against_one(struct machine *m, struct cadre_piece *piece)
{
    m->state = piece->run == 1 ? 0.01 + 0.035 * uniform(m) : 0;
    piece->load.foreign_s = m->state + 0.004 * uniform(m);
    return m->scale * normal(m) - log1p(-m->state);
}

static const struct noise noises[] = {
    {"autoregressive", autoregressive},
    {"drift", drift},
    {"bimodal", bimodal},
    {"outliers", outliers},
    {"starts", starts},
    {"neighbour", neighbour},
    {"stolen", stolen},
};
enum { NOISES = sizeof noises / sizeof noises[0] };

static bool next_piece(void *source, struct cadre_piece *piece)
{
    struct machine *machine = source;
    piece->load = (struct cadre_load){.wall_s = 1, .own_s = 1, .foreign_s = 0.004};
    piece->period_s = 0.1 * exp(machine->noise->next(machine, piece));
    machine->at++;
    return true;
}

struct tally {
    int alarms, found, wrong, covered, unranked, sized;
    double detectable; /* mean over `sized` experiments */
};

struct trial {
    const struct noise *noise;
    size_t runs;
    double scale, margin, speedup;
    bool single;
};

static void count(struct tally *tally, const struct cadre_speed *speed, double speedup)
{
    const struct cadre_speed_run *run = &speed->run[1];
    tally->alarms += referee_false_alarm(speed);
    tally->found += referee_found(speed);
    tally->wrong += referee_wrong(speed);
    tally->unranked += run->verdict == CADRE_SPEED_NOT_RANKED;
    if (isnan(run->speedup.low)) /* load may have moved it */
        tally->covered += run->verdict == CADRE_SPEED_NOT_RANKED;
    else
        tally->covered += run->speedup.low <= speedup && run->speedup.high >= speedup;
    if (isnan(run->detectable))
        return;
    tally->sized++;
    tally->detectable += (run->detectable - tally->detectable) / tally->sized;
}

static struct tally try_often(const struct trial *trial, int times)
{
    struct tally tally = {0};
    for (int i = 0; i < times; i++) {
        char stream[96];
        snprintf(stream, sizeof stream, "%s.%zu.%g.%g", trial->noise->name, trial->runs,
                 trial->scale, trial->speedup);
        struct machine machine = {.noise = trial->noise,
                                  .key = cadre_rng_key((uint64_t)i, stream),
                                  .scale = trial->scale};
        struct referee referee = {.seed = machine.key,
                                  .runs = trial->runs,
                                  .single = trial->single,
                                  .margin = trial->margin,
                                  .speedup = trial->speedup,
                                  .next = next_piece,
                                  .source = &machine};
        struct cadre_speed speed;
        ck_assert(referee_experiment(&referee, &speed));
        count(&tally, &speed, trial->speedup);
        cadre_speed_fini(&speed);
    }
    return tally;
}

static double percent(int k, int n)
{
    return 100.0 * k / n;
}

/* All runs are one program. Without a margin, which could only hide what is wrong with
 * the statistics. */
static void hold_false_alarms(size_t runs, bool single, int times)
{
    times = test_lean() ? 300 : times;
    for (size_t i = 0; i < NOISES; i++) {
        struct trial trial = {&noises[i], runs, 0.02, 0, 1, single};
        struct tally got = try_often(&trial, times);
        printf("%zu runs%s, %-14s  false alarms %4.2f %%, not ranked %4.1f %%, ", runs,
               single ? ", single starts" : "", noises[i].name,
               percent(got.alarms, times), percent(got.unranked, times));
        printf("in the interval %5.2f %%\n", percent(got.covered, times));
        ck_assert_msg(percent(got.alarms, times) <= 6, "%d of %d", got.alarms, times);
        ck_assert_msg(percent(got.covered, times) >= 94, "%d of %d", got.covered,
                      times);
    }
}

START_TEST(false_alarms_of_two_runs)
{
    hold_false_alarms(2, false, 10000);
}
END_TEST

START_TEST(false_alarms_of_four_runs)
{
    hold_false_alarms(4, false, 10000);
}
END_TEST

START_TEST(false_alarms_of_single_starts)
{
    hold_false_alarms(2, true, 3000);
}
END_TEST

/* Of two runs the second is faster. Wrong statements are as rare as alarms at least. */
static struct tally find(const struct trial *trial, int times)
{
    struct tally got = try_often(trial, times);
    printf("  %4.1f %%: %5.1f %%", 100 * (trial->speedup - 1),
           percent(got.found, times));
    ck_assert_msg(percent(got.wrong, times) <= 3, "%d of %d", got.wrong, times);
    return got;
}

/* Found by size of the effect; last the one that an A/A comparison says would have been
 * seen, which must be so in most tries where rounds are alike. */
START_TEST(power_by_noise)
{
    static const double scales[] = {0.005, 0.02, 0.05}, effects[] = {1.02, 1.05, 1.10};
    int times = test_lean() ? 20 : 250;
    for (size_t i = 0; i < NOISES; i++)
        for (size_t s = 0; s < 3; s++) {
            struct trial trial = {&noises[i], 2, scales[s], 0.01, 1, false};
            struct tally none = try_often(&trial, times);
            printf("%-14s of %3.1f %%, found ", noises[i].name, 100 * scales[s]);
            for (size_t e = 0; e < 3; e++) {
                trial.speedup = effects[e];
                find(&trial, times);
            }
            trial.speedup = none.sized ? none.detectable : 2;
            struct tally got = find(&trial, times);
            printf("\n");
            if (noises[i].next == autoregressive || noises[i].next == drift ||
                noises[i].next == starts)
                ck_assert_int_ge(got.found, 2 * times / 3);
        }
}
END_TEST

/* Load that follows one run makes no difference between equal ones. */
START_TEST(load_against_one_run)
{
    static const struct noise noise = {"against one", against_one};
    int times = test_lean() ? 100 : 2000;
    for (size_t runs = 2; runs <= 4; runs += 2) {
        struct trial trial = {&noise, runs, 0.02, 0, 1, false};
        struct tally got = try_often(&trial, times);
        printf("%zu runs, load against one: %d of %d false alarms\n", runs, got.alarms,
               times);
        ck_assert_int_eq(got.alarms, 0);
        ck_assert_int_eq(got.unranked, times);
    }
}
END_TEST

/* Nor does less of it, which leaves all rounds undisturbed. */
START_TEST(little_load_against_one_run)
{
    static const struct noise noise = {"little against one", little_against_one};
    static const double scales[] = {0.002, 0.02};
    int times = test_lean() ? 100 : 2000;
    for (size_t i = 0; i < 4; i++) {
        struct trial trial = {&noise, 2 + i / 2 * 2, scales[i % 2], 0, 1, false};
        struct tally got = try_often(&trial, times);
        printf("%zu runs, little load against one, noise of %.1f %%: %d of %d false "
               "alarms\n",
               trial.runs, 100 * trial.scale, got.alarms, times);
        /* of four runs three are alike, and false alarms as rare as elsewhere */
        ck_assert_int_le(100 * got.alarms, (trial.runs == 2 ? 1 : 6) * times);
        ck_assert_int_ge(got.covered, 95 * times / 100);
    }
}
END_TEST

/* One run differs, and the others are equal: nothing is said of these, and no other one
 * wins. */
START_TEST(one_of_many_differs)
{
    const int times = 1000; /* fewer say too little of so rare statements */
    for (size_t runs = 4; runs <= 8; runs += 4)
        for (size_t i = 0; i < NOISES; i++) {
            struct trial trial = {&noises[i], runs, 0.02, 0, 1.05, false};
            struct tally got = try_often(&trial, times);
            printf(
                "%zu runs, %-14s one 5 %% faster: found in %5.1f %%, wrong %.2f %%\n",
                runs, noises[i].name, percent(got.found, times),
                percent(got.wrong, times));
            ck_assert_msg(percent(got.wrong, times) <= 6, "%d of %d", got.wrong, times);
        }
}
END_TEST

/* Hardly a round is undisturbed, and twice as fast is found all the same. */
START_TEST(large_difference_despite_load)
{
    static const struct noise noise = {"stolen", stolen};
    int times = test_lean() ? 100 : 2000;
    for (size_t runs = 2; runs <= 4; runs += 2) {
        struct trial trial = {&noise, runs, 0.02, 0.01, 2, false};
        struct tally got = try_often(&trial, times);
        printf("%zu runs, twice as fast: found in %.1f %%, wrong %d\n", runs,
               percent(got.found, times), got.wrong);
        ck_assert_int_eq(got.wrong, 0);
        ck_assert_int_ge(got.found, 8 * times / 10);
        ck_assert_int_ge(got.covered, 95 * times / 100);
    }
}
END_TEST

/* As scipy 1.17 has them, from the beta distribution. */
START_TEST(upper_bound_of_a_rate)
{
    ck_assert_double_eq_tol(referee_rate_high(0, 400), 1 - pow(0.025, 1.0 / 400), 1e-9);
    ck_assert_double_eq_tol(referee_rate_high(0, 10), 0.3085, 5e-5);
    ck_assert_double_eq_tol(referee_rate_high(1, 10), 0.4450, 5e-5);
    ck_assert_double_eq_tol(referee_rate_high(5, 10), 0.8129, 5e-5);
    ck_assert_double_eq_tol(referee_rate_high(5, 100), 0.1128, 5e-5);
    ck_assert_double_eq(referee_rate_high(10, 10), 1);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("referee_simulated");
    TCase *tc = tcase_create("referee_simulated");
    tcase_add_test(tc, false_alarms_of_two_runs);
    tcase_add_test(tc, false_alarms_of_four_runs);
    tcase_add_test(tc, false_alarms_of_single_starts);
    tcase_add_test(tc, power_by_noise);
    tcase_add_test(tc, load_against_one_run);
    tcase_add_test(tc, little_load_against_one_run);
    tcase_add_test(tc, one_of_many_differs);
    tcase_add_test(tc, large_difference_despite_load);
    tcase_add_test(tc, upper_bound_of_a_rate);
    suite_add_tcase(s, tc);
    return s;
}
