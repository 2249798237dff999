/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre mig apply --admin`: the only code in Cadre that changes the MIG layout of a
 * GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/mig/command.h"
#include "plugins/mig/instances.h"
#include "plugins/mig/steps.h"

#define MAX_STEPS (2u * MIG_MAX_SLICES)

struct work {
    const struct mig_call *call;
    struct mig_gpu gpu;
    struct mig_wanted wanted;
    struct mig_layout layout;
    uint32_t n;
    struct mig_step step[MAX_STEPS];
    struct mig_list list;
    bool turned_on; /* MIG mode, by this call */
};

/* The first words of a refusal. */
static const char *unchanged(const struct work *w)
{
    return w->turned_on
               ? "MIG mode was turned on and stays so, nothing more was changed"
               : "nothing was changed";
}

/* Processes that use a GPU or its MIG devices, by NVML, each once. */
struct users {
    uint32_t n;
    unsigned pid[64];
};
#define MAX_USERS (sizeof(((struct users *)0)->pid) / sizeof(unsigned))

static void add_user(struct users *users, unsigned pid)
{
    for (uint32_t i = 0; i < users->n; i++)
        if (users->pid[i] == pid)
            return;
    if (users->n < MAX_USERS)
        users->pid[users->n++] = pid;
}

/* "process 7", "processes 7, 9" */
static const char *users_text(const struct users *users, char *out, size_t bytes)
{
    size_t n = (size_t)snprintf(out, bytes, "process%s", users->n > 1 ? "es" : "");
    for (uint32_t i = 0; i < users->n && n < bytes; i++)
        n += (size_t)snprintf(out + n, bytes - n, "%s %u", i ? "," : "", users->pid[i]);
    return out;
}

typedef int list_fn(nvml_device, unsigned *, struct nvml_process *);

static int find_users(list_fn *newer, list_fn *older, nvml_device device,
                      struct users *users)
{
    struct nvml_process found[MAX_USERS] = {{0}};
    unsigned n = MAX_USERS;
    list_fn *list = newer ? newer : older;
    int code = list ? list(device, &n, found) : NVML_FUNCTION_NOT_FOUND;
    if (code != NVML_OK)
        return code;
    for (unsigned i = 0; i < n && i < MAX_USERS; i++)
        add_user(users, found[i].pid);
    return NVML_OK;
}

/* An administrator sees the processes of all instances on the GPU itself; the instances
 * are queried too. */
static cadre_status check_idle(const struct work *w)
{
    const struct mig_nvml *nvml = &w->call->library.nvml;
    struct users users = {0};
    char text[256];
    unsigned max = 0;
    int code = find_users(nvml->compute_v3, nvml->compute_v2, w->gpu.device, &users);
    int graphics =
        find_users(nvml->graphics_v3, nvml->graphics_v2, w->gpu.device, &users);
    if (code == NVML_OK && graphics != NVML_NOT_SUPPORTED)
        code = graphics;
    if (NVML_CALL(nvml, max_mig, w->gpu.device, &max) != NVML_OK || !w->gpu.on)
        max = 0;
    for (unsigned i = 0; i < max && code == NVML_OK; i++) {
        nvml_device mig = NULL;
        if (NVML_CALL(nvml, mig_by_index, w->gpu.device, i, &mig) != NVML_OK)
            continue;
        code = find_users(nvml->compute_v3, nvml->compute_v2, mig, &users);
        code = code == NVML_NOT_SUPPORTED ? NVML_OK : code;
    }
    if (code != NVML_OK)
        return mig_refuse(w->call, CADRE_E_UNSUPPORTED,
                          "%s: the driver does not say whether GPU %u is in use (%s)",
                          unchanged(w), w->gpu.index, mig_nvml_text(code));
    if (users.n)
        return mig_refuse(w->call, CADRE_E_UNSUPPORTED,
                          "%s: GPU %u is in use by the %s, which must end first",
                          unchanged(w), w->gpu.index,
                          users_text(&users, text, sizeof text));
    return CADRE_OK;
}

static cadre_status ask(const struct work *w, const char *question)
{
    const struct mig_call *call = w->call;
    int answer = call->yes ? 1 : call->command->ask(call->command->h, question);
    if (answer > 0)
        return CADRE_OK;
    if (answer < 0)
        return mig_refuse(call, CADRE_E_INVALID,
                          "%s: there is no terminal to ask on; --yes does it without",
                          unchanged(w));
    return mig_refuse(call, CADRE_E_STOPPED, "%s: the answer was no", unchanged(w));
}

static void plan_steps(struct work *w)
{
    w->n = 0;
    for (uint32_t i = 0; w->call->replace && i < w->gpu.n_taken; i++)
        w->step[w->n++] = (struct mig_step){
            .profile = w->gpu.taken[i].profile,
            .at = w->gpu.taken[i].at,
            .handle = w->gpu.taken[i].handle,
        };
    for (uint32_t i = 0; i < w->layout.n; i++)
        w->step[w->n++] = (struct mig_step){
            .create = true,
            .profile = w->layout.item[i].profile,
            .at = w->layout.item[i].at,
        };
}

static cadre_status print_steps(const struct work *w)
{
    char text[200];
    CADRE_TRY(
        mig_say(w->call, "GPU %u (%s, %s):\n", w->gpu.index, w->gpu.name, w->gpu.uuid));
    for (uint32_t i = 0; i < w->n; i++)
        CADRE_TRY(mig_say(w->call, "  %u. %s\n", i + 1,
                          mig_step_text(&w->gpu, &w->step[i], text, sizeof text)));
    return CADRE_OK;
}

/* Undo steps [0, n) and report each; *standing: how many could not be undone. */
static void undo(struct work *w, uint32_t n, uint32_t *standing)
{
    char text[200];
    *standing = 0;
    for (uint32_t i = n; i--;) {
        struct mig_refusal why = {0};
        bool undone = mig_step_undo(&w->call->library, &w->gpu, &w->step[i], &why);
        *standing += !undone;
        mig_step_text(&w->gpu, &w->step[i], text, sizeof text);
        if (undone)
            mig_say(w->call, "undone  %u. %s%s\n", i + 1, text,
                    w->step[i].create ? "" : " (made again, with another UUID)");
        else
            mig_say(w->call, "STANDS  %u. %s: cannot be undone, %s: %s%s%s\n", i + 1,
                    text, why.function, mig_nvml_text(why.code),
                    *why.remains ? "; " : "", why.remains);
    }
}

static cadre_status do_steps(struct work *w)
{
    char text[200];
    struct mig_refusal why = {0};
    uint32_t i = 0, standing = 0;
    for (; i < w->n; i++) {
        mig_step_text(&w->gpu, &w->step[i], text, sizeof text);
        if (!mig_step_do(&w->call->library, &w->gpu, &w->step[i], &why))
            break;
        mig_say(w->call, "done    %u. %s\n", i + 1, text);
    }
    if (i == w->n)
        return CADRE_OK;
    mig_say(w->call, "FAILED  %u. %s%s%s\n", i + 1, text, *why.remains ? ": " : "",
            why.remains);
    undo(w, i, &standing);
    if (standing || *why.remains)
        return mig_refuse(w->call, CADRE_E_DEVICE,
                          "step %u of %u failed, %s: %s; not all could be undone: what "
                          "stands is listed above",
                          i + 1, w->n, why.function, mig_nvml_text(why.code));
    return mig_refuse(w->call, CADRE_E_DEVICE,
                      "step %u of %u failed, %s: %s; the steps before it are "
                      "undone",
                      i + 1, w->n, why.function, mig_nvml_text(why.code));
}

static cadre_status print_instances(struct work *w)
{
    mig_instances(&w->call->library, &w->list);
    for (uint32_t i = 0; i < w->list.n; i++)
        if (w->list.item[i].gpu == w->gpu.index)
            CADRE_TRY(mig_say(w->call, "instance %u:%u  %s  %s\n", w->list.item[i].gpu,
                              w->list.item[i].index, w->list.item[i].profile,
                              w->list.item[i].uuid));
    return CADRE_OK;
}

/* Turn MIG mode on with --enable; then query the GPU again. */
static cadre_status enable(struct work *w)
{
    const struct mig_call *call = w->call;
    int activation = NVML_OK;
    char question[96];
    CADRE_TRY(mig_say(
        call,
        "GPU %u (%s, %s):\n  1. turn MIG mode on; if the driver asks for a reset of "
        "the GPU, the rest waits\n  2. make %s, as the driver then says that it fits; "
        "its steps are shown first\n",
        w->gpu.index, w->gpu.name, w->gpu.uuid, call->wanted));
    snprintf(question, sizeof question, "Turn MIG mode on for GPU %u?", w->gpu.index);
    CADRE_TRY(ask(w, question));
    CADRE_TRY(check_idle(w));
    int code =
        NVML_CALL(&call->library.nvml, set_mig_mode, w->gpu.device, 1, &activation);
    if (code != NVML_OK)
        return mig_refuse(call, CADRE_E_DEVICE,
                          "nothing was changed: nvmlDeviceSetMigMode: %s",
                          mig_nvml_text(code));
    mig_gpu_look(&call->library, w->gpu.index, &w->gpu);
    if (!w->gpu.on)
        return mig_refuse(call, CADRE_E_DEVICE,
                          "MIG mode of GPU %u is to be on after a reset (%s): "
                          "`nvidia-smi --gpu-reset -i %u` or a restart, then the same "
                          "again",
                          w->gpu.index, mig_nvml_text(activation), w->gpu.index);
    w->turned_on = true;
    return mig_say(call, "done    1. turn MIG mode on\n");
}

static cadre_status work(struct work *w)
{
    const struct mig_call *call = w->call;
    char question[96];
    CADRE_TRY(mig_choose_gpu(call, &w->gpu));
    if (!w->gpu.on && w->gpu.may_turn_on && call->enable) {
        CADRE_TRY(check_idle(w));
        CADRE_TRY(enable(w));
    }
    cadre_status rc = mig_fit_wanted(call, &w->gpu, &w->wanted, &w->layout);
    if (rc != CADRE_OK && w->turned_on)
        mig_say(call, "%s\n", unchanged(w));
    CADRE_TRY(rc);
    CADRE_TRY(check_idle(w));
    plan_steps(w);
    CADRE_TRY(print_steps(w));
    snprintf(question, sizeof question, "Do %s on GPU %u?",
             w->n == 1 ? "this step" : "these steps", w->gpu.index);
    CADRE_TRY(ask(w, question));
    CADRE_TRY(check_idle(w)); /* a process may have started during the question */
    CADRE_TRY(do_steps(w));
    return print_instances(w);
}

cadre_status mig_command_apply(const struct mig_call *call)
{
    if (!call->admin)
        return mig_refuse(call, CADRE_E_INVALID,
                          "this would change the GPU for all who use it: say --admin; "
                          "`cadre mig plan` changes nothing");
    struct work *w = calloc(1, sizeof *w);
    if (!w)
        return mig_refuse(call, CADRE_E_RESOURCE, "no memory");
    w->call = call;
    cadre_status rc = work(w);
    free(w);
    return rc;
}
