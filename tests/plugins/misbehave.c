/* SPDX-License-Identifier: Apache-2.0 */
/* Does one thing wrong that ends or stops a process, in a callback of choice, on one
 * rank and from one step on; else it is an observer that does nothing. What happens
 * while the library is opened is chosen by CADRE_TEST_MISBEHAVE: the options are not
 * known yet. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cadre/helpers.h>

struct cadre_self {
    const char *where, *fault, *mark;
    int64_t rank, step;
    uint32_t own_rank;
    uint64_t now; /* the step; 0 before the first */
    int bound;
};

static void *exit_from_a_thread(void *arg)
{
    (void)arg;
    exit(0);
}

static cadre_status commit(const char *fault)
{
    /* a page that nothing is mapped to: of NULL a sanitizer says more */
    volatile int *volatile nothing = (volatile int *)(uintptr_t)64;
    pthread_t thread;
    if (strcmp(fault, "exit") == 0)
        exit(0);
    if (strcmp(fault, "exit-3") == 0)
        exit(3);
    if (strcmp(fault, "quit") == 0)
        _exit(0);
    if (strcmp(fault, "segfault") == 0)
        *nothing = 1;
    if (strcmp(fault, "abort") == 0)
        abort();
    if (strcmp(fault, "leave") == 0)
        pthread_exit(NULL);
    if (strcmp(fault, "thread") == 0 &&
        pthread_create(&thread, NULL, exit_from_a_thread, NULL) == 0)
        pthread_join(thread, NULL);
    while (strcmp(fault, "spin") == 0)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    return CADRE_E_INTERNAL; /* "silent": and no reason given */
}

/* Is it time? */
static int is_due(const struct cadre_self *self, const char *callback)
{
    return strcmp(self->where, callback) == 0 &&
           (int64_t)self->own_rank == self->rank && (int64_t)self->now >= self->step;
}

static cadre_status maybe(const struct cadre_self *self, const char *callback)
{
    FILE *mark;
    if (!is_due(self, callback))
        return CADRE_OK;
    if (self->mark[0] && (mark = fopen(self->mark, "w")))
        fclose(mark);
    return commit(self->fault);
}

__attribute__((constructor)) static void opened(void)
{
    const char *fault = getenv("CADRE_TEST_MISBEHAVE");
    if (fault)
        commit(fault);
}

static cadre_status create(const struct cadre_create *c, struct cadre_self **out)
{
    struct cadre_self *self;
    const struct cadre_values *values = c->values;
    CADRE_TRY(cadre_self_create(c->host, NULL, sizeof *self, &self));
    self->where = values->str(values->h, "where");
    self->fault = values->str(values->h, "fault");
    self->mark = values->str(values->h, "mark");
    self->rank = values->i64(values->h, "rank");
    self->step = values->i64(values->h, "step");
    if (strcmp(self->where, "create") == 0) {
        cadre_status rc = commit(self->fault); /* the rank is not known yet */
        free(self);
        return rc;
    }
    *out = self;
    return CADRE_OK;
}

static cadre_status plan(struct cadre_self *self, const struct cadre_plan *p)
{
    self->own_rank = p->rank;
    self->now = strcmp(self->where, "plan") == 0 ? (uint64_t)self->step : 0;
    CADRE_TRY(p->use_axis(p->h, p->axis, CADRE_BATCH_SAME));
    return maybe(self, "plan");
}

static cadre_status bind(struct cadre_self *self, const struct cadre_bind *b)
{
    (void)b;
    self->bound = 1;
    self->now = strcmp(self->where, "bind") == 0 ? (uint64_t)self->step : 0;
    return maybe(self, "bind");
}

static cadre_status step(struct cadre_self *self, const struct cadre_step *in,
                         const struct cadre_next *next)
{
    self->now = in->step;
    if (is_due(self, "abort"))
        return CADRE_E_INTERNAL; /* which leads there */
    CADRE_TRY(maybe(self, "step"));
    return next->run(next->h, in);
}

static cadre_status on_block(struct cadre_self *self, const struct cadre_block_ev *ev)
{
    (void)ev;
    return maybe(self, "on_block");
}

static cadre_status on_grad(struct cadre_self *self, struct cadre_grad_ev *ev)
{
    (void)ev;
    return maybe(self, "on_grad");
}

static cadre_status at_sync(struct cadre_self *self, const struct cadre_sync *ev)
{
    return ev->what == CADRE_SYNC_GRADS ? maybe(self, "sync") : CADRE_OK;
}

static cadre_status state(struct cadre_self *self, const struct cadre_state_sink *sink)
{
    (void)sink;
    return maybe(self, "state");
}

static void at_abort(struct cadre_self *self, const struct cadre_end *end)
{
    (void)end;
    maybe(self, "abort");
}

/* Of the instance that has trained, not of those that were only planned. */
static void destroy(struct cadre_self *self, const struct cadre_end *end)
{
    (void)end;
    if (self->bound)
        maybe(self, "destroy");
    free(self);
}

static const struct cadre_option options[] = {
    CADRE_OPTION(.type = CADRE_OPTION_ENUM, .key = "where", .def = "nowhere",
                 .choices = "nowhere, create, plan, bind, step, on_block, on_grad, "
                            "sync, state, abort, destroy",
                 .help = "the callback"),
    CADRE_OPTION(.type = CADRE_OPTION_ENUM, .key = "fault", .def = "silent",
                 .choices = "silent, exit, exit-3, quit, segfault, abort, leave, "
                            "thread, spin",
                 .help = "what it does there"),
    CADRE_OPTION(.type = CADRE_OPTION_STR, .key = "mark", .def = "",
                 .help = "a file that it writes before"),
    CADRE_OPTION(.type = CADRE_OPTION_I64, .key = "rank", .def = "1",
                 .help = "on which rank"),
    CADRE_OPTION(.type = CADRE_OPTION_I64, .key = "step", .def = "2",
                 .help = "from which step on"),
};

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = bind,
    .step = step,
    .sync = at_sync,
    .on_block = on_block,
    .on_grad = on_grad,
    .state = state,
    .abort = at_abort,
    .destroy = destroy,
};

CADRE_PLUGIN(.role = CADRE_ROLE_OBSERVER, .id = "org.cadre.test.misbehave",
             .version = "0.1.0", .summary = "ends or stops its process",
             .axis = "misbehave", CADRE_OPTIONS(options), .ops = &ops)
