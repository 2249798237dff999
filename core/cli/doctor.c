/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre doctor`: what was found on this machine, what was not, and why. */
#include "core/cli/cli.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "config.h"
#include "core/base/cores.h"
#include "core/base/json.h"
#include "core/base/memory.h"
#include "core/base/terminal.h"
#include "core/comm/module.h"
#include "core/device/device.h"
#include "core/device/module.h"
#include "core/launch/launcher.h"
#include "core/plugin/plugin.h"

/* A finding: `state` is "yes", "no" or "warning". */
struct finding {
    char area[16], state[8], text[512];
};

#define MAX_FINDINGS 64
struct findings {
    int n;
    struct finding item[MAX_FINDINGS];
};

static void note(struct findings *f, const char *area, const char *state,
                 const char *fmt, ...) __attribute__((format(printf, 4, 5)));

static void note(struct findings *f, const char *area, const char *state,
                 const char *fmt, ...)
{
    if (f->n == MAX_FINDINGS)
        return;
    struct finding *item = &f->item[f->n++];
    va_list ap;
    snprintf(item->area, sizeof item->area, "%s", area);
    snprintf(item->state, sizeof item->state, "%s", state);
    va_start(ap, fmt);
    vsnprintf(item->text, sizeof item->text, fmt, ap);
    va_end(ap);
}

/* The value after ": " of the first line of /proc/cpuinfo that begins with key. */
static void cpu_model(char *out, size_t size)
{
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(out, size, "unknown");
    while (file && fgets(line, sizeof line, file)) {
        char *value = strstr(line, ": ");
        if (strncmp(line, "model name", 10) != 0 || !value)
            continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(out, size, "%s", value + 2);
        break;
    }
    if (file)
        fclose(file);
}

static void look_at_cpu(struct findings *f)
{
    char model[256];
    cpu_set_t allowed;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int mine =
        sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 0;
    double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    const double quota = cadre_cores_quota("");
    cpu_model(model, sizeof model);
    note(f, "cpu", "yes", "%s, %ld CPUs online, %d of them for this process", model,
         online, mine);
    if (mine > 0 && cadre_cores_of(&allowed, "") < mine)
        note(f, "cpu", "yes",
             "they are hardware threads of %d cores (device.threads = 0)",
             cadre_cores_of(&allowed, ""));
    if (quota < mine)
        note(f, "cpu", "warning",
             "a limit of CPU time (cgroup) leaves %.3g cores, used as %d", quota,
             cadre_cores());
    note(f, "cpu", "yes", "%.1f GiB of memory", memory / 1073741824.0);
    struct cadre_text text = {0};
    cadre_device_describe(&text);
    char *copy = cadre_strdup(cadre_text_str(&text)), *rest = copy;
    for (char *line = copy ? strsep(&rest, "\n") : NULL; line;
         line = strsep(&rest, "\n")) {
        static const char warning[] = "warning: ";
        bool warned = strncmp(line, warning, sizeof warning - 1) == 0;
        if (*line)
            note(f, "cpu", warned ? "warning" : "yes", "%s",
                 warned ? line + sizeof warning - 1 : line);
    }
    free(copy);
    cadre_text_fini(&text);
}

/* A finding for each line; one that begins with "no: " was not found. */
static void look_at_lines(struct findings *f, const char *area, const char *text)
{
    char *copy = cadre_strdup(text), *rest = copy;
    for (char *line = copy ? strsep(&rest, "\n") : NULL; line;
         line = strsep(&rest, "\n")) {
        bool no = strncmp(line, "no: ", 4) == 0;
        if (*line)
            note(f, area, no ? "no" : "yes", "%s", no ? line + 4 : line);
    }
    free(copy);
}

static void look_at_module(struct findings *f, const char *area,
                           void (*describe)(struct cadre_text *))
{
    struct cadre_text text = {0};
    describe(&text);
    look_at_lines(f, area, cadre_text_str(&text));
    cadre_text_fini(&text);
}

static void describe_mig(struct cadre_text *text)
{
    cadre_cli_plugin_describe("mig", text);
}

static void look_at_modules(struct findings *f)
{
    look_at_module(f, "cuda", cadre_device_describe_cuda);
    look_at_module(f, "nccl", cadre_comm_describe_nccl);
    look_at_module(f, "mpi", cadre_comm_describe_mpi);
    look_at_module(f, "mig", describe_mig);
}

static void look_at_plugins(struct findings *f)
{
    char **names = cadre_plugin_list("");
    int n = 0;
    for (char **name = names; name && *name; name++, n++) {
        const struct cadre_plugin_handle *plugin;
        struct cadre_error err = {0};
        if (cadre_plugin_load(*name, "", &plugin, &err) == CADRE_OK)
            note(f, "plugin", "yes", "%s %s: %s (%s)", plugin->name,
                 plugin->desc.version, plugin->desc.summary, plugin->path);
        else
            note(f, "plugin", "no", "%s", err.text);
        free(*name);
    }
    free(names);
    note(f, "plugin", "yes", "single: built in, the reference");
    if (n == 0)
        note(f, "plugin", "warning", "no plugin file found; set CADRE_PLUGIN_PATH");
}

/* The launcher that started this process as one rank, if any, and why it was
 * recognised or not. */
static void look_at_launcher(struct findings *f)
{
    const struct cadre_launcher_env env = cadre_launcher_environment();
    struct cadre_launch_external external;
    struct cadre_error err = {0};
    struct cadre_text why = {0};
    cadre_status rc = cadre_launcher_find(&env, &external, &why, &err);
    if (rc == CADRE_OK)
        rc = cadre_launch_external(&external, &err);
    if (rc != CADRE_OK)
        note(f, "launcher", "warning", "%s", err.text);
    else if (!external.launcher)
        note(f, "launcher", "no",
             "none: Cadre starts its ranks itself on this machine");
    look_at_lines(f, "launcher", cadre_text_str(&why));
    if (rc == CADRE_OK && external.where[0])
        note(f, "launcher", "yes", "the ranks meet at %s%s%s", external.where,
             external.job[0] ? ", job " : "", external.job);
    else if (rc == CADRE_OK && external.launcher)
        note(f, "launcher", external.mpi ? "yes" : "warning",
             external.mpi ? "the ranks meet over MPI"
                          : "the rendezvous of the ranks is not given; set CADRE_INIT");
    cadre_text_fini(&why);
}

static void look_at_data(struct findings *f)
{
    const char *mitdb = getenv("CADRE_MITDB");
    struct statvfs disk;
    if (!mitdb || !*mitdb)
        note(f, "data", "no", "CADRE_MITDB is not set");
    else if (access(mitdb, R_OK) == 0)
        note(f, "data", "yes", "CADRE_MITDB = %s", mitdb);
    else
        note(f, "data", "warning", "CADRE_MITDB = %s: %s", mitdb, strerror(errno));
    if (statvfs(".", &disk) == 0)
        note(f, "disk", "yes", "%.1f GiB free in the current folder",
             (double)disk.f_bavail * (double)disk.f_frsize / 1073741824.0);
}

static cadre_status print_json(const struct findings *f, struct cadre_error *err)
{
    struct cadre_json json;
    cadre_json_init(&json, stdout, true);
    cadre_json_begin_object(&json);
    cadre_json_put_head(&json, 1);
    cadre_json_put_string(&json, "version", PACKAGE_VERSION);
    cadre_json_key(&json, "findings");
    cadre_json_begin_array(&json);
    for (int i = 0; i < f->n; i++) {
        cadre_json_begin_object(&json);
        cadre_json_put_string(&json, "area", f->item[i].area);
        cadre_json_put_string(&json, "found", f->item[i].state);
        cadre_json_put_string(&json, "text", f->item[i].text);
        cadre_json_end_object(&json);
    }
    cadre_json_end_array(&json);
    cadre_json_end_object(&json);
    if (cadre_json_finish(&json) != CADRE_OK)
        return cadre_fail(err, CADRE_E_IO, "cannot write to stdout");
    return CADRE_OK;
}

static cadre_status print_finding(const struct finding *item, struct cadre_error *err)
{
    char first[sizeof item->state + sizeof item->area + 4];
    snprintf(first, sizeof first, "%-8s %-10s ", item->state, item->area);
    if (cadre_terminal_write(stdout, first, (int)strlen(first), item->text))
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_IO, "cannot write to stdout");
}

static cadre_status doctor(const struct cadre_cli_args *args, struct cadre_error *err)
{
    struct findings *f = cadre_calloc(1, sizeof *f);
    cadre_status rc = CADRE_OK;
    if (!f)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory");
    look_at_cpu(f);
    look_at_modules(f);
    look_at_plugins(f);
    look_at_launcher(f);
    look_at_data(f);
    if (args->json)
        rc = print_json(f, err);
    else
        printf("%s\n", PACKAGE_STRING);
    for (int i = 0; !args->json && i < f->n && rc == CADRE_OK; i++)
        rc = print_finding(&f->item[i], err);
    free(f);
    return rc;
}

static const struct cadre_cli_option options[] = {
    CADRE_CLI_OPTION_JSON,
    {0},
};

const struct cadre_cli_command cadre_command_doctor = {
    .name = "doctor",
    .synopsis = "[--json]",
    .summary = "what was found on this machine, what was not, and why",
    .options = options,
    .run = doctor,
};
