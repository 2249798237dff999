/* SPDX-License-Identifier: Apache-2.0 */
#include "core/model/experts.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/memory.h"

static int64_t experts_of(const struct cadre_unit *u)
{
    return u->model->config.experts;
}

static int64_t local_experts(const struct cadre_unit *u)
{
    return experts_of(u) / u->model->ep_size;
}

static bool spread(const struct cadre_unit *u)
{
    return u->model->ep_size > 1;
}

struct cadre_experts cadre_experts_carve(struct cadre_carver *carver)
{
    const struct cadre_unit *u = carver->unit;
    const enum cadre_unit_buffer saved = CADRE_UNIT_SAVED,
                                 grads = CADRE_UNIT_GRAD_OUTPUTS,
                                 scratch = CADRE_UNIT_SCRATCH;
    const int64_t E = experts_of(u), rows = u->M;
    struct cadre_experts e = {0};
    if (E == 0)
        return e;
    /* a wide element has room for an int32, two of them for a double */
    e.probs = cadre_carve_wide(carver, saved, u->N * E);
    e.gate = cadre_carve_wide(carver, saved, u->N);
    e.choice = cadre_carve_wide(carver, saved, u->N);
    e.order = cadre_carve_wide(carver, saved, u->N);
    e.counts = cadre_carve_wide(carver, saved, u->model->ep_size * E);
    e.out = cadre_carve(carver, saved, u->N * u->C);
    e.rows = cadre_carve(carver, saved, rows * u->C);
    e.drows = cadre_carve(carver, grads, rows * u->C);
    e.dlogits = cadre_carve(carver, grads, u->N * E);
    e.logits = cadre_carve(carver, scratch, u->N * E);
    e.dgate = cadre_carve_wide(carver, scratch, u->N);
    e.balance = cadre_carve_wide(carver, scratch, 2 * E);
    if (!spread(u))
        return e;
    e.received = cadre_carve(carver, scratch, rows * u->C);
    e.grouped = cadre_carve(carver, scratch, rows * u->C);
    return e;
}

/* ---- products ---- */

static struct cadre_linear linear(uint32_t weight, int64_t rows, int64_t in,
                                  int64_t out)
{
    return (struct cadre_linear){
        .weight = weight,
        .bias = (int32_t)weight + 1,
        .conv1d = true,
        .rows = rows,
        .in = in,
        .out = out,
        .ldx = in,
        .ldy = out,
    };
}

static struct cadre_linear router_of(const struct cadre_unit *u)
{
    struct cadre_linear router = linear(GPT2_ROUTER_W, u->N, u->C, experts_of(u));
    router.bias = -1;
    return router;
}

/* ---- which rows go where ---- */

/* Host memory of one call. */
struct dispatch {
    int32_t *counts; /* (ranks, E): each rank's rows for each expert */
    int32_t *choice, *order; /* (N) */
    uint64_t
        *mine; /* (ranks + 1): of own rows, elements that each rank's experts get */
    uint64_t *theirs; /* (ranks + 1): of received rows, elements from each rank */
    uint64_t *at; /* (ranks) */
};

static void dispatch_fini(struct dispatch *d)
{
    free(d->counts);
    free(d->mine);
}

static cadre_status dispatch_init(const struct cadre_unit *u, struct dispatch *d)
{
    const size_t R = (size_t)u->model->ep_size, N = (size_t)u->N;
    const size_t counts = R * (size_t)experts_of(u);
    *d = (struct dispatch){0};
    d->counts = cadre_calloc(counts + 2 * N, sizeof *d->counts);
    d->mine = cadre_calloc(3 * R + 2, sizeof *d->mine);
    if (!d->counts || !d->mine) {
        dispatch_fini(d);
        return CADRE_E_RESOURCE;
    }
    d->choice = d->counts + counts;
    d->order = d->choice + N;
    d->theirs = d->mine + R + 1;
    d->at = d->theirs + R + 1;
    return CADRE_OK;
}

static int32_t *counts_from(const struct cadre_unit *u, const struct dispatch *d,
                            int rank)
{
    return d->counts + rank * experts_of(u);
}

/* Rows that rank `from` has for the i-th expert of rank `home`. */
static int32_t count(const struct cadre_unit *u, const struct dispatch *d, int from,
                     int home, int64_t i)
{
    return counts_from(u, d, from)[home * local_experts(u) + i];
}

static int64_t expert_rows(const struct cadre_unit *u, const struct dispatch *d,
                           int64_t i)
{
    int64_t rows = 0;
    for (int r = 0; r < u->model->ep_size; r++)
        rows += count(u, d, r, u->model->ep_rank, i);
    return rows;
}

/* The slices of own and of received rows. */
static cadre_status find_slices(const struct cadre_unit *u, struct dispatch *d)
{
    const int R = u->model->ep_size, own = u->model->ep_rank;
    const uint64_t C = (uint64_t)u->C;
    for (int r = 0; r < R; r++) {
        d->mine[r + 1] = d->mine[r];
        d->theirs[r + 1] = d->theirs[r];
        for (int64_t i = 0; i < local_experts(u); i++) {
            d->mine[r + 1] += (uint64_t)count(u, d, own, r, i) * C;
            d->theirs[r + 1] += (uint64_t)count(u, d, r, own, i) * C;
        }
    }
    if (d->theirs[R] <= (uint64_t)u->M * C)
        return CADRE_OK;
    cadre_log(CADRE_LOG_ERROR, "model",
              "experts of rank %d get %llu rows of a micro-batch of %d ranks, expected "
              "at most %lld: the ranks run batches of different sizes",
              own, (unsigned long long)(d->theirs[R] / C), R, (long long)u->M);
    return CADRE_E_INTERNAL;
}

/* Own rows in the order of their experts, those of one expert as they were. */
static void sort_rows(const struct cadre_unit *u, struct dispatch *d)
{
    const int64_t E = experts_of(u);
    int32_t *mine = counts_from(u, d, u->model->ep_rank);
    for (int64_t row = 0; row < u->N; row++)
        mine[d->choice[row]]++;
    int32_t next = 0;
    for (int64_t e = 0; e < E; e++) { /* the count becomes the first position ... */
        int32_t n = mine[e];
        mine[e] = next;
        next += n;
    }
    for (int64_t row = 0; row < u->N; row++)
        d->order[mine[d->choice[row]]++] = (int32_t)row;
    for (int64_t e = E - 1; e > 0; e--) /* ... and from the end of each, the count */
        mine[e] -= mine[e - 1];
}

/* A simulated device has no values: the experts take rows in turn. */
static void choose_in_turn(const struct cadre_unit *u, struct dispatch *d)
{
    for (int64_t row = 0; row < u->N; row++)
        d->choice[row] = (int32_t)(row % experts_of(u));
}

static void count_in_turn(const struct cadre_unit *u, struct dispatch *d)
{
    const int64_t E = experts_of(u);
    for (int64_t i = 0; i < u->model->ep_size * E; i++)
        d->counts[i] = (int32_t)(u->N / E + (i % E < u->N % E ? 1 : 0));
}

static cadre_status count_rows(const struct cadre_unit *u,
                               const struct cadre_experts *e, struct dispatch *d)
{
    const size_t rows = (size_t)u->N * sizeof *d->choice;
    const size_t E = (size_t)experts_of(u), R = (size_t)u->model->ep_size;
    CADRE_TRY(u->ops->to_host(u->device, d->choice, e->choice, rows));
    if (u->ops->simulated)
        choose_in_turn(u, d);
    sort_rows(u, d);
    CADRE_TRY(u->ops->to_device(u->device, e->order, d->order, rows));
    if (spread(u))
        CADRE_TRY(u->pass->exchange_counts(u->pass->hook_arg,
                                           counts_from(u, d, u->model->ep_rank),
                                           d->counts, (int64_t)E));
    CADRE_TRY(
        u->ops->to_device(u->device, e->counts, d->counts, R * E * sizeof *d->counts));
    return find_slices(u, d);
}

static cadre_status read_counts(const struct cadre_unit *u,
                                const struct cadre_experts *e, struct dispatch *d)
{
    const size_t n = (size_t)u->model->ep_size * (size_t)experts_of(u);
    CADRE_TRY(u->ops->to_host(u->device, d->counts, e->counts, n * sizeof *d->counts));
    if (u->ops->simulated)
        count_in_turn(u, d);
    return find_slices(u, d);
}

/* ---- rows between ranks ---- */

/* Received rows, by rank, to those of the experts, by expert; or the other way. */
static cadre_status regroup(const struct cadre_unit *u, struct dispatch *d,
                            const void *from, void *to, bool by_expert)
{
    const int R = u->model->ep_size;
    uint64_t at = 0; /* of the rows by expert */
    memcpy(d->at, d->theirs, (size_t)R * sizeof *d->at);
    for (int64_t i = 0; i < local_experts(u); i++)
        for (int r = 0; r < R; r++) {
            uint64_t n = (uint64_t)count(u, d, r, u->model->ep_rank, i);
            n *= (uint64_t)u->C;
            int64_t in = (int64_t)(by_expert ? d->at[r] : at);
            int64_t out = (int64_t)(by_expert ? at : d->at[r]);
            if (n > 0)
                CADRE_TRY(u->ops->copy(u->device, cadre_unit_at(u, to, out),
                                       cadre_unit_at(u, from, in),
                                       (size_t)n * u->element));
            d->at[r] += n;
            at += n;
        }
    return CADRE_OK;
}

/* rows = those that this rank's experts get of every rank's `packed`. One rank: packed
 * is rows. */
static cadre_status to_experts(const struct cadre_unit *u,
                               const struct cadre_experts *e, struct dispatch *d,
                               bool backward, const void *packed, void *rows)
{
    if (!spread(u))
        return CADRE_OK;
    CADRE_TRY(u->pass->redistribute_rows(
        u->pass->hook_arg, backward ? CADRE_POINT_EXPERT_OUT : CADRE_POINT_EXPERT_IN,
        backward, packed, d->mine, e->received, d->theirs));
    return regroup(u, d, e->received, rows, true);
}

/* packed = own rows as every rank's experts have them in `rows`. One rank: rows is
 * packed. */
static cadre_status from_experts(const struct cadre_unit *u,
                                 const struct cadre_experts *e, struct dispatch *d,
                                 bool backward, const void *rows, void *packed)
{
    if (!spread(u))
        return CADRE_OK;
    CADRE_TRY(regroup(u, d, rows, e->received, false));
    return u->pass->redistribute_rows(
        u->pass->hook_arg, backward ? CADRE_POINT_EXPERT_IN : CADRE_POINT_EXPERT_OUT,
        backward, e->received, d->theirs, packed, d->mine);
}

/* ---- experts ---- */

/* One expert of this rank with the rows that it gets. */
struct expert {
    struct cadre_linear fc, out;
    int64_t rows;
    int64_t x, h; /* first element of its rows in (S, C), in (S, F) */
};

/* The i-th, after the one before it. */
static struct expert expert_of(const struct cadre_unit *u, const struct dispatch *d,
                               int64_t i, const struct expert *before)
{
    const int64_t index = u->model->ep_rank * local_experts(u) + i;
    const uint32_t first = GPT2_EXPERTS + (uint32_t)index * GPT2_EXPERT_PARAMS;
    struct expert x = {.rows = expert_rows(u, d, i)};
    x.fc = linear(first, x.rows, u->C, u->F);
    x.out = linear(first + GPT2_OUT_W - GPT2_FC_W, x.rows, u->F, u->C);
    x.x = before ? before->x + before->rows * u->C : 0;
    x.h = before ? before->h + before->rows * u->F : 0;
    return x;
}

static cadre_status run_experts(const struct cadre_unit *u,
                                const struct cadre_experts *e,
                                const struct cadre_block *b, const struct dispatch *d,
                                void *out)
{
    struct expert x;
    for (int64_t i = 0; i < local_experts(u); i++) {
        x = expert_of(u, d, i, i ? &x : NULL);
        void *act = cadre_unit_at(u, b->act, x.h);
        if (x.rows == 0)
            continue;
        CADRE_TRY(cadre_linear_fwd(u, &x.fc, cadre_unit_at(u, e->rows, x.x), act,
                                   CADRE_EPILOGUE_BIAS_GELU,
                                   cadre_unit_at(u, b->gate, x.h)));
        CADRE_TRY(cadre_linear_fwd(u, &x.out, act, cadre_unit_at(u, out, x.x),
                                   CADRE_EPILOGUE_BIAS, NULL));
    }
    return CADRE_OK;
}

/* dx (S, C) from drows. */
static cadre_status run_back(const struct cadre_unit *u, const struct cadre_experts *e,
                             const struct cadre_block *b, const struct dispatch *d,
                             void *dx)
{
    struct expert x;
    for (int64_t i = 0; i < local_experts(u); i++) {
        x = expert_of(u, d, i, i ? &x : NULL);
        void *dact = cadre_unit_at(u, b->dgate, x.h);
        if (x.rows == 0)
            continue;
        CADRE_TRY(cadre_linear_bwd_gelu(u, &x.out, cadre_unit_at(u, e->drows, x.x),
                                        cadre_unit_at(u, b->gate, x.h), dact));
        CADRE_TRY(cadre_linear_bwd_input(u, &x.fc, dact, cadre_unit_at(u, dx, x.x), 0));
    }
    return CADRE_OK;
}

static cadre_status no_gradient(const struct cadre_unit *u, uint32_t position)
{
    const struct cadre_pass *pass = u->pass;
    const uint32_t param = u->first + position;
    const uint64_t n = cadre_shape_count(&u->model->params[param].local);
    void *dst;
    int beta;
    CADRE_TRY(pass->grad_begin(pass->hook_arg, param, &dst, &beta));
    if (!beta)
        CADRE_TRY(u->ops->zero(u->device, dst, (size_t)n * u->wide));
    return pass->grad_end(pass->hook_arg, param);
}

/* Every parameter has a gradient in every micro-batch, and in one order, which is that
 * of collectives. */
static cadre_status no_gradients(const struct cadre_unit *u,
                                 const struct cadre_linear *linear)
{
    CADRE_TRY(no_gradient(u, linear->weight));
    return no_gradient(u, (uint32_t)linear->bias);
}

static cadre_status add_gradients(const struct cadre_unit *u,
                                  const struct cadre_experts *e,
                                  const struct cadre_block *b, const struct expert *x)
{
    if (x->rows == 0) {
        CADRE_TRY(no_gradients(u, &x->out));
        return no_gradients(u, &x->fc);
    }
    CADRE_TRY(cadre_linear_bwd_weight(u, &x->out, cadre_unit_at(u, b->act, x->h),
                                      cadre_unit_at(u, e->drows, x->x)));
    return cadre_linear_bwd_weight(u, &x->fc, cadre_unit_at(u, e->rows, x->x),
                                   cadre_unit_at(u, b->dgate, x->h));
}

/* ---- the router ---- */

static struct cadre_route route_of(const struct cadre_unit *u,
                                   const struct cadre_experts *e)
{
    return (struct cadre_route){
        .dtype = u->dtype,
        .rows = u->N,
        .experts = experts_of(u),
        .logits = e->logits,
        .probs = e->probs,
        .gate = e->gate,
        .choice = e->choice,
        .dgate = e->dgate,
        .balance = e->balance,
        .dlogits = e->dlogits,
    };
}

/* The balance loss of these N rows, balance * E * sum of f_e P_e, f_e the fraction of
 * rows that chose expert e and P_e its mean probability (Fedus et al., equation 4). It
 * weighs as much as the loss of the micro-batch and is no part of the reported one. */
static cadre_status put_balance(const struct cadre_unit *u,
                                const struct cadre_experts *e, const struct dispatch *d)
{
    const struct cadre_model_config *config = &u->model->config;
    const int64_t E = config->experts;
    const int64_t targets = config->classes > 0 ? u->B : u->N;
    const int32_t *mine = counts_from(u, d, u->model->ep_rank);
    const double weight = u->pass->loss_seed * (double)targets *
                          config->expert_balance * (double)E / (double)u->N;
    double balance[CADRE_MAX_EXPERTS];
    for (int64_t i = 0; i < E; i++)
        balance[i] = weight * (double)mine[i] / (double)u->N;
    return u->ops->to_device(u->device, e->balance, balance,
                             (size_t)E * sizeof *balance);
}

static struct cadre_rows rows_of(const struct cadre_unit *u,
                                 const struct cadre_experts *e, const void *weight,
                                 const void *x, void *out)
{
    return (struct cadre_rows){
        .dtype = u->dtype,
        .rows = u->N,
        .channels = u->C,
        .order = e->order,
        .weight = weight,
        .x = x,
        .y = e->out,
        .out = out,
        .dots = e->dgate,
    };
}

/* ---- passes ---- */

static cadre_status forward(const struct cadre_unit *u, const struct cadre_experts *e,
                            const struct cadre_block *b, struct dispatch *d, void *y)
{
    const struct cadre_linear router = router_of(u);
    const struct cadre_route route = route_of(u, e);
    void *packed = spread(u) ? b->partial : e->rows;
    void *out = spread(u) ? e->grouped : e->out;
    const struct cadre_rows take = rows_of(u, e, NULL, b->norm2, packed);
    const struct cadre_rows put = rows_of(u, e, e->gate, e->out, y);
    CADRE_TRY(
        cadre_linear_fwd(u, &router, b->norm2, e->logits, CADRE_EPILOGUE_NONE, NULL));
    CADRE_TRY(u->ops->route_fwd(u->device, &route));
    CADRE_TRY(count_rows(u, e, d));
    CADRE_TRY(u->ops->rows_take(u->device, &take));
    CADRE_TRY(to_experts(u, e, d, false, packed, e->rows));
    CADRE_TRY(run_experts(u, e, b, d, out));
    CADRE_TRY(from_experts(u, e, d, false, out, e->out));
    return u->ops->rows_put(u->device, &put);
}

static cadre_status backward_input(const struct cadre_unit *u,
                                   const struct cadre_experts *e,
                                   const struct cadre_block *b, struct dispatch *d,
                                   void *dx)
{
    const struct cadre_linear router = router_of(u);
    const struct cadre_route route = route_of(u, e);
    void *packed = spread(u) ? b->partial : e->drows;
    void *back = spread(u) ? e->grouped : b->partial;
    const struct cadre_rows take = rows_of(u, e, e->gate, b->dy, packed);
    const struct cadre_rows put = rows_of(u, e, NULL, b->partial, dx);
    CADRE_TRY(read_counts(u, e, d));
    CADRE_TRY(u->ops->rows_take(u->device, &take));
    CADRE_TRY(u->ops->rows_dot(u->device, &take)); /* of b->dy and e->out */
    CADRE_TRY(to_experts(u, e, d, true, packed, e->drows));
    CADRE_TRY(run_back(u, e, b, d, back));
    CADRE_TRY(from_experts(u, e, d, true, back, b->partial));
    CADRE_TRY(u->ops->rows_put(u->device, &put));
    CADRE_TRY(put_balance(u, e, d));
    CADRE_TRY(u->ops->route_bwd(u->device, &route));
    return cadre_linear_bwd_input(u, &router, e->dlogits, dx, 1);
}

cadre_status cadre_experts_forward(const struct cadre_unit *unit,
                                   const struct cadre_experts *experts,
                                   const struct cadre_block *b, void *y)
{
    struct dispatch d;
    CADRE_TRY(dispatch_init(unit, &d));
    cadre_status rc = forward(unit, experts, b, &d, y);
    dispatch_fini(&d);
    return rc;
}

cadre_status cadre_experts_backward_input(const struct cadre_unit *unit,
                                          const struct cadre_experts *experts,
                                          const struct cadre_block *b, void *dx)
{
    struct dispatch d;
    CADRE_TRY(dispatch_init(unit, &d));
    cadre_status rc = backward_input(unit, experts, b, &d, dx);
    dispatch_fini(&d);
    return rc;
}

cadre_status cadre_experts_backward_weight(const struct cadre_unit *unit,
                                           const struct cadre_experts *experts,
                                           const struct cadre_block *b)
{
    const struct cadre_linear router = router_of(unit);
    struct dispatch d;
    struct expert x;
    CADRE_TRY(cadre_linear_bwd_weight(unit, &router, b->norm2, experts->dlogits));
    CADRE_TRY(dispatch_init(unit, &d));
    cadre_status rc = read_counts(unit, experts, &d);
    for (int64_t i = 0; rc == CADRE_OK && i < local_experts(unit); i++) {
        x = expert_of(unit, &d, i, i ? &x : NULL);
        rc = add_gradients(unit, experts, b, &x);
    }
    dispatch_fini(&d);
    return rc;
}
