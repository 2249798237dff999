/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/finite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/rng.h"
#include "tests/support/check_main.h"
#include "tests/support/trainer.h"

#define LIMIT 1e-9
#define DIRECTIONS 4
#define ELEMENTS 4

struct cadre_model_config test_small_model(enum cadre_arch arch)
{
    bool gpt2 = arch == CADRE_ARCH_GPT2;
    return (struct cadre_model_config){
        .arch = arch,
        .layers = 2,
        .channels = 24,
        .heads = gpt2 ? 3 : 4,
        .kv_heads = gpt2 ? 3 : 2,
        .hidden = 40,
        .context = 11,
        .vocab = 26,
        .norm_eps = 1e-5,
        .rotary.theta = 10000.0,
        .dtype = CADRE_F64,
    };
}

/* One parameter's direction: random for all, or the unit vector of one element. */
struct direction {
    uint64_t key;
    int32_t param; /* -1: all */
    uint64_t element;
};

static double component(const struct test_trainer *t, const struct direction *d,
                        uint32_t param, uint64_t element)
{
    const struct cadre_param *p = &t->model->params[param];
    if (p->tied_to >= 0)
        return 0;
    if (d->param >= 0)
        return d->param == (int32_t)param && d->element == element;
    return cadre_rng_normal(cadre_rng_key(d->key, p->name), element);
}

static void move(struct test_trainer *t, const struct direction *d, double by)
{
    for (uint32_t i = 0; i < t->model->n_params; i++) {
        if (!t->values[i] || (d->param >= 0 && d->param != (int32_t)i))
            continue;
        double *value = t->values[i];
        for (uint64_t e = 0; e < test_trainer_count(t, i); e++)
            value[e] += by * component(t, d, i, e);
    }
}

/* Loss at x + by * d; the values are restored bit by bit. */
static double loss_at(struct test_trainer *t, double **origin,
                      const struct direction *d, double by)
{
    move(t, d, by);
    double loss = test_trainer_forward(t, t->B, t->T);
    for (uint32_t i = 0; i < t->model->n_params; i++)
        for (uint64_t e = 0; t->values[i] && e < test_trainer_count(t, i); e++)
            ((double *)t->values[i])[e] = origin[i][e];
    return loss;
}

static double difference(struct test_trainer *t, double **origin,
                         const struct direction *d, double h)
{
    double near = loss_at(t, origin, d, h) - loss_at(t, origin, d, -h);
    double far = loss_at(t, origin, d, 2 * h) - loss_at(t, origin, d, -2 * h);
    return (8 * near - far) / (12 * h);
}

/* Error of one direction, relative to the norm of the tested gradient. */
static double error_along(struct test_trainer *t, double **origin,
                          const struct direction *d, double h)
{
    double product = 0, square = 0;
    for (uint32_t i = 0; i < t->model->n_params; i++) {
        const double *grad = t->grads[i];
        if (!t->values[i] || (d->param >= 0 && d->param != (int32_t)i))
            continue;
        for (uint64_t e = 0; e < test_trainer_count(t, i); e++) {
            product += grad[e] * component(t, d, i, e);
            square += grad[e] * grad[e];
        }
    }
    ck_assert(isfinite(square) && square > 0);
    return fabs(difference(t, origin, d, h) - product) / sqrt(square);
}

void test_finite_differences(const struct cadre_model_config *config, int64_t B,
                             int64_t T)
{
    struct test_trainer t;
    double worst_direction = 0, worst_element = 0;
    test_trainer_open(&t, config, 0, 1, B, T);
    test_trainer_scramble(&t, 1, 0.3);
    test_trainer_random_batch(&t, 2, B, T);
    double **origin = calloc(t.model->n_params, sizeof *origin);
    for (uint32_t i = 0; i < t.model->n_params; i++) {
        uint64_t count = test_trainer_count(&t, i);
        origin[i] = calloc(count, sizeof **origin);
        for (uint64_t e = 0; t.values[i] && e < count; e++)
            origin[i][e] = test_trainer_get(&t, t.values[i], e);
    }
    test_trainer_forward(&t, B, T);
    test_trainer_backward(&t, false);

    for (uint64_t k = 0; k < DIRECTIONS; k++) {
        struct direction d = {.key = 100 + k, .param = -1};
        worst_direction = fmax(worst_direction, error_along(&t, origin, &d, 2e-5));
    }
    for (uint32_t i = 0; i < t.model->n_params; i++)
        for (uint64_t k = 0; t.values[i] && k < ELEMENTS; k++) {
            uint64_t key = cadre_rng_key(3, t.model->params[i].name);
            struct direction d = {
                .param = (int32_t)i,
                .element = cadre_rng_below(key, k, test_trainer_count(&t, i)),
            };
            worst_element = fmax(worst_element, error_along(&t, origin, &d, 1e-3));
        }
    printf("finite differences: direction %.2g, element %.2g\n", worst_direction,
           worst_element);
    ck_assert_double_lt(worst_direction, LIMIT);
    ck_assert_double_lt(worst_element, LIMIT);
    for (uint32_t i = 0; i < t.model->n_params; i++)
        free(origin[i]);
    free(origin);
    test_trainer_close(&t);
}
