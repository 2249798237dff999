/* SPDX-License-Identifier: Apache-2.0 */
#include "core/config/config.h"

#include <string.h>

#include "core/config/option_set.h"
#include "tests/config/options_fixture.h"

/* The configuration of the defaults and one assignment more; "" for none. */
static struct cadre_options *make(struct cadre_config *config, const char *assignment)
{
    struct cadre_error err = {0};
    struct cadre_options *o = options_create();
    if (*assignment)
        must(cadre_options_set(o, assignment, "test", &err), &err);
    must(cadre_options_resolve(o, &err), &err);
    memset(config, 0x5a, sizeof *config);
    cadre_config_fill(config, o);
    return o;
}

START_TEST(defaults_fill_fields)
{
    struct cadre_config c;
    struct cadre_options *o = make(&c, "");
    ck_assert_str_eq(c.run.name, "");
    ck_assert_int_eq(c.run.seed, 1337);
    ck_assert(!c.run.exact);
    ck_assert_int_eq(c.model.arch, CADRE_CONFIG_GPT2);
    ck_assert_double_eq(c.model.norm_eps, 1e-5);
    ck_assert_str_eq(c.data.format, "text");
    ck_assert(c.data.shuffle);
    ck_assert_int_eq(c.train.global_batch, 8);
    ck_assert_double_eq(c.optim.beta2, 0.95);
    ck_assert_int_eq(c.device.threads, 1);
    ck_assert_double_eq(c.comm.timeout, 60);
    ck_assert_str_eq(c.strategy.stack, "single");
    ck_assert_str_eq(c.checkpoint.resume, "no");
    ck_assert_int_eq(c.log.trace_steps, 3);
    ck_assert_int_eq(c.compare.warmup, 2);
    cadre_options_destroy(o);
}
END_TEST

static struct cadre_config shown;

static const struct {
    const char *assignment;
    const void *field;
    unsigned expected;
} choices[] = {
    {"model.arch=gpt2", &shown.model.arch, CADRE_CONFIG_GPT2},
    {"model.arch=llama", &shown.model.arch, CADRE_CONFIG_LLAMA},
    {"model.arch=vit", &shown.model.arch, CADRE_CONFIG_VIT},
    {"model.rope_scaling=none", &shown.model.rope_scaling, CADRE_CONFIG_ROPE_NONE},
    {"model.rope_scaling=linear", &shown.model.rope_scaling, CADRE_CONFIG_ROPE_LINEAR},
    {"model.rope_scaling=llama3", &shown.model.rope_scaling, CADRE_CONFIG_ROPE_LLAMA3},
    {"data.layout=nchw", &shown.data.layout, CADRE_CONFIG_NCHW},
    {"data.layout=nhwc", &shown.data.layout, CADRE_CONFIG_NHWC},
    {"run.elastic=no", &shown.run.elastic, CADRE_CONFIG_ELASTIC_NO},
    {"run.elastic=yes", &shown.run.elastic, CADRE_CONFIG_ELASTIC_YES},
    {"run.elastic=replace", &shown.run.elastic, CADRE_CONFIG_ELASTIC_REPLACE},
    {"model.head=lm", &shown.model.head, CADRE_CONFIG_LM},
    {"model.head=classify", &shown.model.head, CADRE_CONFIG_CLASSIFY},
    {"model.tied=auto", &shown.model.tied, CADRE_CONFIG_AUTO},
    {"model.tied=yes", &shown.model.tied, CADRE_CONFIG_YES},
    {"model.tied=no", &shown.model.tied, CADRE_CONFIG_NO},
    {"train.precision=fp32", &shown.train.precision, CADRE_CONFIG_FP32},
    {"train.precision=fp64", &shown.train.precision, CADRE_CONFIG_FP64},
    {"train.precision=bf16", &shown.train.precision, CADRE_CONFIG_BF16},
    {"train.precision=fp16", &shown.train.precision, CADRE_CONFIG_FP16},
    {"train.recompute=none", &shown.train.recompute, CADRE_CONFIG_NONE},
    {"train.recompute=block", &shown.train.recompute, CADRE_CONFIG_BLOCK},
    {"optim.schedule=constant", &shown.optim.schedule, CADRE_CONFIG_CONSTANT},
    {"optim.schedule=cosine", &shown.optim.schedule, CADRE_CONFIG_COSINE},
    {"optim.schedule=linear", &shown.optim.schedule, CADRE_CONFIG_LINEAR},
    {"tune.method=full", &shown.tune.method, CADRE_CONFIG_TUNE_FULL},
    {"tune.method=lora", &shown.tune.method, CADRE_CONFIG_TUNE_LORA},
    {"tune.method=qlora", &shown.tune.method, CADRE_CONFIG_TUNE_QLORA},
    {"tune.method=dpo", &shown.tune.method, CADRE_CONFIG_TUNE_DPO},
    {"tune.method=qat", &shown.tune.method, CADRE_CONFIG_TUNE_QAT},
    {"tune.base=full", &shown.tune.base, CADRE_CONFIG_BASE_FULL},
    {"tune.base=nf4", &shown.tune.base, CADRE_CONFIG_BASE_NF4},
    {"tune.adapters=none", &shown.tune.adapters, CADRE_CONFIG_ADAPTERS_NONE},
    {"tune.adapters=lora", &shown.tune.adapters, CADRE_CONFIG_ADAPTERS_LORA},
    {"tune.adapters=qlora", &shown.tune.adapters, CADRE_CONFIG_ADAPTERS_QLORA},
    {"device.gemm=auto", &shown.device.gemm, CADRE_CONFIG_GEMM_AUTO},
    {"device.gemm=cadre", &shown.device.gemm, CADRE_CONFIG_GEMM_CADRE},
    {"device.gemm=library", &shown.device.gemm, CADRE_CONFIG_GEMM_LIBRARY},
    {"comm.backend=auto", &shown.comm.backend, CADRE_CONFIG_BACKEND_AUTO},
    {"comm.backend=local", &shown.comm.backend, CADRE_CONFIG_BACKEND_LOCAL},
    {"comm.backend=mpi", &shown.comm.backend, CADRE_CONFIG_BACKEND_MPI},
    {"comm.backend=nccl", &shown.comm.backend, CADRE_CONFIG_BACKEND_NCCL},
    {"comm.ranks=threads", &shown.comm.ranks, CADRE_CONFIG_THREADS},
    {"comm.ranks=processes", &shown.comm.ranks, CADRE_CONFIG_PROCESSES},
    {"log.trace_format=perfetto", &shown.log.trace_format, CADRE_CONFIG_PERFETTO},
    {"log.trace_format=kineto", &shown.log.trace_format, CADRE_CONFIG_KINETO},
    {"log.progress=auto", &shown.log.progress, CADRE_CONFIG_AUTO},
    {"log.progress=yes", &shown.log.progress, CADRE_CONFIG_YES},
    {"log.progress=no", &shown.log.progress, CADRE_CONFIG_NO},
};

/* The enums follow the order of the choices. */
START_TEST(choices_become_their_enums)
{
    unsigned value;
    cadre_options_destroy(make(&shown, choices[_i].assignment));
    memcpy(&value, choices[_i].field, sizeof value);
    ck_assert_msg(value == choices[_i].expected, "%s is %u", choices[_i].assignment,
                  value);
}
END_TEST

static size_t choices_of(const char *text)
{
    size_t n = 1;
    for (; *text; text++)
        n += *text == ',';
    return n;
}

/* An enum that gained a value is in the list above. */
START_TEST(every_choice_is_listed)
{
    size_t n, in_table = 0;
    const struct cadre_config_key *table = cadre_option_table(&n);
    for (size_t i = 0; i < n; i++)
        if (table[i].field == CADRE_FIELD_CHOICE)
            in_table += choices_of(table[i].option.choices);
    ck_assert_uint_eq(in_table, sizeof choices / sizeof choices[0]);
}
END_TEST

/* A key fills a field of its own type, which no other key fills. */
START_TEST(fields_fit_their_keys)
{
    static const enum cadre_config_field field[] = {
        [CADRE_OPTION_BOOL] = CADRE_FIELD_BOOL, [CADRE_OPTION_I64] = CADRE_FIELD_I64,
        [CADRE_OPTION_F64] = CADRE_FIELD_F64,   [CADRE_OPTION_STR] = CADRE_FIELD_TEXT,
        [CADRE_OPTION_ENUM] = CADRE_FIELD_TEXT, [CADRE_OPTION_BYTES] = CADRE_FIELD_I64,
    };
    size_t n;
    const struct cadre_config_key *table = cadre_option_table(&n);
    for (size_t i = 0; i < n; i++) {
        const struct cadre_config_key *key = &table[i];
        const bool choice =
            key->option.type == CADRE_OPTION_ENUM && key->field == CADRE_FIELD_CHOICE;
        ck_assert_msg(choice || field[key->option.type] == key->field, "%s.%s",
                      key->section, key->option.key);
        for (size_t k = 0; k < i; k++)
            ck_assert_uint_ne(table[k].offset, key->offset);
    }
}
END_TEST

static size_t bytes_of(enum cadre_config_field field)
{
    return field == CADRE_FIELD_BOOL     ? sizeof(bool)
           : field == CADRE_FIELD_CHOICE ? sizeof(unsigned)
                                         : 8;
}

/* Every key reaches its field: each is set to another value than its default. */
START_TEST(every_key_reaches_its_field)
{
    size_t n;
    const struct cadre_config_key *table = cadre_option_table(&n);
    for (size_t i = 0; i < n; i++) {
        const struct cadre_option *option = &table[i].option;
        struct cadre_config before, after;
        char text[256], number[64];
        const char *last = option->choices ? strrchr(option->choices, ' ') : NULL;
        snprintf(number, sizeof number, "%g",
                 option->max < 1e6 ? option->max : option->min + 5);
        snprintf(text, sizeof text, "%s.%s=%s", table[i].section, option->key,
                 option->type == CADRE_OPTION_BOOL  ? *option->def == 'y' ? "no" : "yes"
                 : option->type == CADRE_OPTION_STR ? "another"
                 : last                             ? last + 1
                                                    : number);
        struct cadre_options *a = make(&before, ""), *b = make(&after, text);
        ck_assert_mem_ne((const char *)&before + table[i].offset,
                         (const char *)&after + table[i].offset,
                         bytes_of(table[i].field));
        cadre_options_destroy(a);
        cadre_options_destroy(b);
    }
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("config");
    TCase *tc = options_case("config");
    tcase_add_test(tc, defaults_fill_fields);
    tcase_add_loop_test(tc, choices_become_their_enums, 0,
                        sizeof choices / sizeof choices[0]);
    tcase_add_test(tc, every_choice_is_listed);
    tcase_add_test(tc, fields_fit_their_keys);
    tcase_add_test(tc, every_key_reaches_its_field);
    suite_add_tcase(s, tc);
    return s;
}
