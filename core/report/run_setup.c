/* SPDX-License-Identifier: Apache-2.0 */
#include "core/report/run_setup.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/run/format.h"

void cadre_run_setup_add(struct cadre_run_setup *setup, const char *name,
                         const char *value)
{
    if (setup->n == CADRE_RUN_SETUP_ITEMS)
        return;
    snprintf(setup->text[setup->n], CADRE_RUN_SETUP_TEXT, "%s",
             value && strcmp(value, "-") != 0 ? value : "");
    setup->item[setup->n] = (struct cadre_page_item){name, setup->text[setup->n]};
    setup->n++;
}

static void add_count(struct cadre_run_setup *setup, const char *name, double count)
{
    char text[64];
    cadre_run_setup_add(setup, name, cadre_format_count(count, text, sizeof text));
}

static void add_option(struct cadre_run_setup *setup, const struct cadre_run_data *data,
                       const char *name, const char *option)
{
    cadre_run_setup_add(setup, name, cadre_run_data_option(data, option));
}

/* "AdamW, lr 0.003" */
static void add_optimizer(struct cadre_run_setup *setup,
                          const struct cadre_run_data *data)
{
    char text[CADRE_RUN_SETUP_TEXT];
    const char *name = cadre_run_data_option(data, "optim.name");
    const char *lr = cadre_run_data_option(data, "optim.lr");
    if (name)
        snprintf(text, sizeof text, "%s%s%s", name, lr ? ", lr " : "", lr ? lr : "");
    cadre_run_setup_add(setup, "optimizer", name ? text : NULL);
}

/* "gpt2: 2 layers, 32 channels, 2 heads, context 32" */
static void add_model(struct cadre_run_setup *setup, const struct cadre_run_data *data)
{
    static const char *const keys[] = {"model.arch", "model.layers", "model.channels",
                                       "model.heads", "model.context"};
    const char *value[5];
    char text[CADRE_RUN_SETUP_TEXT];
    for (size_t i = 0; i < 5; i++) {
        value[i] = cadre_run_data_option(data, keys[i]);
        if (!value[i])
            return;
    }
    snprintf(text, sizeof text, "%s: %s layer%s, %s channels, %s heads, context %s",
             value[0], value[1], strcmp(value[1], "1") == 0 ? "" : "s", value[2],
             value[3], value[4]);
    cadre_run_setup_add(setup, "model", text);
}

/* The cuts of run.recut, the last ones where they are many. */
static void add_recuts(struct cadre_run_setup *setup, const struct cadre_run_data *data)
{
    const json_t *list = json_object_get(data->summary, "recuts");
    const size_t n = json_array_size(list), first = n > 3 ? n - 3 : 0;
    char text[CADRE_RUN_SETUP_TEXT] = "";
    size_t used = 0;
    for (size_t i = first; i < n && used < sizeof text; i++) {
        const json_t *one = json_array_get(list, i);
        const char *from = json_string_value(json_object_get(one, "from"));
        const char *to = json_string_value(json_object_get(one, "to"));
        used += (size_t)snprintf(
            text + used, sizeof text - used, "%safter step %lld: %s units to %s",
            i > first ? "; " : "",
            (long long)json_integer_value(json_object_get(one, "step")),
            from ? from : "?", to ? to : "?");
    }
    if (n > 0)
        cadre_run_setup_add(setup, "stages cut again", text);
}

/* What is out of the ordinary: a deal of micro-batches, simulated slow ranks. */
static void add_dealt(struct cadre_run_setup *setup, const struct cadre_run_data *data)
{
    const char *dealt = cadre_run_data_option(data, "balance.micro_batches");
    const char *pace = cadre_run_data_option(data, "device.pace");
    if (dealt && *dealt && strcmp(dealt, "off") != 0)
        cadre_run_setup_add(setup, "micro-batches of ranks", dealt);
    if (pace && *pace)
        cadre_run_setup_add(setup, "simulated pace of ranks", pace);
}

/* Utilisation, energy and price, as far as the summary knows them. */
static void add_efficiency(struct cadre_run_setup *setup,
                           const struct cadre_run_data *data)
{
    const double mfu = cadre_run_data_number(data, "mfu");
    const double joules = cadre_run_data_number_in(data, "energy", "j_per_token");
    const double step_j = cadre_run_data_number_in(data, "energy", "j_per_step");
    const double idle_w = cadre_run_data_number_in(data, "energy", "idle_w");
    const double price = cadre_run_data_number_in(data, "price", "per_million_tokens");
    const char *scope = cadre_run_data_text(data, "energy", "scope");
    const char *why = cadre_run_data_text(data, "energy", "why");
    char text[CADRE_RUN_SETUP_TEXT];
    snprintf(text, sizeof text, "%.3g %%", 100 * mfu);
    if (isfinite(mfu))
        cadre_run_setup_add(setup, "MFU", text);
    size_t used = (size_t)snprintf(text, sizeof text, "%.3g J/token, %.3g J a step, %s",
                                   joules, step_j, scope ? scope : "measured");
    if (isfinite(idle_w) && used < sizeof text)
        snprintf(text + used, sizeof text - used, "; idle power %.3g W, included",
                 idle_w);
    if (isfinite(joules))
        cadre_run_setup_add(setup, "energy", text);
    snprintf(text, sizeof text, "not readable here, because %s", why ? why : "");
    if (!isfinite(joules) && why)
        cadre_run_setup_add(setup, "energy", text);
    snprintf(text, sizeof text, "%.3g", price);
    if (isfinite(price))
        cadre_run_setup_add(setup, "price of a million tokens", text);
}

/* A run's config.ini names all that it was asked for. */
static void add_folder(struct cadre_run_setup *setup, const struct cadre_run_data *data)
{
    char text[CADRE_RUN_SETUP_TEXT];
    cadre_run_setup_add(setup, "folder", data->dir);
    snprintf(text, sizeof text, "cadre train %s/config.ini --out NEW", data->dir);
    cadre_run_setup_add(setup, "train it again", text);
}

void cadre_run_setup_fill(const struct cadre_run_data *data,
                          struct cadre_run_setup *setup)
{
    char text[CADRE_RUN_SETUP_TEXT];
    setup->n = 0;
    cadre_run_setup_add(setup, "state", cadre_run_data_state(data, text, sizeof text));
    if (*data->end.why)
        cadre_run_setup_add(setup, "failure", data->end.why);
    add_folder(setup, data);
    add_option(setup, data, "strategy", "strategy.stack");
    add_count(setup, "ranks", cadre_run_data_number(data, "ranks"));
    add_recuts(setup, data);
    cadre_run_setup_add(setup, "machine",
                        cadre_run_data_machine(data, text, sizeof text));
    cadre_run_setup_add(setup, "device", cadre_run_data_text(data, NULL, "device"));
    add_model(setup, data);
    add_count(setup, "parameters", cadre_run_data_number(data, "params"));
    add_option(setup, data, "data", "data.path");
    add_count(setup, "training samples",
              cadre_run_data_number(data, "train_samples_all"));
    add_option(setup, data, "precision", "train.precision");
    add_option(setup, data, "seed", "run.seed");
    add_option(setup, data, "exact", "run.exact");
    add_option(setup, data, "exact parts", "run.exact_parts");
    add_option(setup, data, "global batch", "train.global_batch");
    add_option(setup, data, "micro-batch", "train.micro_batch");
    add_dealt(setup, data);
    add_optimizer(setup, data);
    add_count(setup, "steps", data->steps ? (double)data->last_step : (double)NAN);
    add_count(setup, "tokens", cadre_run_data_number(data, "tokens"));
    cadre_run_setup_add(
        setup, "time of its steps",
        cadre_format_seconds(cadre_run_data_number(data, "time_s"), text, sizeof text));
    add_efficiency(setup, data);
}

const char *cadre_run_setup_value(const struct cadre_run_setup *setup, const char *name)
{
    for (size_t i = 0; i < setup->n; i++)
        if (strcmp(setup->item[i].name, name) == 0)
            return setup->item[i].value;
    return "";
}
