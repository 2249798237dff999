/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/site.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cores.h"
#include "core/base/hash.h"
#include "core/base/memory.h"

/* The same for all processes of one kernel, whatever they call their host. */
static void add_kernel(struct cadre_hash *hash)
{
    char id[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (file && !fgets(id, sizeof id, file))
        id[0] = 0;
    if (file)
        fclose(file);
    cadre_hash_update_string(hash, id);
}

void cadre_site_here(struct cadre_site_rank *out)
{
    struct cadre_hash hash;
    cpu_set_t set;
    *out = (struct cadre_site_rank){.cores = cadre_cores(), .process = getpid()};
    if (gethostname(out->host, sizeof out->host) != 0)
        snprintf(out->host, sizeof out->host, "unknown");
    out->host[sizeof out->host - 1] = 0;
    cadre_cores_name(out->cpu, sizeof out->cpu);
    cadre_hash_init(&hash, 0);
    add_kernel(&hash);
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        cadre_hash_update(&hash, &set, sizeof set);
    out->cores_key = cadre_hash_final(&hash);
}

cadre_status cadre_site_of(const struct cadre_site_rank *seen, int ranks,
                           struct cadre_site *site)
{
    *site =
        (struct cadre_site){.host = cadre_calloc((size_t)ranks, sizeof *site->host)};
    if (!site->host)
        return CADRE_E_RESOURCE;
    memcpy(site->cpu, seen[0].cpu, sizeof site->cpu);
    for (int r = 0; r < ranks; r++) {
        bool host = true, cpu = true, cores = true, process = true;
        for (int k = 0; k < r; k++) {
            host = host && strcmp(seen[k].host, seen[r].host) != 0;
            cpu = cpu && strcmp(seen[k].cpu, seen[r].cpu) != 0;
            cores = cores && seen[k].cores_key != seen[r].cores_key;
            process = process && (seen[k].process != seen[r].process ||
                                  strcmp(seen[k].host, seen[r].host) != 0);
        }
        if (host)
            memcpy(site->host[site->n_hosts++], seen[r].host, sizeof *site->host);
        site->kinds += cpu;
        site->processes += process;
        site->cores += cores ? seen[r].cores : 0;
    }
    return CADRE_OK;
}

cadre_status cadre_site_gather(struct cadre_rank *rank, struct cadre_site *site,
                               struct cadre_error *err)
{
    size_t ranks = (size_t)rank->mesh.ranks;
    struct cadre_site_rank *all = cadre_calloc(ranks, sizeof *all);
    cadre_status rc = all ? CADRE_OK : CADRE_E_RESOURCE;
    if (rc == CADRE_OK) {
        cadre_site_here(&all[rank->index]);
        if (rank->world && rank->world->size > 1)
            rc = cadre_comm_gather_records(rank->world, "hosts", &all[rank->index], all,
                                           sizeof *all);
    }
    if (rc == CADRE_OK)
        rc = cadre_site_of(all, (int)ranks, site);
    free(all);
    return rc == CADRE_OK ? rc
                          : cadre_fail(err, rc, "cannot ask all ranks for hosts: %s",
                                       cadre_strerror(rc));
}

void cadre_site_write(const struct cadre_site *site, struct cadre_json *json)
{
    cadre_json_begin_object(json);
    cadre_json_key(json, "hosts");
    cadre_json_begin_array(json);
    for (int i = 0; i < site->n_hosts; i++)
        cadre_json_string(json, site->host[i]);
    cadre_json_end_array(json);
    cadre_json_put_string(json, "cpu", site->cpu);
    cadre_json_put_i64(json, "kinds", site->kinds);
    cadre_json_put_i64(json, "cores", site->cores);
    cadre_json_put_i64(json, "processes", site->processes);
    cadre_json_end_object(json);
}

void cadre_site_fini(struct cadre_site *site)
{
    free(site->host);
    *site = (struct cadre_site){0};
}
