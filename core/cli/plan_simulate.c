/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cli/plan_hardware.h"
#include "core/cli/plan_simulate.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/path.h"
#include "core/export/chakra.h"
#include "core/plugin/stack.h"
#include "core/simulate/simulation_print.h"

/* Before a simulation that may take minutes. */
static cadre_status check_place(const char *option, const char *path,
                                struct cadre_error *err)
{
    char *dir = path ? cadre_path_dirname(path) : NULL;
    cadre_status rc = CADRE_OK;
    if (path && !dir)
        rc = cadre_no_memory(err, "a path");
    else if (dir && !cadre_path_is_dir(dir))
        rc = cadre_fail(err, CADRE_E_INVALID, "%s %s: '%s' is no folder; make it first",
                        option, path, dir);
    free(dir);
    return rc;
}

static cadre_status check_words(const struct cadre_cli_args *args,
                                struct cadre_error *err)
{
    if (!args->conf || !args->plan.ranks || !args->plan.hardware)
        return cadre_fail(err, CADRE_E_INVALID,
                          "--simulate is given with CONF, --ranks N and --hardware "
                          "FILE");
    CADRE_TRY(check_place("--trace", args->plan.trace, err));
    CADRE_TRY(check_place("--chakra", args->plan.chakra, err));
    if (args->plan.chakra && cadre_path_exists(args->plan.chakra) &&
        !cadre_path_is_dir(args->plan.chakra))
        return cadre_fail(err, CADRE_E_INVALID,
                          "--chakra %s: there is a file of that name; name a folder",
                          args->plan.chakra);
    if (args->words.n > 1)
        return cadre_fail(err, CADRE_E_INVALID, "'%s' is one argument too many",
                          args->words.item[1]);
    const struct {
        bool asked;
        const char *name;
    } other[] = {
        {args->plan.emit, "--emit"},         {args->plan.top, "--top"},
        {args->plan.replay, "--replay"},     {args->plan.explain, "--explain"},
        {args->plan.what_if.n, "--what-if"}, {args->plan.fit, "--fit"},
        {args->plan.stack, "--stack"},       {args->plan.cost, "--cost"},
        {args->plan.price, "--price"},
    };
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++)
        if (other[i].asked)
            return cadre_fail(err, CADRE_E_INVALID,
                              "--simulate looks at the stack of CONF alone; leave %s "
                              "out",
                              other[i].name);
    return CADRE_OK;
}

static cadre_status take_ranks(const char *text, int *out, struct cadre_error *err)
{
    char *end;
    const long value = strtol(text, &end, 10);
    if (end == text || *end || value < 1 || value > CADRE_SIMULATION_WORLD)
        return cadre_fail(err, CADRE_E_INVALID,
                          "--ranks is '%s', expected a whole number from 1 to %d with "
                          "--simulate",
                          text, CADRE_SIMULATION_WORLD);
    *out = (int)value;
    return CADRE_OK;
}

cadre_status cadre_cli_plan_check_data(const struct cadre_options *options,
                                       struct cadre_error *err)
{
    const char *format = cadre_options_raw(options, "data.format");
    if (strcmp(cadre_options_raw(options, "model.arch"), "vit") == 0)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "model.arch = vit cannot be simulated, expected gpt2 or "
                          "llama");
    if (strcmp(format, "text") == 0 || strcmp(format, "tokens") == 0)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_UNSUPPORTED,
                      "data.format = %s cannot be simulated, expected text or tokens, "
                      "whose samples are as long as model.context",
                      format);
}

/* Sizes that a stack leaves open are found later. */
static cadre_status check_ranks(const struct cadre_options *options, int ranks,
                                struct cadre_error *err)
{
    const char *text = cadre_options_raw(options, "strategy.stack");
    struct cadre_stack stack;
    int64_t product = 1;
    bool open = false;
    CADRE_TRY(cadre_stack_parse(text, &stack, err));
    for (int i = 0; i < stack.n; i++) {
        open |= stack.entry[i].size <= 0;
        product *= stack.entry[i].size;
    }
    if (open || product == ranks)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "--ranks is %d, and strategy.stack = %s is of %lld ranks; "
                      "--simulate looks at that stack alone: change one of them",
                      ranks, text, (long long)product);
}

/* Classes are the data's. */
static cadre_status check_head(const struct cadre_spec *spec, struct cadre_error *err)
{
    if (spec->config.model.head != CADRE_CONFIG_CLASSIFY)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_UNSUPPORTED,
                      "model.head = classify cannot be simulated, expected lm");
}

static cadre_status complete_vocab(struct cadre_spec *spec, struct cadre_error *err)
{
    struct cadre_model_config *model = &spec->run.model;
    const struct cadre_config_data *data = &spec->config.data;
    if (model->vocab == 0 && strcmp(data->format, "text") == 0 &&
        strcmp(data->tokenizer, "byte") == 0)
        model->vocab = 256;
    if (model->vocab > 0)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "model.vocab is 0, that of the data, which a plan does not read: "
                      "give it, --set model.vocab=N");
}

static cadre_status make_spec(const struct cadre_cli_args *args, int ranks,
                              struct cadre_spec **out, struct cadre_error *err)
{
    char name[64];
    struct cadre_options *options = NULL;
    const struct cadre_spec_request request = {.out = args->out,
                                               .name = name,
                                               .given_ranks = ranks,
                                               .most_ranks = CADRE_SIMULATION_WORLD};
    cadre_cli_run_name(args, name, sizeof name);
    CADRE_TRY(cadre_cli_load(args, &options, err));
    cadre_status rc = cadre_cli_plan_check_data(options, err);
    if (rc == CADRE_OK)
        rc = check_ranks(options, ranks, err);
    if (rc == CADRE_OK)
        rc = cadre_simulation_options(options, err);
    if (rc != CADRE_OK) {
        cadre_options_destroy(options);
        return rc;
    }
    CADRE_TRY(cadre_spec_create(options, &request, out, err));
    CADRE_TRY(check_head(*out, err));
    return complete_vocab(*out, err);
}

static cadre_status write_chakra(const struct cadre_simulation *simulation,
                                 const struct cadre_spec *spec,
                                 const struct cadre_hardware *hw, const char *dir,
                                 struct cadre_error *err)
{
    const struct cadre_chakra_step step = {
        .ranks = simulation->ranks,
        .graph = simulation->graph,
        .group = simulation->group,
        .n_groups = simulation->n_groups,
        .stack = spec->stack,
        .hardware = hw->name,
    };
    return cadre_chakra_write(&step, dir, err);
}

cadre_status cadre_cli_plan_simulate(const struct cadre_cli_args *args,
                                     struct cadre_error *err)
{
    struct cadre_hardware hw;
    struct cadre_spec *spec = NULL;
    struct cadre_simulation simulation = {0};
    struct cadre_simulation_request request = {0};
    char *dir = NULL;
    int ranks = 0;
    cadre_status rc;
    CADRE_TRY(check_words(args, err));
    CADRE_TRY(take_ranks(args->plan.ranks, &ranks, err));
    CADRE_TRY(cadre_cli_hardware_load(&hw, args->plan.hardware, err));
    CADRE_TRY_OR(make_spec(args, ranks, &spec, err), out);
    request.graphs = args->plan.chakra != NULL;
    if (args->plan.trace) {
        request.trace_dir = dir = cadre_path_dirname(args->plan.trace);
        request.trace_name = cadre_path_basename(args->plan.trace);
        rc = dir ? CADRE_OK : cadre_no_memory(err, "a path");
        if (rc != CADRE_OK)
            goto out;
    }
    CADRE_TRY_OR(cadre_simulate(spec, &hw, &request, &simulation, err), out);
    if (args->plan.chakra)
        CADRE_TRY_OR(write_chakra(&simulation, spec, &hw, args->plan.chakra, err), out);
    if (args->json)
        rc = cadre_simulation_print_json(&simulation, spec, &hw, stdout);
    else
        cadre_simulation_print(&simulation, spec, &hw, stdout);
out:
    cadre_simulation_fini(&simulation);
    cadre_spec_destroy(spec);
    free(dir);
    return rc;
}
