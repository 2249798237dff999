/* SPDX-License-Identifier: Apache-2.0 */
#include "core/comm/nodes.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/base/memory.h"
#include "core/comm/backend.h"

/* By its name, as summary.json lists machines. */
static uint64_t host_here(void)
{
    char name[256] = "";
    if (gethostname(name, sizeof name) != 0)
        name[0] = '\0';
    name[sizeof name - 1] = '\0';
    return cadre_hash_of(name, strlen(name), 0);
}

static cadre_status by_host(struct cadre_comm *comm, int *node)
{
    size_t size = (size_t)comm->size;
    uint64_t mine = host_here(), *host = cadre_calloc(size, sizeof *host);
    int n = 0;
    cadre_status rc =
        host ? cadre_comm_gather_records(comm, "nodes", &mine, host, sizeof mine)
             : CADRE_E_RESOURCE;
    for (int r = 0; rc == CADRE_OK && r < comm->size; r++) {
        int first = 0;
        while (host[first] != host[r])
            first++;
        node[r] = first < r ? node[first] : n++;
    }
    free(host);
    return rc;
}

/* Give `node` to the communicator, unless all its ranks are on one. */
static void take(struct cadre_comm *comm, int *node)
{
    bool several = false;
    for (int r = 1; r < comm->size; r++)
        several = several || node[r] != node[0];
    if (!several) {
        free(node);
        return;
    }
    free(comm->node);
    comm->node = node;
}

static cadre_status failed(const struct cadre_comm *comm, cadre_status rc,
                           struct cadre_error *err)
{
    if (cadre_comm_failure(comm, err) == CADRE_OK)
        cadre_fail(err, rc, "cannot find out which ranks share a node: %s",
                   cadre_strerror(rc));
    return rc;
}

cadre_status cadre_nodes_find(struct cadre_comm *world, int per_node,
                              struct cadre_error *err)
{
    int *node = cadre_calloc((size_t)world->size, sizeof *node);
    cadre_status rc = node ? CADRE_OK : CADRE_E_RESOURCE;
    for (int r = 0; rc == CADRE_OK && per_node > 0 && r < world->size; r++)
        node[r] = r / per_node;
    if (rc == CADRE_OK && per_node == CADRE_NODES_ARE_HOSTS)
        rc = by_host(world, node);
    if (rc == CADRE_OK)
        take(world, node);
    else
        free(node);
    return rc == CADRE_OK ? rc : failed(world, rc, err);
}

int cadre_nodes_count(const struct cadre_comm *comm)
{
    int n = 0;
    for (int r = 0; comm->node && r < comm->size; r++) {
        int first = 0;
        while (comm->node[first] != comm->node[r])
            first++;
        n += first == r;
    }
    return n > 0 ? n : 1;
}

cadre_status cadre_nodes_inherit(const struct cadre_comm *parent,
                                 struct cadre_comm *child, struct cadre_error *err)
{
    if (!parent->node || child->node)
        return CADRE_OK;
    int *node = cadre_calloc((size_t)child->size, sizeof *node);
    cadre_status rc =
        node ? cadre_comm_gather_records(child, "nodes", &parent->node[parent->rank],
                                         node, sizeof *node)
             : CADRE_E_RESOURCE;
    if (rc != CADRE_OK) {
        free(node);
        return failed(child, rc, err);
    }
    pthread_mutex_lock(&child->context->lock);
    child->stats = (struct cadre_comm_stats){0};
    pthread_mutex_unlock(&child->context->lock);
    take(child, node);
    return CADRE_OK;
}
