/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of one player: what its plugin says, checked as <cadre/plan.h> states it. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/check/rehearsal/private.h"

static cadre_status in_plan(struct cadre_player *p, const char *what)
{
    return play_enter(p, IN_PLAN, what);
}

static bool is_own_axis(const struct cadre_player *p, const char *axis)
{
    return axis && strcmp(axis, p->all->plugin->desc.axis ? p->all->plugin->desc.axis
                                                          : "") == 0;
}

/* What is equal on all ranks, in the order in which it is said. */
static void agree(struct cadre_player *p, const char *what, const char *text,
                  uint64_t number)
{
    p->plan.hash = cadre_hash_of(what, strlen(what), p->plan.hash ^ number);
    p->plan.hash = cadre_hash_of(text, strlen(text), p->plan.hash);
}

static cadre_status use_axis(void *h, const char *axis, uint32_t batch)
{
    struct cadre_player *p = h;
    CADRE_TRY(in_plan(p, "plan.use_axis"));
    if (!axis)
        return play_refuse(p, CADRE_RULE_ARGUMENT,
                           "use_axis without the name of an axis");
    if (!is_own_axis(p, axis))
        return play_beyond(p, "second axis");
    if (batch == CADRE_BATCH_FREE || batch < CADRE_BATCH_SPLIT ||
        batch > CADRE_BATCH_FREE)
        return play_refuse(p, CADRE_RULE_ARGUMENT, "use_axis with the batch kind %u",
                           batch);
    p->plan.batch = batch;
    p->plan.time = batch == CADRE_BATCH_TIME;
    agree(p, "axis", axis, batch);
    return CADRE_OK;
}

static bool is_own_effect(const char *effect)
{
    const char *dot = strchr(effect, '.');
    return dot && strchr(dot + 1, '.');
}

static cadre_status note_effect(struct cadre_player *p, const char *effect,
                                uint32_t flags)
{
    struct plan_result *plan = &p->plan;
    if (strcmp(effect, "schedule.order") == 0)
        plan->schedule = true;
    else if (strcmp(effect, "device.place") == 0)
        plan->places_device = true;
    else if (strcmp(effect, "param.place") == 0)
        plan->param_place = true;
    else if (strcmp(effect, "opt.shard") == 0)
        plan->opt_shard = true;
    else if (strcmp(effect, "act.complete") == 0)
        plan->completes = true;
    else if (strcmp(effect, "seq.shard") == 0)
        plan->sharded_rows = true;
    else if (strcmp(effect, "wire.codec") == 0)
        plan->codec = true;
    else if (strcmp(effect, "expert.shard") == 0)
        return play_beyond(p, "expert layers");
    else if (strcmp(effect, "param.diverges") == 0)
        plan->diverges = true, plan->keeps = (flags & CADRE_CLAIM_KEEP_REPLICAS) != 0;
    else if (strcmp(effect, "time.shard") != 0 && !is_own_effect(effect))
        return play_refuse(
            p, CADRE_RULE_EFFECT,
            "claims the effect '%s', which <cadre/plan.h> does not have; one "
            "of your own has two dots, com.vendor.thing",
            effect);
    return CADRE_OK;
}

static cadre_status claim(void *h, const char *effect, const char *axis, uint32_t flags)
{
    struct cadre_player *p = h;
    CADRE_TRY(in_plan(p, "plan.claim"));
    if (!effect || strlen(effect) >= CADRE_EFFECT_CHARS)
        return play_refuse(p, CADRE_RULE_ARGUMENT,
                           "claim of an effect that is NULL or longer "
                           "than CADRE_EFFECT_CHARS");
    if (axis && !is_own_axis(p, axis))
        return play_beyond(p, "second axis");
    if (++p->plan.n_claims > CADRE_MAX_CLAIMS)
        return play_refuse(p, CADRE_RULE_ARGUMENT, "more than %d claims",
                           CADRE_MAX_CLAIMS);
    CADRE_TRY(note_effect(p, effect, flags));
    agree(p, effect, axis ? axis : "", flags);
    return CADRE_OK;
}

static cadre_status reduces(void *h, const char *axis, uint32_t level)
{
    struct cadre_player *p = h;
    CADRE_TRY(in_plan(p, "plan.reduces"));
    if (!axis)
        return play_refuse(p, CADRE_RULE_ARGUMENT,
                           "reduces without the name of an axis");
    if (!is_own_axis(p, axis))
        return play_beyond(p, "second axis");
    if (!p->all->ops->on_grad)
        return play_refuse(p, CADRE_RULE_EFFECT,
                           "says that it reduces, and has no on_grad in its ops");
    p->plan.reduces = true;
    p->plan.level = level;
    agree(p, "reduces", axis, level);
    return CADRE_OK;
}

static cadre_status by_design(void *h, const char *equal)
{
    struct cadre_player *p = h;
    CADRE_TRY(in_plan(p, "plan.by_design"));
    if (!equal || !*equal)
        return play_refuse(
            p, CADRE_RULE_ARGUMENT,
            "by_design without a setting under which the training is that of "
            "the other strategies");
    p->plan.by_design = true;
    snprintf(p->plan.equal, sizeof p->plan.equal, "%s", equal);
    agree(p, "by_design", equal, 0);
    return CADRE_OK;
}

static cadre_status microbatch_map(void *h, uint32_t map, const uint64_t *first)
{
    struct cadre_player *p = h;
    int ranks = p->all->ranks;
    CADRE_TRY(in_plan(p, "plan.microbatch_map"));
    if (map < CADRE_MICROBATCHES_BLOCK || map > CADRE_MICROBATCHES_RANGES)
        return play_refuse(p, CADRE_RULE_ARGUMENT, "microbatch_map %u", map);
    p->plan.map = map;
    agree(p, "map", "", map);
    if (map != CADRE_MICROBATCHES_RANGES)
        return CADRE_OK;
    if (!first)
        return play_refuse(p, CADRE_RULE_ARGUMENT,
                           "microbatch_map RANGES without ranges");
    memcpy(p->plan.first, first, ((size_t)ranks + 1) * sizeof *first);
    for (int r = 0; r < ranks; r++)
        if (first[0] != 0 || first[ranks] != p->all->microbatches ||
            first[r] > first[r + 1])
            return play_refuse(
                p, CADRE_RULE_ARGUMENT,
                "microbatch_map: %d ascending entries from 0 to %llu expected",
                ranks + 1, (unsigned long long)p->all->microbatches);
    p->plan.hash =
        cadre_hash_of(first, ((size_t)ranks + 1) * sizeof *first, p->plan.hash);
    return CADRE_OK;
}

static cadre_status period(void *h, uint64_t n)
{
    struct cadre_player *p = h;
    CADRE_TRY(in_plan(p, "plan.period"));
    if (n == 0)
        return play_refuse(p, CADRE_RULE_ARGUMENT, "a period of 0 steps");
    p->plan.period = n;
    agree(p, "period", "", n);
    return CADRE_OK;
}

/* ---- schedules ---- */

static cadre_status chunk(void *h, uint32_t begin, uint32_t end, uint32_t live,
                          uint32_t flags)
{
    struct cadre_player *p = h;
    CADRE_TRY(in_plan(p, "plan.chunk"));
    if (p->all->plugin->desc.role != CADRE_ROLE_SCHEDULE)
        return play_refuse(p, CADRE_RULE_EFFECT,
                           "chunk of a plugin that is no SCHEDULE");
    if (begin >= end || end > UNITS || live == 0 || p->plan.n_chunks == CHUNKS)
        return play_refuse(
            p, CADRE_RULE_ARGUMENT,
            "chunk %u of units [%u, %u), live %u: the model has %u units",
            p->plan.n_chunks, begin, end, live, UNITS);
    p->plan.chunk[p->plan.n_chunks].begin = begin;
    p->plan.chunk[p->plan.n_chunks].end = end;
    p->plan.chunk[p->plan.n_chunks].live = live;
    p->plan.chunk[p->plan.n_chunks].flags = flags;
    p->plan.n_chunks++;
    return CADRE_OK;
}

static cadre_status live_blocks(void *h, uint32_t n)
{
    struct cadre_player *p = h;
    CADRE_TRY(in_plan(p, "plan.live_blocks"));
    p->plan.live_blocks = n;
    return CADRE_OK;
}

/* ---- storage ---- */

static cadre_status place_range(void *h, cadre_param_id param, uint32_t kind,
                                uint64_t begin, uint64_t count, uint32_t space)
{
    struct cadre_player *p = h;
    CADRE_TRY(in_plan(p, "plan.place_range"));
    if (param >= ENTRIES || kind < CADRE_KIND_PARAM || kind > CADRE_KIND_OPT)
        return play_refuse(p, CADRE_RULE_ARGUMENT, "place_range of entry %u, kind %u",
                           param, kind);
    struct entry *entry = &p->entry[param];
    if (begin > entry->count || count > entry->count - begin)
        return play_refuse(
            p, CADRE_RULE_ARGUMENT,
            "place_range: [%llu, %llu) of entry '%s', which has %llu elements",
            (unsigned long long)begin, (unsigned long long)begin + count,
            play_entry_name(param), (unsigned long long)entry->count);
    if (kind == CADRE_KIND_OPT && count &&
        (begin % RANGE_UNIT ||
         ((begin + count) % RANGE_UNIT && begin + count != entry->count)))
        return play_refuse(
            p, CADRE_RULE_ARGUMENT,
            "place_range: the OPT range [%llu, %llu) of '%s' is no whole "
            "number of range_unit (%u)",
            (unsigned long long)begin, (unsigned long long)begin + count,
            play_entry_name(param), RANGE_UNIT);
    if (kind != CADRE_KIND_OPT && space != CADRE_SPACE_DEVICE)
        return play_refuse(
            p, CADRE_RULE_ARGUMENT,
            "place_range: only OPT may lie in another space than the device");
    entry->part[kind] = (struct part){true, begin, count, space, NULL};
    return CADRE_OK;
}

static cadre_status memory(void *h, uint32_t space, uint64_t bytes, const char *tag)
{
    struct cadre_player *p = h;
    CADRE_TRY(in_plan(p, "plan.memory"));
    if (!tag || strlen(tag) >= CADRE_TAG_CHARS || space > CADRE_SPACE_HOST)
        return play_refuse(p, CADRE_RULE_ARGUMENT,
                           "memory without a tag, or of space %u", space);
    for (uint32_t i = 0; i < p->plan.n_tags; i++)
        if (strcmp(p->plan.tag[i].name, tag) == 0) {
            p->plan.tag[i].planned += bytes;
            return CADRE_OK;
        }
    if (p->plan.n_tags == sizeof p->plan.tag / sizeof p->plan.tag[0])
        return play_beyond(p, "room for that many tags of memory");
    struct tag *added = &p->plan.tag[p->plan.n_tags++];
    *added = (struct tag){.space = space, .planned = bytes};
    memcpy(added->name, tag, strlen(tag) + 1);
    return CADRE_OK;
}

static cadre_status train(void *h, cadre_param_id param, uint32_t on)
{
    struct cadre_player *p = h;
    CADRE_TRY(in_plan(p, "plan.train"));
    if (param >= ENTRIES)
        return play_refuse(p, CADRE_RULE_ARGUMENT, "train of entry %u", param);
    p->entry[param].frozen |= on == 0;
    agree(p, "train", "", (uint64_t)param << 1 | (on != 0));
    return CADRE_OK;
}

static cadre_status store(void *h, cadre_param_id param, uint32_t form)
{
    struct cadre_player *p = h;
    CADRE_TRY(in_plan(p, "plan.store"));
    if (param >= ENTRIES)
        return play_refuse(p, CADRE_RULE_ARGUMENT, "store of entry %u", param);
    return form == CADRE_FORM_PLAIN ? CADRE_OK : play_beyond(p, "stored forms");
}

static cadre_status product_axis(void *h, const char *product)
{
    struct cadre_player *p = h;
    (void)product;
    CADRE_TRY(in_plan(p, "plan.product_axis"));
    return play_beyond(p, "axes made of axes");
}

static cadre_status split_axis(void *h, const char *axis, uint32_t inner)
{
    struct cadre_player *p = h;
    (void)axis;
    (void)inner;
    CADRE_TRY(in_plan(p, "plan.split_axis"));
    return play_beyond(p, "axes made of axes");
}

/* ---- optimizers ---- */

static bool is_key(const char *key)
{
    size_t n = key ? strlen(key) : 0;
    for (size_t i = 0; i < n; i++)
        if (!islower((unsigned char)key[i]) && !isdigit((unsigned char)key[i]) &&
            key[i] != '_')
            return false;
    return n > 0 && n < CADRE_KEY_CHARS;
}

static cadre_status opt_state(void *h, const struct cadre_opt_state *state)
{
    struct cadre_player *p = h;
    CADRE_TRY(in_plan(p, "plan.opt_state"));
    if (p->all->plugin->desc.role != CADRE_ROLE_OPTIMIZER)
        return play_refuse(p, CADRE_RULE_EFFECT,
                           "opt_state of a plugin that is no OPTIMIZER");
    if (!state || state->param >= ENTRIES || !is_key(state->key))
        return play_refuse(
            p, CADRE_RULE_ARGUMENT,
            "opt_state without a state, of an unknown entry, or with a key "
            "that is not [a-z0-9_]+");
    if (state->extent < CADRE_OPT_ELEMENTS || state->extent > CADRE_OPT_COLUMNS ||
        state->block == 0 ||
        (state->extent == CADRE_OPT_ELEMENTS ? RANGE_UNIT % state->block != 0
                                             : state->block != 1))
        return play_refuse(
            p, CADRE_RULE_ARGUMENT,
            "opt_state '%s': extent %u, block %u; a block is a divisor of "
            "range_unit (%u), and 1 for rows and columns",
            state->key, state->extent, state->block, RANGE_UNIT);
    if (p->plan.n_states == ENTRIES * 4)
        return play_beyond(p, "room for that many states");
    uint32_t n = p->plan.n_states++;
    snprintf(p->plan.opt_key[n], CADRE_KEY_CHARS, "%s", state->key);
    p->plan.opt_state[n] = *state;
    p->plan.opt_state[n].key = p->plan.opt_key[n];
    return CADRE_OK;
}

static cadre_status opt_matrix(void *h, cadre_param_id param)
{
    struct cadre_player *p = h;
    CADRE_TRY(in_plan(p, "plan.opt_matrix"));
    if (p->all->plugin->desc.role != CADRE_ROLE_OPTIMIZER || param >= ENTRIES)
        return play_refuse(p, CADRE_RULE_ARGUMENT,
                           "opt_matrix of entry %u: an OPTIMIZER names entries less "
                           "than %u",
                           param, ENTRIES);
    p->plan.opt_matrix[param] = true;
    return CADRE_OK;
}

/* ---- begin and finish ---- */

/* Entries are local to a rank along an axis of act.complete; in the first pass nobody
 * has claimed it yet. */
static void shape_entries(struct cadre_player *p)
{
    const struct play_division at = play_division_of(p);
    for (uint32_t e = 0; e < ENTRIES; e++) {
        struct entry *entry = &p->entry[e];
        uint64_t shape[2];
        play_entry_shape(e, shape);
        uint32_t split = at.parts > 1 ? play_entry_split(e) : 0;
        uint64_t r = at.part, n = at.parts, *local = entry->local;
        local[0] = shape[0];
        local[1] = shape[1];
        if (split == CADRE_SHARD_COLUMN || split == CADRE_SHARD_VOCAB)
            local[0] = shape[0] * (r + 1) / n - shape[0] * r / n;
        else if (split == CADRE_SHARD_QKV)
            local[0] = 3 * (shape[0] / 3 * (r + 1) / n - shape[0] / 3 * r / n);
        else if (split == CADRE_SHARD_ROW)
            local[1] = shape[1] * (r + 1) / n - shape[1] * r / n;
        entry->split = split;
        entry->count = local[0] * local[1];
        entry->partial = p->plan.sharded_rows && split == CADRE_SHARD_NONE &&
                         play_entry_shape(e, shape) == 1;
        entry->present = true;
        entry->copied = false;
        entry->frozen = p->all->setup->frozen && play_entry_unit(e) == 1;
        memset(entry->part, 0, sizeof entry->part);
    }
}

void play_plan_begin(struct cadre_player *p, struct cadre_plan *out)
{
    const struct rehearsal *all = p->all;
    uint32_t others = all->setup->divided ? 3 : 1; /* ranks beside each of these */
    *out = (struct cadre_plan){
        .struct_size = sizeof *out,
        .h = p,
        .axis = all->plugin->desc.axis,
        .rank = (uint32_t)p->rank * others + others - 1,
        .ranks = (uint32_t)all->ranks * others,
        .dtype = all->dtype,
        .grad_dtype = all->dtype,
        .exact = all->setup->exact,
        .n_units = UNITS,
        .microbatches = all->microbatches,
        .rank_microbatches = p->rank_microbatches,
        .batch = BATCH,
        .time = p->plan.time ? TIME / (uint64_t)all->ranks : TIME,
        .channels = CHANNELS,
        .range_unit = RANGE_UNIT,
        .use_axis = use_axis,
        .claim = claim,
        .reduces = reduces,
        .by_design = by_design,
        .microbatch_map = microbatch_map,
        .period = period,
        .chunk = chunk,
        .live_blocks = live_blocks,
        .place_range = place_range,
        .memory = memory,
        .train = train,
        .store = store,
        .product_axis = product_axis,
        .split_axis = split_axis,
        .opt_state = opt_state,
        .opt_matrix = opt_matrix,
    };
    shape_entries(p);
    struct plan_result fresh = {.map = CADRE_MICROBATCHES_BLOCK, .period = 1};
    p->plan = fresh;
}

/* Which entries are on this rank, as its chunks say. */
static void find_present(struct cadre_player *p)
{
    if (p->plan.n_chunks == 0) {
        p->plan.n_chunks = 1;
        p->plan.chunk[0].begin = 0;
        p->plan.chunk[0].end = UNITS;
        p->plan.chunk[0].live = 1;
        p->plan.chunk[0].flags = 0;
    }
    for (uint32_t e = 0; e < ENTRIES; e++) {
        bool here = false;
        for (uint32_t c = 0; c < p->plan.n_chunks; c++)
            here |= play_entry_unit(e) >= p->plan.chunk[c].begin &&
                    play_entry_unit(e) < p->plan.chunk[c].end;
        p->entry[e].present = here;
    }
    for (uint32_t e = 0; e < ENTRIES; e++) {
        int32_t owner = play_entry_tied_to(e);
        if (owner >= 0 && p->entry[e].present && !p->entry[owner].present)
            p->entry[owner].copied = true;
    }
}

static void map_microbatches(struct cadre_player *p)
{
    uint64_t all = p->all->microbatches, ranks = (uint64_t)p->all->ranks,
             rank = (uint64_t)p->rank;
    p->rank_microbatches = all;
    p->first_microbatch = 0;
    p->microbatch_stride = 1;
    if (p->plan.batch != CADRE_BATCH_SPLIT)
        return;
    if (p->plan.map == CADRE_MICROBATCHES_RANGES) {
        p->first_microbatch = p->plan.first[rank];
        p->rank_microbatches = p->plan.first[rank + 1] - p->plan.first[rank];
        return;
    }
    p->rank_microbatches = all / ranks;
    p->first_microbatch = rank * (all / ranks);
    if (p->plan.map == CADRE_MICROBATCHES_CYCLIC) {
        p->first_microbatch = rank;
        p->microbatch_stride = ranks;
    }
}

/* Ranges are for those who claim them. */
static cadre_status check_ranges(struct cadre_player *p)
{
    for (uint32_t e = 0; e < ENTRIES; e++) {
        const struct part *part = p->entry[e].part;
        if (part[CADRE_KIND_OPT].placed && !p->plan.opt_shard &&
            part[CADRE_KIND_OPT].count != p->entry[e].count)
            return play_refuse(
                p, CADRE_RULE_EFFECT,
                "places an OPT range of '%s' without a claim of opt.shard",
                play_entry_name(e));
        if (part[CADRE_KIND_PARAM].placed && !p->plan.param_place &&
            part[CADRE_KIND_PARAM].count != p->entry[e].count)
            return play_refuse(
                p, CADRE_RULE_EFFECT,
                "places a PARAM range of '%s' without a claim of param.place",
                play_entry_name(e));
    }
    return CADRE_OK;
}

cadre_status play_plan_finish(struct cadre_player *p)
{
    find_present(p);
    map_microbatches(p);
    if (p->plan.batch == CADRE_BATCH_INDEPENDENT)
        return play_beyond(p, "independent runs, which are planned and never bound");
    CADRE_TRY(check_ranges(p));
    if (p->all->setup->exact && p->plan.map == CADRE_MICROBATCHES_RANGES)
        return play_beyond(p, "tree of micro-batches under the RANGES map");
    if (p->plan.completes && !p->all->ops->on_redistribute)
        return play_refuse(p, CADRE_RULE_EFFECT,
                           "claims act.complete and lacks on_redistribute in its ops");
    if (p->plan.codec && !(p->all->ops->wire && p->all->ops->wire_bytes))
        return play_refuse(p, CADRE_RULE_EFFECT,
                           "claims wire.codec and lacks wire or wire_bytes in its ops");
    if (p->all->ranks > 1 && !p->plan.reduces && !p->plan.diverges &&
        (p->plan.batch == CADRE_BATCH_SPLIT || p->plan.batch == CADRE_BATCH_TIME))
        return play_refuse(
            p, CADRE_RULE_EFFECT,
            "splits %s over an axis along which nobody reduces: call reduces, "
            "or claim param.diverges",
            p->plan.time ? "time" : "the batch");
    if (p->plan.diverges && !p->plan.by_design)
        return play_refuse(
            p, CADRE_RULE_EFFECT,
            "replicas diverge, and no by_design says under which setting the "
            "training is that of the other strategies");
    return CADRE_OK;
}
