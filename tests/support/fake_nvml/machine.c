/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fake_nvml/fake_nvml.h"

static void wrong(const char *what)
{
    fprintf(stderr, "fake NVML: cannot read '%s'\n", what);
    exit(99);
}

static void read_word(struct fake_gpu *gpu, const char *word)
{
    const struct {
        const char *word;
        int *flag;
    } flags[] = {
        {"pending", &gpu->pending}, {"nomig", &gpu->nomig}, {"noperm", &gpu->noperm},
        {"sealed", &gpu->sealed},   {"holes", &gpu->holes}, {"busy", &gpu->busy},
        {"reset", &gpu->reset},
    };
    unsigned index, start;
    for (size_t i = 0; !gpu->layout && i < FAKE_LAYOUTS; i++)
        if (strcmp(word, fake_layouts[i].key) == 0) {
            gpu->layout = &fake_layouts[i];
            return;
        }
    if (!gpu->layout)
        wrong(word);
    if (strcmp(word, "off") == 0) {
        gpu->on = 0;
        return;
    }
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (strcmp(word, flags[i].word) == 0) {
            *flags[i].flag = 1;
            return;
        }
    if (sscanf(word, "%u@%u", &index, &start) != 2 || start >= FAKE_SLOTS)
        wrong(word);
    for (int p = 0; p < FAKE_PROFILES; p++)
        if (gpu->layout->profile[p].name && gpu->layout->profile[p].index == index)
            gpu->gi[start].profile = &gpu->layout->profile[p];
    gpu->ci[start].made = !strchr(word, '-');
}

static void read_text(struct fake_machine *machine, char *text)
{
    char *rest = text;
    for (char *part = strsep(&rest, ";"); part; part = strsep(&rest, ";")) {
        char *words = part;
        int g = machine->n;
        struct fake_gpu *gpu = &machine->gpu[g];
        if (!*part)
            continue;
        if (g == FAKE_GPUS)
            wrong(part);
        gpu->on = 1;
        gpu->device = (struct nvml_device){g, -1};
        for (int s = 0; s < FAKE_SLOTS; s++) {
            gpu->mig[s] = (struct nvml_device){g, s};
            gpu->gi[s] = (struct nvml_gi){g, s, NULL};
            gpu->ci[s] = (struct nvml_ci){g, s, 0};
        }
        for (char *word = strsep(&words, " \n"); word; word = strsep(&words, " \n"))
            if (*word)
                read_word(gpu, word);
        if (gpu->layout)
            machine->n++;
    }
}

void fake_machine_read(struct fake_machine *machine)
{
    char text[4096] = "";
    const char *path = getenv("CADRE_FAKE_NVML_STATE"),
               *words = getenv("CADRE_FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    memset(machine, 0, sizeof *machine);
    if (file) {
        text[fread(text, 1, sizeof text - 1, file)] = 0;
        fclose(file);
    } else if (words)
        snprintf(text, sizeof text, "%s", words);
    read_text(machine, text);
}

void fake_machine_write(const struct fake_machine *machine)
{
    const char *path = getenv("CADRE_FAKE_NVML_STATE");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file)
        return;
    for (int g = 0; g < machine->n; g++) {
        const struct fake_gpu *gpu = &machine->gpu[g];
        fprintf(file, "%s%s%s%s%s%s%s%s%s", gpu->layout->key, gpu->on ? "" : " off",
                gpu->pending ? " pending" : "", gpu->nomig ? " nomig" : "",
                gpu->noperm ? " noperm" : "", gpu->sealed ? " sealed" : "",
                gpu->holes ? " holes" : "", gpu->busy ? " busy" : "",
                gpu->reset ? " reset" : "");
        for (int s = 0; s < FAKE_SLOTS; s++)
            if (gpu->gi[s].profile)
                fprintf(file, " %u@%d%s", gpu->gi[s].profile->index, s,
                        gpu->ci[s].made ? "" : "-");
        fprintf(file, ";\n");
    }
    fclose(file);
}

int fake_machine_fails(struct fake_machine *machine, int kind)
{
    static const char *const kinds[] = {"gi=", "ci=", "undo=", "gone="};
    const char *fault = getenv("CADRE_FAKE_NVML_FAULT");
    const char *found = fault ? strstr(fault, kinds[kind]) : NULL;
    machine->calls[kind]++;
    return found && atoi(found + strlen(kinds[kind])) == machine->calls[kind];
}

unsigned fake_gpu_taken(const struct fake_gpu *gpu)
{
    unsigned taken = 0;
    for (int s = 0; s < FAKE_SLOTS; s++)
        if (gpu->gi[s].profile)
            taken |= ((1u << gpu->gi[s].profile->size) - 1) << s;
    return taken;
}

unsigned fake_gpu_slices(const struct fake_gpu *gpu)
{
    unsigned slices = 0;
    for (int s = 0; s < FAKE_SLOTS; s++)
        slices += gpu->gi[s].profile ? gpu->gi[s].profile->slices : 0;
    return slices;
}
