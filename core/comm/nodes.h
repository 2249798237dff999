/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks share a node, so that what they send is counted by level: inside a node,
 * and between nodes. The nodes are hosts, or emulated ones (comm.node). */
#ifndef CADRE_COMM_NODES_H
#define CADRE_COMM_NODES_H

#include "core/comm/comm.h"

#define CADRE_NODES_ARE_HOSTS (-1)

/* [collective: world, before groups are made] Set the node of every rank of `world`;
 * its groups inherit them. per_node > 0: that many adjacent ranks are a node, of the
 * last one what is left; 0: all ranks are one; else the ranks of a host are, for which
 * the ranks compare names. Errors: CADRE_E_RESOURCE; those of a collective. [no other
 * thread posts] */
cadre_status cadre_nodes_find(struct cadre_comm *world, int per_node,
                              struct cadre_error *err);

/* Nodes that the ranks of a communicator are on, 1 where none were set. */
int cadre_nodes_count(const struct cadre_comm *comm);

/* [collective: child] Of a group that was split off `parent`, for comm.c. What this
 * sends is not counted. Nothing is sent where the parent is on one node, or the child's
 * backend has set its nodes. */
cadre_status cadre_nodes_inherit(const struct cadre_comm *parent,
                                 struct cadre_comm *child, struct cadre_error *err);

#endif
