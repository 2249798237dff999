/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/compare/referee.h"

#include <math.h>

#include "core/compare/timing/order.h"
#include "tests/support/check_main.h"

/* Appends one round of one or two pieces a run; false where the source is at its end.
 */
static bool take_round(const struct referee *referee, int round, int repeats,
                       struct cadre_piece *pieces, size_t *n)
{
    size_t order[2 * REFEREE_RUNS];
    size_t places = (referee->single ? 1 : 2) * referee->runs;
    cadre_round_order(referee->seed, round, referee->runs, !referee->single, order);
    for (size_t i = 0; i < places; i++) {
        struct cadre_piece *piece = &pieces[*n + i];
        *piece = (struct cadre_piece){
            .run = order[i],
            .round = round,
            .repeats_round = repeats,
            .place = (int)i,
            .half = i >= referee->runs,
            .bubble_fraction = NAN,
            .comm_exposed_s = NAN,
        };
        if (!referee->next(referee->source, piece))
            return false;
        if (order[i] == 1)
            piece->period_s /= referee->speedup;
    }
    *n += places;
    return true;
}

bool referee_experiment(const struct referee *referee, struct cadre_speed *out)
{
    struct cadre_piece pieces[2 * REFEREE_RUNS * REFEREE_ROUNDS];
    struct cadre_error err;
    struct cadre_speed_input input = {
        .piece = pieces, .n_runs = referee->runs, .margin = referee->margin};
    int rounds = cadre_rounds_wanted(referee->runs, CADRE_SPEED_ALPHA), last = rounds;
    ck_assert(referee->runs <= REFEREE_RUNS && rounds + rounds / 3 < REFEREE_ROUNDS);
    for (int round = 0; round <= rounds; round++)
        if (!take_round(referee, round, 0, pieces, &input.n_pieces))
            return false;
    ck_assert_msg(cadre_speed_judge(&input, out, &err) == CADRE_OK, "%s", err.text);
    for (size_t i = 0; i < out->n_rounds && last < rounds + rounds / 3; i++)
        if (out->round[i].disturbed &&
            !take_round(referee, ++last, out->round[i].round, pieces, &input.n_pieces))
            break;
    if (last == rounds)
        return true;
    cadre_speed_fini(out);
    ck_assert_msg(cadre_speed_judge(&input, out, &err) == CADRE_OK, "%s", err.text);
    return true;
}

bool referee_false_alarm(const struct cadre_speed *speed)
{
    bool alarm = speed->fastest >= 0;
    for (size_t i = 0; i < speed->n_runs; i++)
        alarm = alarm || speed->run[i].verdict == CADRE_SPEED_FASTER ||
                speed->run[i].verdict == CADRE_SPEED_SLOWER;
    return alarm;
}

bool referee_found(const struct cadre_speed *speed)
{
    return speed->run[1].verdict == CADRE_SPEED_FASTER;
}

bool referee_wrong(const struct cadre_speed *speed)
{
    bool wrong = speed->fastest >= 0 && speed->fastest != 1;
    for (size_t i = 0; i < speed->n_runs; i++)
        wrong = wrong || speed->run[i].verdict == CADRE_SPEED_SLOWER ||
                (i != 1 && speed->run[i].verdict == CADRE_SPEED_FASTER);
    return wrong;
}

/* P(X <= k) of a binomial distribution. */
static double binomial_cdf(int k, int n, double p)
{
    double sum = 0;
    for (int i = 0; i <= k; i++)
        sum += exp(lgamma(n + 1.0) - lgamma(i + 1.0) - lgamma(n - i + 1.0) +
                   i * log(p) + (n - i) * log1p(-p));
    return sum;
}

double referee_rate_high(int k, int n)
{
    double low = (double)k / n, high = 1;
    for (int i = 0; k < n && i < 60; i++) {
        double middle = 0.5 * (low + high);
        if (binomial_cdf(k, n, middle) > 0.025)
            low = middle;
        else
            high = middle;
    }
    return high;
}
