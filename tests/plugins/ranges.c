/* SPDX-License-Identifier: Apache-2.0 */
/* Asks for unequal numbers of micro-batches a rank: rank r of a strategy beside it runs
 * [first[r], first[r + 1]). */
#include <cadre/helpers.h>

#define MAX_RANKS 16

struct cadre_self {
    const struct cadre_host *host;
    const char *first;
};

static cadre_status create(const struct cadre_create *c, struct cadre_self **out)
{
    CADRE_TRY(cadre_self_create(c->host, NULL, sizeof **out, out));
    (*out)->host = c->host;
    (*out)->first = c->values->str(c->values->h, "first");
    return CADRE_OK;
}

static cadre_status plan(struct cadre_self *s, const struct cadre_plan *p)
{
    uint64_t first[MAX_RANKS + 1] = {0};
    const char *text = s->first;
    uint32_t n = 0;
    for (char *end; *text; text = end + strspn(end, " ,")) {
        uint64_t value = strtoull(text, &end, 10);
        if (end == text || n > p->ranks || n > MAX_RANKS)
            return cadre_refuse(s->host, CADRE_E_INVALID,
                                "ranges.first = %s, expected numbers, one more than "
                                "data ranks",
                                s->first);
        first[n++] = value;
    }
    return n == 0 ? CADRE_OK
                  : p->microbatch_map(p->h, CADRE_MICROBATCHES_RANGES, first);
}

static cadre_status bind(struct cadre_self *s, const struct cadre_bind *at)
{
    (void)s, (void)at;
    return CADRE_OK;
}

static cadre_status sync(struct cadre_self *s, const struct cadre_sync *at)
{
    (void)s, (void)at;
    return CADRE_OK;
}

static void destroy(struct cadre_self *s, const struct cadre_end *end)
{
    (void)end;
    free(s);
}

static const struct cadre_option options[] = {
    CADRE_OPTION(.type = CADRE_OPTION_STR, .key = "first", .def = "0 3 4",
                 .help = "first micro-batch of each rank, then the number of all"),
};

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = bind,
    .sync = sync,
    .destroy = destroy,
};

CADRE_PLUGIN(.role = CADRE_ROLE_OBSERVER, .id = "org.cadre.test.ranges",
             .version = "0.1.0", .summary = "unequal numbers of micro-batches a rank",
             .axis = "ranges", CADRE_OPTIONS(options), .ops = &ops)
