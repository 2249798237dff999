/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/mig/coresets.h"

#include <stdio.h>
#include <stdlib.h>

/* The first number in a file of the CPU's topology, `otherwise` where there is none. */
static uint32_t read_first(const char *sys, uint32_t cpu, const char *name,
                           uint32_t otherwise)
{
    char path[512], line[32] = "";
    snprintf(path, sizeof path, "%s/cpu%u/topology/%s", sys, cpu, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return otherwise;
    const char *text = fgets(line, sizeof line, file);
    fclose(file);
    char *end = line;
    const unsigned long value = text ? strtoul(text, &end, 10) : 0;
    return end != line && value <= UINT32_MAX ? (uint32_t)value : otherwise;
}

void mig_coresets_read(const char *sys, const uint32_t *cpu, uint32_t n, uint64_t *out)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t package = read_first(sys, cpu[i], "physical_package_id", 0);
        const uint32_t core = read_first(sys, cpu[i], "thread_siblings_list", cpu[i]);
        out[i] = package << 32 | core;
    }
}

struct member {
    uint64_t core;
    uint32_t cpu;
};

static int by_core(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    if (x->core != y->core)
        return x->core < y->core ? -1 : 1;
    return x->cpu < y->cpu ? -1 : x->cpu > y->cpu;
}

/* CPUs that stay together: those of a core, where all cores have equally many. */
static uint32_t find_grain(const struct member *member, uint32_t n, uint64_t parts)
{
    uint32_t first = 1, run = 1;
    while (first < n && member[first].core == member[0].core)
        first++;
    for (uint32_t i = 1; i < n; i++) {
        const int same = member[i].core == member[i - 1].core;
        if (!same && run != first)
            return 1;
        run = same ? run + 1 : 1;
    }
    return run == first && n / first >= parts ? first : 1;
}

/* The sum of the first `sets` sizes. */
static uint64_t sum_of(const uint32_t *size, uint32_t sets)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < sets; i++)
        sum += size ? size[i] : 1;
    return sum;
}

uint32_t mig_coresets_partition(const uint32_t *cpu, const uint64_t *core, uint32_t n,
                                uint32_t sets, const uint32_t *size, uint32_t index,
                                uint32_t *out)
{
    const uint64_t parts = sum_of(size, sets);
    if (sets == 0 || parts > n || index >= sets)
        return 0;
    struct member *member = calloc(n, sizeof *member);
    if (!member)
        return 0;
    for (uint32_t i = 0; i < n; i++)
        member[i] = (struct member){core[i], cpu[i]};
    qsort(member, n, sizeof *member, by_core);
    const uint32_t grain = find_grain(member, n, parts);
    const uint32_t part = n / grain / (uint32_t)parts * grain;
    const uint32_t begin = (uint32_t)sum_of(size, index) * part;
    const uint32_t count = (size ? size[index] : 1) * part;
    for (uint32_t i = 0; i < count; i++)
        out[i] = member[begin + i].cpu;
    free(member);
    return count;
}

void mig_coresets_print(const uint32_t *cpu, uint32_t n, char *out, uint32_t size)
{
    uint32_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < n && used < size; i++) {
        const uint32_t first = i;
        while (i + 1 < n && cpu[i + 1] == cpu[i] + 1)
            i++;
        const char *comma = used ? "," : "";
        used += (uint32_t)(i > first ? snprintf(out + used, size - used, "%s%u-%u",
                                                comma, cpu[first], cpu[i])
                                     : snprintf(out + used, size - used, "%s%u", comma,
                                                cpu[first]));
    }
}
