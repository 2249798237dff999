/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/usage.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/base/memory.h"

/* The report of one rank. Unused entries are empty. */
struct report {
    uint64_t resident;
    uint64_t process; /* the same for ranks that share one */
    struct cadre_ledger_entry entry[CADRE_LEDGER_TAGS];
};

static struct cadre_usage_row *find_row(struct cadre_usage *usage,
                                        const struct cadre_ledger_entry *entry)
{
    static const char *const spaces[] = {"", " (pinned)", " (host)"};
    char tag[sizeof usage->row->tag];
    snprintf(tag, sizeof tag, "%s%s", entry->tag, spaces[entry->space % 3]);
    for (int i = 0; i < usage->n; i++)
        if (strcmp(usage->row[i].tag, tag) == 0)
            return &usage->row[i];
    struct cadre_usage_row *row = &usage->row[usage->n];
    row->bytes = usage->bytes + (size_t)usage->n++ * (size_t)usage->ranks;
    memcpy(row->tag, tag, sizeof tag);
    return row;
}

static uint64_t this_process(void)
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    return cadre_hash_of(host, strlen(host), (uint64_t)getpid());
}

/* Ranks that are threads of one process have its memory in common: it counts once. */
static void list_processes(struct cadre_usage *usage, const struct report *all)
{
    for (int r = 0; r < usage->ranks; r++) {
        int first = 0;
        while (all[first].process != all[r].process)
            first++;
        if (first == r)
            usage->resident[usage->processes++] = all[r].resident;
    }
}

/* Rows for all tags in the reports. */
static cadre_status tabulate(struct cadre_usage *usage, const struct report *all)
{
    size_t most = (size_t)usage->ranks * CADRE_LEDGER_TAGS;
    usage->row = cadre_calloc(most, sizeof *usage->row);
    usage->bytes = cadre_calloc(most * (size_t)usage->ranks, sizeof *usage->bytes);
    usage->resident = cadre_calloc((size_t)usage->ranks, sizeof *usage->resident);
    if (!usage->row || !usage->bytes || !usage->resident)
        return CADRE_E_RESOURCE;
    list_processes(usage, all);
    for (int r = 0; r < usage->ranks; r++)
        for (int i = 0; i < CADRE_LEDGER_TAGS; i++) {
            const struct cadre_ledger_entry *entry = &all[r].entry[i];
            if (entry->peak_bytes > 0)
                find_row(usage, entry)->bytes[r] += entry->peak_bytes;
        }
    return CADRE_OK;
}

cadre_status cadre_usage_gather(struct cadre_rank *rank, struct cadre_usage *usage,
                                struct cadre_error *err)
{
    *usage = (struct cadre_usage){.ranks = rank->mesh.ranks};
    struct report *all = cadre_calloc((size_t)usage->ranks, sizeof *all);
    cadre_status rc = all ? CADRE_OK : CADRE_E_RESOURCE;
    if (rc == CADRE_OK) {
        uint64_t now;
        cadre_memory_resident(&now, &all[rank->index].resident);
        all[rank->index].process = this_process();
        memcpy(all[rank->index].entry, rank->ledger.entry, sizeof all->entry);
        if (rank->world && rank->world->size > 1)
            rc = cadre_comm_gather_records(rank->world, "memory by tag",
                                           &all[rank->index], all, sizeof *all);
    }
    if (rc == CADRE_OK)
        rc = tabulate(usage, all);
    free(all);
    return rc == CADRE_OK
               ? rc
               : cadre_fail(err, rc, "cannot collect the memory of all ranks: %s",
                            cadre_strerror(rc));
}

void cadre_usage_fini(struct cadre_usage *usage)
{
    free(usage->row);
    free(usage->bytes);
    free(usage->resident);
    *usage = (struct cadre_usage){0};
}

void cadre_usage_write(const struct cadre_usage *usage, struct cadre_json *json)
{
    cadre_json_begin_object(json);
    for (int i = 0; i < usage->n; i++) {
        cadre_json_key(json, usage->row[i].tag);
        cadre_json_begin_array(json);
        for (int r = 0; r < usage->ranks; r++)
            cadre_json_u64(json, usage->row[i].bytes[r]);
        cadre_json_end_array(json);
    }
    cadre_json_end_object(json);
}
