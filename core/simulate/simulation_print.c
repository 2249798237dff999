/* SPDX-License-Identifier: Apache-2.0 */
#include "core/simulate/simulation_print.h"

#include <stdio.h>

#include "core/base/bytes.h"
#include "core/base/json.h"

static const char *space_name(uint32_t space)
{
    return space == CADRE_SPACE_DEVICE ? "device" : "host";
}

/* More than a few records: plugins keep states there. */
static bool keeps_much_on_host(const struct cadre_simulated_rank *rank)
{
    uint64_t bytes = 0;
    for (int i = 0; i < rank->memory.n; i++)
        if (rank->memory.entry[i].space != CADRE_SPACE_DEVICE &&
            rank->memory.entry[i].peak_bytes > bytes)
            bytes = rank->memory.entry[i].peak_bytes;
    return bytes > 64u << 20;
}

/* ---- text ---- */

static void put_seconds(const char *what, const char *axis, double s, double step_s,
                        FILE *out)
{
    char name[64];
    const double percent = step_s > 0 ? 100 * s / step_s : 0;
    snprintf(name, sizeof name, "%s%s%s", what, *axis ? " " : "", axis);
    fprintf(out, "  %-28s %12.6g s %6.1f %%\n", name, s,
            percent > -0.05 && percent < 0 ? 0 : percent);
}

static void put_parts(const struct cadre_simulation *s, FILE *out)
{
    static const char *const names[CADRE_PARTS] = {
        [CADRE_PART_COMPUTE] = "compute",
        [CADRE_PART_BUBBLE] = "bubble",
        [CADRE_PART_RANKS] = "waiting for slower ranks",
        [CADRE_PART_DATA] = "data",
        [CADRE_PART_OPTIMIZER] = "optimizer",
    };
    put_seconds("step", "", s->step_s, s->step_s, out);
    for (int i = 0; i < CADRE_PARTS; i++)
        put_seconds(names[i], "", s->parts.part[i], s->step_s, out);
    for (int i = 0; i < s->parts.exposed.n; i++)
        put_seconds("exposed communication", s->parts.exposed.of[i].axis,
                    s->parts.exposed.of[i].s, s->step_s, out);
    put_seconds("other", "", s->other_s, s->step_s, out);
}

static void put_memory(const struct cadre_simulation *s, FILE *out)
{
    const struct cadre_simulated_rank *most = &s->rank[s->largest];
    char text[CADRE_BYTES_CHARS];
    fprintf(out, "bytes of rank %d, which takes most: %s at most\n", most->index,
            cadre_bytes_text((double)most->memory.peak_bytes, 3, text));
    for (int i = 0; i < most->memory.n; i++)
        fprintf(out, "  %-28s %16llu %s\n", most->memory.entry[i].tag,
                (unsigned long long)most->memory.entry[i].peak_bytes,
                space_name(most->memory.entry[i].space));
}

void cadre_simulation_print(const struct cadre_simulation *s,
                            const struct cadre_spec *spec,
                            const struct cadre_hardware *hw, FILE *out)
{
    char text[CADRE_BYTES_CHARS];
    const struct cadre_simulated_rank *most = &s->rank[s->largest];
    const double limit =
        (hw->device.memory_gib - hw->device.reserve_gib) * 1073741824.0;
    fprintf(out,
            "simulated, not measured: %.4g M parameters with %s on %d x %s, seconds of "
            "a step\n",
            (double)s->params / 1e6, spec->stack, s->ranks, hw->name);
    if (s->n < s->ranks)
        fprintf(
            out,
            "%d ranks were simulated, which did the same where they represent others\n",
            s->n);
    put_parts(s, out);
    put_memory(s, out);
    if ((double)most->memory.peak_bytes > limit)
        fprintf(out,
                "  does not fit: %s are there, %.4g GiB of the device less "
                "reserve_gib = %.4g, which is not in these bytes\n",
                cadre_bytes_text(limit, 3, text), hw->device.memory_gib,
                hw->device.reserve_gib);
    fprintf(out, "sent by a rank in a step: %s, mean\n",
            cadre_bytes_text(s->sent_bytes, 3, text));
    if (keeps_much_on_host(most))
        fprintf(out, "memory of the host is taken to be as fast as the device's: a "
                     "hardware file has no link between them\n");
    if (spec->run.model.experts > 0)
        fprintf(out,
                "experts get the rows in turn, each as many as any other: a router "
                "that does not balance them takes longer\n");
    if (most->reads > 0)
        fprintf(out,
                "plugins read values %.3g times in a step, which are zeros here: what "
                "they make depend on them may differ\n",
                most->reads);
}

/* ---- JSON ---- */

static void put_memory_json(struct cadre_json *json, const struct cadre_ledger *table)
{
    cadre_json_key(json, "memory");
    cadre_json_begin_array(json);
    for (int i = 0; i < table->n; i++) {
        cadre_json_begin_object(json);
        cadre_json_put_string(json, "tag", table->entry[i].tag);
        cadre_json_put_string(json, "space", space_name(table->entry[i].space));
        cadre_json_put_i64(json, "bytes", (int64_t)table->entry[i].bytes);
        cadre_json_put_i64(json, "peak_bytes", (int64_t)table->entry[i].peak_bytes);
        cadre_json_end_object(json);
    }
    cadre_json_end_array(json);
}

static void put_rank_json(struct cadre_json *json,
                          const struct cadre_simulated_rank *rank)
{
    cadre_json_begin_object(json);
    cadre_json_put_i64(json, "rank", rank->index);
    cadre_json_put_i64(json, "represents", rank->represents);
    cadre_json_put_f64(json, "step_s", rank->step_s);
    cadre_json_key(json, "seconds");
    cadre_step_parts_put(json, &rank->parts, rank->step_s);
    cadre_json_put_f64(json, "product_flops", rank->product_flops);
    cadre_json_put_f64(json, "sent_bytes", rank->sent_bytes);
    cadre_json_put_f64(json, "between_bytes", rank->between_bytes);
    cadre_json_put_f64(json, "value_reads", rank->reads);
    cadre_json_put_bool(json, "host_as_fast_as_device", keeps_much_on_host(rank));
    cadre_json_put_i64(json, "peak_bytes", (int64_t)rank->memory.peak_bytes);
    put_memory_json(json, &rank->memory);
    cadre_json_end_object(json);
}

cadre_status cadre_simulation_print_json(const struct cadre_simulation *s,
                                         const struct cadre_spec *spec,
                                         const struct cadre_hardware *hw, FILE *out)
{
    struct cadre_json json;
    cadre_json_init(&json, out, true);
    cadre_json_begin_object(&json);
    cadre_json_put_head(&json, 1);
    cadre_json_put_string(&json, "engine", "simulation");
    cadre_json_put_bool(&json, "measured", false);
    cadre_json_put_string(&json, "hardware", hw->name);
    cadre_json_put_string(&json, "stack", spec->stack);
    cadre_json_put_i64(&json, "ranks", s->ranks);
    cadre_json_put_i64(&json, "parameters", (int64_t)s->params);
    cadre_json_put_i64(&json, "steps", s->steps);
    cadre_json_put_bool(&json, "experts_balanced", spec->run.model.experts > 0);
    cadre_json_put_f64(&json, "step_s", s->step_s);
    cadre_json_key(&json, "seconds");
    cadre_step_parts_put(&json, &s->parts, s->step_s);
    cadre_json_put_f64(&json, "sent_bytes", s->sent_bytes);
    cadre_json_put_i64(&json, "largest", s->rank[s->largest].index);
    cadre_json_put_i64(&json, "peak_bytes",
                       (int64_t)s->rank[s->largest].memory.peak_bytes);
    cadre_json_key(&json, "by_rank");
    cadre_json_begin_array(&json);
    for (int i = 0; i < s->n; i++)
        put_rank_json(&json, &s->rank[i]);
    cadre_json_end_array(&json);
    cadre_json_end_object(&json);
    return cadre_json_finish(&json);
}
