/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/mig/command.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "cadre mig list [--json]\n"
    "      GPUs, their MIG instances, profiles and free places\n"
    "cadre mig plan WANTED [--gpu N] [--replace] [--json]\n"
    "      where WANTED would be placed; changes nothing. Status 2: it does not fit\n"
    "cadre mig apply --admin WANTED [--gpu N] [--replace] [--enable] [--yes]\n"
    "      print the steps, ask, and make WANTED; refused while anything uses the GPU\n"
    "\n"
    "WANTED is such as 1g x2 + 2g + 3g: names of profiles, whole (1g.18gb+me) or as\n"
    "compute slices (1g, 1g+me), each with a count.\n"
    "      --gpu N      the GPU, where there are several\n"
    "      --replace    in place of the existing instances, not in addition to them\n"
    "      --enable     turn MIG mode on where it is off\n"
    "      --yes        do not ask\n";

cadre_status mig_say(const struct mig_call *call, const char *fmt, ...)
{
    char text[4096];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return call->command->print(call->command->h, text);
}

cadre_status mig_refuse(const struct mig_call *call, cadre_status status,
                        const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return call->command->refuse(call->command->h, status, text);
}

const char *mig_json_text(const char *text, char *out, size_t bytes)
{
    size_t n = 0;
    for (; *text && n + 7 < bytes; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            out[n++] = '\\';
        if (c < 0x20)
            n += (size_t)snprintf(out + n, bytes - n, "\\u%04x", c);
        else
            out[n++] = (char)c;
    }
    out[n] = 0;
    return out;
}

static cadre_status take_gpu(struct mig_call *call, const char *text)
{
    char *end = NULL;
    long gpu = text ? strtol(text, &end, 10) : -1;
    if (!text || end == text || *end || gpu < 0 || gpu > 1023)
        return mig_refuse(call, CADRE_E_INVALID,
                          "--gpu needs the number of a GPU, not '%.40s'; `cadre mig "
                          "list` shows them",
                          text ? text : "");
    call->gpu = (int)gpu;
    return CADRE_OK;
}

static cadre_status take_word(struct mig_call *call, const char *word)
{
    size_t used = strlen(call->wanted);
    if (used + strlen(word) + 2 > sizeof call->wanted)
        return mig_refuse(call, CADRE_E_INVALID, "WANTED is longer than %zu bytes",
                          sizeof call->wanted - 1);
    snprintf(call->wanted + used, sizeof call->wanted - used, "%s%s", used ? " " : "",
             word);
    return CADRE_OK;
}

/* A command, and the flags that it takes besides --gpu. */
struct known {
    const char *name;
    cadre_status (*run)(const struct mig_call *);
    const char *flags;
    bool wants;
};

static cadre_status parse(struct mig_call *call, const struct known *known)
{
    const struct cadre_command *c = call->command;
    const struct {
        const char *name;
        bool *on;
    } flags[] = {
        {"--json", &call->json},       {"--admin", &call->admin},
        {"--yes", &call->yes},         {"--enable", &call->enable},
        {"--replace", &call->replace},
    };
    for (uint32_t i = 1; i < c->argc; i++) {
        const char *word = c->argv[i];
        bool taken = strncmp(word, "--", 2) != 0;
        cadre_status rc = CADRE_OK;
        if (taken && known->wants) {
            rc = take_word(call, word);
        } else if (known->wants && strcmp(word, "--gpu") == 0) {
            taken = true;
            rc = take_gpu(call, c->argv[++i]);
            i = i > c->argc ? c->argc : i;
        } else {
            taken = false;
        }
        for (size_t f = 0; !taken && f < sizeof flags / sizeof *flags; f++)
            if (strcmp(word, flags[f].name) == 0 && strstr(known->flags, word))
                *flags[f].on = taken = true;
        if (!taken)
            rc = mig_refuse(call, CADRE_E_INVALID,
                            "'%.40s' is nothing that `cadre mig %s` takes; `cadre mig "
                            "--help` says what is",
                            word, known->name);
        CADRE_TRY(rc);
    }
    if (known->wants && !*call->wanted)
        return mig_refuse(call, CADRE_E_INVALID,
                          "say what is wanted, such as `cadre mig %s 1g x2 + 2g + 3g`",
                          known->name);
    return CADRE_OK;
}

cadre_status mig_command(const struct cadre_command *command)
{
    static const struct known commands[] = {
        {"list", mig_command_list, "--json", false},
        {"plan", mig_command_plan, "--json --replace", true},
        {"apply", mig_command_apply, "--admin --replace --enable --yes", true},
        {"doctor", mig_command_doctor, "", false},
    };
    for (uint32_t i = 0; i < command->argc; i++)
        if (strcmp(command->argv[i], "--help") == 0 ||
            strcmp(command->argv[i], "-h") == 0)
            return command->print(command->h, usage);
    if (!command->argc)
        return command->print(command->h, usage);
    struct mig_call *call = calloc(1, sizeof *call);
    if (!call)
        return command->refuse(command->h, CADRE_E_RESOURCE, "no memory");
    cadre_status rc;
    const struct known *found = NULL;
    call->command = command;
    call->gpu = -1;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(command->argv[0], commands[i].name) == 0)
            found = &commands[i];
    if (!found) {
        rc = mig_refuse(call, CADRE_E_INVALID,
                        "no command '%.40s': `cadre mig` has list, plan and apply",
                        command->argv[0]);
        goto out;
    }
    CADRE_TRY_OR(parse(call, found), out);
    mig_library_open(&call->library);
    rc = found->run(call);
    mig_library_close(&call->library);
out:
    free(call);
    return rc;
}
