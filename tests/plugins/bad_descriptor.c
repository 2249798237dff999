/* SPDX-License-Identifier: Apache-2.0 */
/* One module for all bad descriptors: CADRE_TEST_BAD names what is wrong with it.
 * Unset, it is a good plugin named sample. (A real entry is pure and reads no
 * environment.) */
#include <stdlib.h>
#include <string.h>

#include <cadre/strategy.h>

/* As a plugin of a later minor has them: longer than ours. */
struct later_option {
    struct cadre_option now;
    uint64_t later[3];
};
struct later_ops {
    struct cadre_strategy_ops now;
    void (*later[4])(void);
};
struct later_plugin {
    struct cadre_plugin now;
    uint64_t later[8];
};

static void poison(void)
{
    abort();
}

static cadre_status create(const struct cadre_create *in, struct cadre_self **out)
{
    *out = NULL;
    return CADRE_OK;
}

static cadre_status plan(struct cadre_self *self, const struct cadre_plan *plan)
{
    return CADRE_OK;
}

static cadre_status bind(struct cadre_self *self, const struct cadre_bind *in)
{
    return CADRE_OK;
}

static cadre_status sync(struct cadre_self *self, const struct cadre_sync *in)
{
    return CADRE_OK;
}

static void destroy(struct cadre_self *self, const struct cadre_end *end)
{
}

static cadre_status update(struct cadre_self *self, const struct cadre_update_ev *ev)
{
    return CADRE_OK;
}

static uint64_t wire_bytes(struct cadre_self *self, uint32_t kind, uint32_t dtype,
                           uint64_t n)
{
    return 0;
}

/* Says what it was called with, then refuses as its first word asks. */
static cadre_status command(const struct cadre_command *c)
{
    for (uint32_t i = 0; i < c->argc; i++) {
        c->print(c->h, i ? " " : "sample ");
        c->print(c->h, c->argv[i]);
    }
    c->print(c->h, "\n");
    if (c->argc && !strcmp(c->argv[0], "ask")) {
        int answer = c->ask(c->h, "Really?");
        return c->print(c->h, answer > 0    ? "answer: yes\n"
                              : answer == 0 ? "answer: no\n"
                                            : "answer: nobody there\n");
    }
    if (c->argc && !strcmp(c->argv[0], "refuse"))
        return c->refuse(c->h, CADRE_E_DEVICE, "as was asked");
    return c->argc && !strcmp(c->argv[0], "fail") ? CADRE_E_IO : CADRE_OK;
}

static struct later_option options[3];
static struct later_ops ops = {.later = {poison, poison, poison, poison}};
static struct later_plugin me = {.later = {1, 2, 3, 4, 5, 6, 7, 8}};
static struct cadre_service services[80];

static void make_good(void)
{
    options[0].now = (struct cadre_option){
        .struct_size = sizeof options[0].now,
        .type = CADRE_OPTION_I64,
        .key = "width",
        .def = "8",
        .help = "a number",
        .min = 1,
        .max = 64,
    };
    options[1].now = (struct cadre_option){
        .struct_size = sizeof options[1].now,
        .type = CADRE_OPTION_ENUM,
        .key = "mode",
        .def = "slow",
        .choices = "slow, fast",
        .help = "a choice",
    };
    options[2].now = (struct cadre_option){
        .struct_size = sizeof options[2].now,
        .type = CADRE_OPTION_BOOL,
        .key = "loud",
        .def = "no",
        .help = "a switch",
    };
    ops.now = (struct cadre_strategy_ops){
        .struct_size = sizeof ops.now,
        .create = create,
        .plan = plan,
        .bind = bind,
        .sync = sync,
        .destroy = destroy,
    };
    memset(services, 0, sizeof services);
    services[0] = (struct cadre_service){
        CADRE_SERVICE_COMM,
        0,
        sizeof(struct cadre_comm_svc),
    };
    me.now = (struct cadre_plugin){
        .magic = CADRE_MAGIC,
        .struct_size = sizeof me.now,
        .abi_major = CADRE_ABI_MAJOR,
        .abi_minor = CADRE_ABI_MINOR,
        .role = CADRE_ROLE_DATA,
        .id = "org.example.sample",
        .version = "1.0",
        .summary = "does nothing",
        .axis = "dp",
        .options = &options[0].now,
        .n_options = 3,
        .option_stride = sizeof options[0],
        .services = services,
        .ops = &ops.now,
        .command = command,
    };
}

static void spoil_head(const char *bad)
{
    if (!strcmp(bad, "longer")) {
        me.now.struct_size = sizeof me;
        ops.now.struct_size = sizeof ops;
        for (int i = 0; i < 3; i++)
            options[i].now.struct_size = sizeof options[i];
    }
    if (!strcmp(bad, "older"))
        me.now.struct_size = offsetof(struct cadre_plugin, command);
    if (!strcmp(bad, "magic"))
        me.now.magic = 42;
    if (!strcmp(bad, "major"))
        me.now.abi_major = CADRE_ABI_MAJOR + 3;
    if (!strcmp(bad, "minor"))
        me.now.abi_minor = 8; /* before the oldest that is taken */
    if (!strcmp(bad, "next_minor"))
        me.now.abi_minor = CADRE_ABI_MINOR + 1;
    if (!strcmp(bad, "host_minor"))
        me.now.min_host_minor = CADRE_ABI_MINOR + 1;
    if (!strcmp(bad, "struct_size"))
        me.now.struct_size = 88;
    if (!strcmp(bad, "id_none"))
        me.now.id = NULL;
    if (!strcmp(bad, "id_upper"))
        me.now.id = "org.example.Sample";
    if (!strcmp(bad, "id_one_part"))
        me.now.id = "sample";
    if (!strcmp(bad, "id_path"))
        me.now.id = "org.example./etc/passwd";
    if (!strcmp(bad, "id_long"))
        me.now.id = "org.example.a23456789012345678901234567890123";
    if (!strcmp(bad, "id_reserved"))
        me.now.id = "org.example.train";
    if (!strcmp(bad, "version"))
        me.now.version = NULL;
    if (!strcmp(bad, "summary"))
        me.now.summary = "two\nlines";
    if (!strcmp(bad, "role"))
        me.now.role = 77;
    if (!strcmp(bad, "axis"))
        me.now.axis = "D P";
    if (!strcmp(bad, "axis_long"))
        me.now.axis = "a2345678901234567890123456789012";
    if (!strcmp(bad, "id_ours"))
        me.now.id = "org.example.ddp";
    if (!strcmp(bad, "id_cadre"))
        me.now.id = "org.cadre.ddp";
    if (!strcmp(bad, "optimizer") || !strcmp(bad, "no_update"))
        me.now.axis = NULL;
    if (!strcmp(bad, "optimizer") || !strcmp(bad, "no_update") ||
        !strcmp(bad, "optimizer_axis"))
        me.now.role = CADRE_ROLE_OPTIMIZER;
    if (!strcmp(bad, "service"))
        services[1].id = "com.vendor.turbo/3";
    if (!strcmp(bad, "service_bytes"))
        services[0].bytes += 8;
    for (int i = 1; i < 80 && !strcmp(bad, "services_endless"); i++)
        services[i].id = CADRE_SERVICE_MESH;
}

static void spoil_ops(const char *bad)
{
    if (!strcmp(bad, "ops"))
        me.now.ops = NULL;
    if (!strcmp(bad, "ops_size"))
        ops.now.struct_size = 40;
    if (!strcmp(bad, "no_create"))
        ops.now.create = NULL;
    if (!strcmp(bad, "no_plan"))
        ops.now.plan = NULL;
    if (!strcmp(bad, "no_bind"))
        ops.now.bind = NULL;
    if (!strcmp(bad, "no_sync"))
        ops.now.sync = NULL;
    if (!strcmp(bad, "no_destroy"))
        ops.now.destroy = NULL;
    if (!strcmp(bad, "optimizer") || !strcmp(bad, "optimizer_axis"))
        ops.now.update = update;
    if (!strcmp(bad, "wire_alone"))
        ops.now.wire_bytes = wire_bytes;
}

static void spoil_options(const char *bad)
{
    if (!strcmp(bad, "options_null"))
        me.now.options = NULL;
    if (!strcmp(bad, "options_many"))
        me.now.n_options = 1u << 30;
    if (!strcmp(bad, "stride"))
        me.now.option_stride = 8;
    if (!strcmp(bad, "key_upper"))
        options[0].now.key = "Width";
    if (!strcmp(bad, "key_none"))
        options[0].now.key = NULL;
    if (!strcmp(bad, "key_twice"))
        options[2].now.key = "width";
    if (!strcmp(bad, "type"))
        options[0].now.type = 31;
    if (!strcmp(bad, "default_none"))
        options[0].now.def = NULL;
    if (!strcmp(bad, "help_none"))
        options[0].now.help = NULL;
    if (!strcmp(bad, "default_range"))
        options[0].now.def = "65";
    if (!strcmp(bad, "default_text"))
        options[0].now.def = "8x";
    if (!strcmp(bad, "range"))
        options[0].now.min = 65;
    if (!strcmp(bad, "enum_default"))
        options[1].now.def = "medium";
    if (!strcmp(bad, "enum_choices"))
        options[1].now.choices = NULL;
    if (!strcmp(bad, "choices"))
        options[0].now.choices = "8, 9";
    if (!strcmp(bad, "bool_default"))
        options[2].now.def = "perhaps";
}

const struct cadre_plugin *CADRE_ENTRY(void)
{
    const char *bad = getenv("CADRE_TEST_BAD");
    make_good();
    if (!bad)
        return &me.now;
    spoil_head(bad);
    spoil_ops(bad);
    spoil_options(bad);
    return strcmp(bad, "null") ? &me.now : NULL;
}
