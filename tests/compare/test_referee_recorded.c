/* SPDX-License-Identifier: Apache-2.0 */
/* The whole procedure on recorded machines: pieces of one program, one after the other,
 * are taken in order for those of several runs. tests/bench/record_aa records them. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/compare/timing/order.h"
#include "tests/compare/referee.h"
#include "tests/support/check_main.h"

enum { MOST_RECORDINGS = 16 };

struct recording {
    char name[64]; /* of the file */
    struct cadre_piece *piece;
    size_t n;
};

static struct recording recordings[MOST_RECORDINGS];
static size_t n_recordings;

static bool read_piece(const char *line, struct cadre_piece *piece)
{
    double begin, step, wall, own, foreign, steal, throttled;
    if (sscanf(line, "%lf %lf %lf %lf %lf %lf %lf", &begin, &step, &wall, &own,
               &foreign, &steal, &throttled) != 7)
        return false;
    *piece = (struct cadre_piece){
        .begin_s = begin / 1e3,
        .period_s = step / 1e6,
        .load = {.wall_s = wall / 1e3,
                 .own_s = own / 1e3,
                 .foreign_s = foreign / 1e3,
                 .steal_s = steal / 1e3,
                 .throttled_s = throttled / 1e3},
    };
    return step > 0 && wall > 0;
}

static void read_recording(const char *path, const char *name)
{
    char line[256];
    ck_assert_uint_lt(n_recordings, MOST_RECORDINGS);
    struct recording *recording = &recordings[n_recordings++];
    FILE *file = fopen(path, "re");
    ck_assert_msg(file != NULL, "%s cannot be read", path);
    snprintf(recording->name, sizeof recording->name, "%.63s", name);
    size_t said = 0; /* by the last line; a recording that was cut has none */
    int steps = 0; /* of a piece, by the first line */
    for (size_t room = 0; fgets(line, sizeof line, file);) {
        if (line[0] == '#') {
            (void)sscanf(line, "# pieces of %*s %d steps each", &steps);
            said = strtoul(line + 1, NULL, 10);
            continue;
        }
        if (recording->n == room) {
            room = 2 * room + 64;
            recording->piece =
                realloc(recording->piece, room * sizeof *recording->piece);
            ck_assert_ptr_nonnull(recording->piece);
        }
        ck_assert_msg(read_piece(line, &recording->piece[recording->n]),
                      "%s: piece %zu is '%s'", path, recording->n + 1, line);
        recording->piece[recording->n].timed_s =
            steps * recording->piece[recording->n].period_s;
        recording->n++;
    }
    fclose(file);
    ck_assert_int_gt(steps, 0);
    ck_assert_msg(recording->n > 0 && said == recording->n,
                  "%s says %zu pieces and has %zu", path, said, recording->n);
}

static void setup(void)
{
    const char *tree = getenv("CADRE_SRC");
    char folder[1024], path[1400];
    snprintf(folder, sizeof folder, "%s/tests/samples/referee", tree ? tree : "..");
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        const char *end = strrchr(entry->d_name, '.');
        if (!end || strcmp(end, ".txt") != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        read_recording(path, entry->d_name);
    }
    if (dir)
        closedir(dir);
}

static void teardown(void)
{
    for (size_t i = 0; i < n_recordings; i++)
        free(recordings[i].piece);
    n_recordings = 0;
}

#define NO_RECORDINGS                                                                  \
    "tests/samples/referee has no recordings; tests/bench/record_aa makes them"

struct place {
    const struct recording *recording;
    size_t at;
    bool blind; /* the machine does not tell of other processes */
};

static bool next_piece(void *source, struct cadre_piece *piece)
{
    struct place *place = source;
    if (place->at == place->recording->n)
        return false;
    const struct cadre_piece *recorded = &place->recording->piece[place->at++];
    piece->begin_s = recorded->begin_s;
    piece->period_s = recorded->period_s;
    piece->load = recorded->load;
    if (place->blind)
        piece->load.foreign_s = NAN;
    return true;
}

struct tally {
    int n, alarms, found, wrong, unranked;
};

/* How experiments are cut. */
struct trial {
    size_t runs;
    double margin, speedup;
    bool blind;
    int times;
};

/* The experiments begin at places spread over the recording; none where it is too short
 * for one. */
static struct tally cut(const struct recording *recording, const struct trial *trial)
{
    struct tally tally = {0};
    size_t rounds = (size_t)cadre_rounds_wanted(trial->runs, CADRE_SPEED_ALPHA);
    size_t need = 2 * trial->runs * (1 + rounds + rounds / 3);
    for (int i = 0; need <= recording->n && i < trial->times; i++) {
        struct place place = {.recording = recording,
                              .at = (recording->n - need) * (size_t)i /
                                    (size_t)(trial->times - 1),
                              .blind = trial->blind};
        struct referee referee = {.seed = (uint64_t)i,
                                  .runs = trial->runs,
                                  .margin = trial->margin,
                                  .speedup = trial->speedup,
                                  .next = next_piece,
                                  .source = &place};
        struct cadre_speed speed;
        ck_assert(referee_experiment(&referee, &speed));
        tally.n++;
        tally.alarms += referee_false_alarm(&speed);
        tally.found += referee_found(&speed);
        tally.wrong += referee_wrong(&speed);
        tally.unranked += speed.run[1].verdict == CADRE_SPEED_NOT_RANKED;
        cadre_speed_fini(&speed);
    }
    return tally;
}

static void show(const struct recording *recording, const struct trial *trial,
                 const struct tally *got)
{
    bool same = trial->speedup <= 1;
    printf("%-14s %4zu pieces, %zu runs%s: ", recording->name, recording->n,
           trial->runs, trial->blind ? ", load not known" : "");
    if (got->n == 0)
        printf("too few pieces\n");
    else if (same)
        printf("%.2f %% false alarms, not ranked %.1f %%\n",
               100.0 * got->alarms / got->n, 100.0 * got->unranked / got->n);
    else
        printf("%.0f %% found in %.1f %%, wrong %d, not ranked %.1f %%\n",
               100 * (trial->speedup - 1), 100.0 * got->found / got->n, got->wrong,
               100.0 * got->unranked / got->n);
}

/* Without a margin: with one there would be fewer. And also as on a machine that does
 * not tell what other processes do, where order alone protects. */
static void hold_false_alarms(size_t runs)
{
    if (n_recordings == 0)
        test_skip(NO_RECORDINGS);
    for (size_t i = 0; i < 2 * n_recordings; i++) {
        const struct recording *recording = &recordings[i / 2];
        struct trial trial = {.runs = runs,
                              .speedup = 1,
                              .blind = i % 2,
                              .times = test_lean() ? 400 : 2000};
        struct tally got = cut(recording, &trial);
        show(recording, &trial, &got);
        ck_assert_msg(got.n > 0 && referee_rate_high(got.alarms, got.n) <= 0.08,
                      "%s: %d false alarms of %d", recording->name, got.alarms, got.n);
    }
}

START_TEST(false_alarms_of_two_runs)
{
    hold_false_alarms(2);
}
END_TEST

START_TEST(false_alarms_of_four_runs)
{
    hold_false_alarms(4);
}
END_TEST

START_TEST(no_wrong_winner)
{
    static const double speedups[] = {1.02, 1.05, 1.1, 1.8};
    if (n_recordings == 0)
        test_skip(NO_RECORDINGS);
    for (size_t i = 0; i < 4 * n_recordings; i++) {
        const struct recording *recording = &recordings[i / 4];
        struct trial trial = {
            .runs = 2, .margin = 0.01, .speedup = speedups[i % 4], .times = 400};
        struct tally got = cut(recording, &trial);
        show(recording, &trial, &got);
        ck_assert_msg(got.n > 0 && got.wrong == 0, "%s: %d wrong of %d",
                      recording->name, got.wrong, got.n);
    }
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("referee_recorded");
    TCase *tc = tcase_create("referee_recorded");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, false_alarms_of_two_runs);
    tcase_add_test(tc, false_alarms_of_four_runs);
    tcase_add_test(tc, no_wrong_winner);
    suite_add_tcase(s, tc);
    return s;
}
