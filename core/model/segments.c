/* SPDX-License-Identifier: Apache-2.0 */
#include "core/model/segments.h"

bool cadre_segment_next(const struct cadre_unit *u, struct cadre_segment *segment)
{
    const int32_t *positions = u->pass->positions;
    segment->row += segment->rows;
    if (segment->row >= u->N)
        return false;
    segment->rows = 1;
    while (segment->row + segment->rows < u->N &&
           positions[segment->row + segment->rows] != 0)
        segment->rows++;
    return true;
}

/* NULL stays NULL; it is read where the caller's is. */
static void *moved(const struct cadre_unit *u, const void *buffer, int64_t count)
{
    return buffer ? cadre_unit_at(u, buffer, count) : NULL;
}

/* lse (B, H, T) of the whole is (H, rows) of one segment after the other. */
static struct cadre_attention attention_of(const struct cadre_unit *u,
                                           const struct cadre_attention *whole,
                                           const struct cadre_segment *segment)
{
    const int64_t row = segment->row;
    struct cadre_attention a = *whole;
    a.batch = 1;
    a.time = segment->rows;
    a.q = moved(u, a.q, row * a.ldq);
    a.k = moved(u, a.k, row * a.ldk);
    a.v = moved(u, a.v, row * a.ldv);
    a.out = moved(u, a.out, row * a.ldo);
    a.lse = (unsigned char *)a.lse + (size_t)(row * a.heads) * u->wide;
    a.dout = moved(u, a.dout, row * a.ldo);
    a.dq = moved(u, a.dq, row * a.ldq);
    a.dk = moved(u, a.dk, row * a.ldk);
    a.dv = moved(u, a.dv, row * a.ldv);
    return a;
}

static cadre_status attend(const struct cadre_unit *u, const struct cadre_attention *a,
                           bool backward)
{
    return backward ? u->ops->attention_bwd(u->device, a)
                    : u->ops->attention_fwd(u->device, a);
}

cadre_status cadre_segments_attention(const struct cadre_unit *u,
                                      const struct cadre_attention *a, bool backward)
{
    struct cadre_segment segment = {0};
    if (!u->pass->positions)
        return attend(u, a, backward);
    while (cadre_segment_next(u, &segment)) {
        const struct cadre_attention part = attention_of(u, a, &segment);
        CADRE_TRY(attend(u, &part, backward));
    }
    return CADRE_OK;
}

cadre_status cadre_segments_rope(const struct cadre_unit *u, void *x, int64_t ld,
                                 int64_t heads, bool inverse)
{
    const struct cadre_rotary *rotary = &u->model->config.rotary;
    struct cadre_segment segment = {0};
    if (!u->pass->positions)
        return u->ops->rope(u->device, u->dtype, x, ld, u->B, u->T, heads, u->D, rotary,
                            u->position, inverse);
    while (cadre_segment_next(u, &segment))
        CADRE_TRY(u->ops->rope(u->device, u->dtype,
                               cadre_unit_at(u, x, segment.row * ld), ld, 1,
                               segment.rows, heads, u->D, rotary, 0, inverse));
    return CADRE_OK;
}

static struct cadre_embed embed_of(const struct cadre_unit *u,
                                   const struct cadre_embed *whole,
                                   const struct cadre_segment *segment)
{
    struct cadre_embed embed = *whole;
    embed.batch = 1;
    embed.time = segment->rows;
    embed.position = 0;
    embed.tokens += segment->row;
    embed.out = moved(u, embed.out, segment->row * embed.channels);
    embed.dout = moved(u, embed.dout, segment->row * embed.channels);
    return embed;
}

cadre_status cadre_segments_embed(const struct cadre_unit *u,
                                  const struct cadre_embed *embed)
{
    struct cadre_segment segment = {0};
    if (!u->pass->positions || !embed->wpe)
        return u->ops->embed_fwd(u->device, embed);
    while (cadre_segment_next(u, &segment)) {
        const struct cadre_embed part = embed_of(u, embed, &segment);
        CADRE_TRY(u->ops->embed_fwd(u->device, &part));
    }
    return CADRE_OK;
}

cadre_status cadre_segments_embed_positions(const struct cadre_unit *u,
                                            const struct cadre_embed *embed)
{
    struct cadre_segment segment = {0};
    if (!u->pass->positions)
        return u->ops->embed_bwd_positions(u->device, embed);
    while (cadre_segment_next(u, &segment)) {
        struct cadre_embed part = embed_of(u, embed, &segment);
        part.beta = embed->beta || segment.row > 0;
        CADRE_TRY(u->ops->embed_bwd_positions(u->device, &part));
    }
    return CADRE_OK;
}
