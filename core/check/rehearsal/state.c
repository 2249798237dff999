/* SPDX-License-Identifier: Apache-2.0 */
/* What a plugin describes for checkpoints: recorded, and given to another instance. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/check/rehearsal/private.h"

#define BLOB UINT32_MAX
#define MOST_BYTES (UINT64_C(64) << 20)

/* One pass over a plugin's state. */
struct sink {
    struct cadre_state_sink abi;
    struct cadre_player *p;
    const struct cadre_player *from; /* to load; NULL: to save */
    bool listing; /* the first of two passes */
    uint32_t n; /* calls so far */
};

static cadre_status check_key(struct cadre_player *p, const char *key)
{
    size_t n = key ? strlen(key) : 0;
    bool good = n > 0 && n < CADRE_KEY_CHARS;
    for (size_t i = 0; i < n && good; i++)
        good = islower((unsigned char)key[i]) || isdigit((unsigned char)key[i]) ||
               key[i] == '_';
    if (good)
        return CADRE_OK;
    return play_refuse(
        p, CADRE_RULE_STATE,
        "describes a state with the key '%s': [a-z0-9_]+ of fewer than %u",
        key ? key : "(none)", CADRE_KEY_CHARS);
}

static struct state_record *find_record(const struct cadre_player *p, const char *key,
                                        cadre_param_id param)
{
    for (uint32_t i = 0; i < p->n_state; i++)
        if (p->state[i].param == param && strcmp(p->state[i].key, key) == 0)
            return &p->state[i];
    return NULL;
}

static cadre_status list(struct sink *s, const struct state_record *entry)
{
    struct cadre_player *p = s->p;
    if (find_record(p, entry->key, entry->param))
        return play_refuse(p, CADRE_RULE_STATE, "describes the state '%s' twice",
                           entry->key);
    if (p->n_state == p->cap_state) {
        uint32_t cap = p->cap_state ? 2 * p->cap_state : 32;
        struct state_record *grown = cadre_realloc(p->state, cap, sizeof *grown);
        if (!grown)
            return CADRE_E_RESOURCE;
        p->state = grown;
        p->cap_state = cap;
    }
    p->state[p->n_state++] = *entry;
    return CADRE_OK;
}

static cadre_status read_values(struct sink *s, const struct state_record *entry,
                                const void *data)
{
    struct cadre_player *p = s->p;
    struct state_record *listed = s->n < p->n_state ? &p->state[s->n] : NULL;
    if (!listed || strcmp(listed->key, entry->key) != 0 ||
        listed->param != entry->param || listed->policy != entry->policy ||
        listed->bytes != entry->bytes || listed->begin != entry->begin)
        return play_refuse(
            p, CADRE_RULE_STATE,
            "describes '%s' in the second pass of a save where the first had "
            "'%s': both make the same calls",
            entry->key, listed ? listed->key : "nothing");
    listed->data = malloc(entry->bytes + 1);
    if (!listed->data)
        return CADRE_E_RESOURCE;
    if (entry->bytes)
        memcpy(listed->data, data, entry->bytes);
    return CADRE_OK;
}

/* Random bytes stand for a damaged checkpoint that its sums did not show. */
static void deliver(struct sink *s, const struct state_record *entry, void *data)
{
    const struct state_record *saved = find_record(s->from, entry->key, entry->param);
    bool damaged = s->p->all->setup->damaged;
    if (!saved || !saved->data || saved->bytes != entry->bytes)
        return;
    for (uint64_t i = 0; damaged && i < entry->bytes; i++)
        ((char *)data)[i] = (char)play_draw(s->p->all, 256);
    if (!damaged && entry->bytes)
        memcpy(data, saved->data, entry->bytes);
}

static cadre_status take(struct sink *s, struct state_record *entry, void *data)
{
    cadre_status rc = CADRE_OK;
    if (s->from)
        deliver(s, entry, data);
    else
        rc = s->listing ? list(s, entry) : read_values(s, entry, data);
    s->n++;
    return rc;
}

static cadre_status sink_blob(void *h, const char *key, uint32_t version,
                              uint32_t policy, void *data, uint64_t bytes)
{
    struct sink *s = h;
    struct cadre_player *p = s->p;
    struct state_record entry = {.param = BLOB, .policy = policy, .bytes = bytes};
    (void)version;
    CADRE_TRY(play_enter(p, IN_STATE, "sink.blob"));
    CADRE_TRY(check_key(p, key));
    if (policy < CADRE_BLOB_DROPPABLE || policy > CADRE_BLOB_PER_RANK ||
        bytes > MOST_BYTES || (bytes && !data))
        return play_refuse(p, CADRE_RULE_STATE,
                           "describes the blob '%s' with policy %u, %llu bytes%s", key,
                           policy, (unsigned long long)bytes, data ? "" : " at NULL");
    snprintf(entry.key, sizeof entry.key, "%s", key);
    return take(s, &entry, data);
}

static cadre_status sink_tensor(void *h, const char *key, cadre_param_id param,
                                uint32_t combine, uint64_t begin,
                                const struct cadre_buf *data)
{
    struct sink *s = h;
    struct cadre_player *p = s->p;
    CADRE_TRY(play_enter(p, IN_STATE, "sink.tensor"));
    CADRE_TRY(check_key(p, key));
    if (param >= ENTRIES || !data || combine < CADRE_STATE_SAME ||
        combine > CADRE_STATE_REPLICA || (data->count && !data->data))
        return play_refuse(p, CADRE_RULE_STATE,
                           "describes '%s' of entry %u, combined as %u", key, param,
                           combine);
    const struct entry *of = &p->entry[param];
    if (play_entry_tied_to(param) >= 0 || !(of->present || of->copied))
        return play_refuse(p, CADRE_RULE_STATE,
                           "describes '%s' of '%s', which is tied or not on this rank",
                           key, play_entry_name(param));
    if (begin > of->count || data->count > of->count - begin ||
        data->dtype != p->all->dtype)
        return play_refuse(
            p, CADRE_RULE_STATE,
            "describes '%s' of '%s' as elements [%llu, %llu) of type %u; the "
            "entry has %llu, of type %u",
            key, play_entry_name(param), (unsigned long long)begin,
            (unsigned long long)begin + data->count, data->dtype,
            (unsigned long long)of->count, p->all->dtype);
    struct state_record entry = {.param = param,
                                 .policy = combine,
                                 .begin = begin,
                                 .bytes = play_buf_bytes(data)};
    snprintf(entry.key, sizeof entry.key, "%s", key);
    return take(s, &entry, data->data);
}

static cadre_status describe(struct cadre_player *p, struct sink *s)
{
    s->abi = (struct cadre_state_sink){
        .struct_size = sizeof s->abi,
        .saving = s->from == NULL,
        .h = s,
        .blob = sink_blob,
        .tensor = sink_tensor,
    };
    s->p = p;
    s->n = 0;
    return CALLBACK(p, IN_STATE, s->from ? "state (load)" : "state (save)",
                    p->all->ops->state(
                        p->self, play_present(p, SLOT_SINK, &s->abi, sizeof s->abi)));
}

/* Ranks of a data group describe the same; what is said to be equal is. */
static cadre_status compare_ranks(struct cadre_player *p)
{
    const struct cadre_player *first = &p->all->player[0];
    bool data = p->all->plugin->desc.role == CADRE_ROLE_DATA;
    if (!data)
        return CADRE_OK;
    if (p->n_state != first->n_state)
        return play_refuse(
            p, CADRE_RULE_STATE,
            "describes %u entries of state, rank 0 describes %u: ranks of a "
            "data group describe the same",
            p->n_state, first->n_state);
    for (uint32_t i = 0; i < p->n_state; i++) {
        const struct state_record *mine = &p->state[i], *theirs = &first->state[i];
        if (strcmp(mine->key, theirs->key) != 0 || mine->param != theirs->param ||
            mine->policy != theirs->policy)
            return play_refuse(p, CADRE_RULE_STATE,
                               "describes the state '%s' where rank 0 describes '%s'",
                               mine->key, theirs->key);
        bool equal = mine->param == BLOB ? mine->policy == CADRE_BLOB_REPLICATED
                                         : mine->policy == CADRE_STATE_SAME;
        if (equal && mine->begin == theirs->begin && mine->bytes == theirs->bytes &&
            memcmp(mine->data, theirs->data, mine->bytes) != 0)
            return play_refuse(p, CADRE_RULE_STATE,
                               "says that the state '%s' is equal on all ranks, and it "
                               "differs from rank 0's",
                               mine->key);
    }
    return CADRE_OK;
}

cadre_status play_save_state(struct cadre_player *p)
{
    struct sink s = {.listing = true};
    if (!p->all->ops->state)
        return CADRE_OK;
    CADRE_TRY(describe(p, &s));
    s.listing = false;
    CADRE_TRY(describe(p, &s));
    if (s.n != p->n_state)
        return play_refuse(
            p, CADRE_RULE_STATE,
            "describes %u entries in the second pass of a save, %u in the "
            "first",
            s.n, p->n_state);
    p->all->report->state_entries = p->n_state;
    if (!play_meet(p))
        return CADRE_E_ABORTED;
    return compare_ranks(p);
}

static cadre_status compare_loaded(struct cadre_player *p,
                                   const struct cadre_player *from)
{
    for (uint32_t i = 0; i < p->n_state; i++) {
        const struct state_record *now = &p->state[i];
        const struct state_record *saved = find_record(from, now->key, now->param);
        bool summed = now->param != BLOB && (now->policy == CADRE_STATE_SUM ||
                                             now->policy == CADRE_STATE_MEAN);
        if (summed || !saved || saved->bytes != now->bytes ||
            memcmp(saved->data, now->data, now->bytes) == 0)
            continue;
        return play_refuse(p, CADRE_RULE_STATE,
                           "saves another '%s' right after loading it than was loaded",
                           now->key);
    }
    return CADRE_OK;
}

cadre_status play_load_state(struct cadre_player *p, const struct cadre_player *from)
{
    struct sink s = {.from = from};
    if (!p->all->ops->state)
        return CADRE_OK;
    CADRE_TRY(describe(p, &s));
    if (p->all->setup->damaged)
        return CADRE_OK;
    CADRE_TRY(play_save_state(p));
    return compare_loaded(p, from);
}

void play_free_state(struct cadre_player *p)
{
    for (uint32_t i = 0; i < p->n_state; i++)
        free(p->state[i].data);
    free(p->state);
    p->state = NULL;
    p->n_state = p->cap_state = 0;
}
