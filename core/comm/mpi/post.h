/* SPDX-License-Identifier: Apache-2.0 */
/* Posting: the entries of the table in core/comm/comm.h. */
#ifndef CADRE_COMM_MPI_POST_H
#define CADRE_COMM_MPI_POST_H

#include "core/comm/mpi/internal.h"

/* lint: long because the table of operations has this signature */
cadre_status cadre_mpi_all_reduce(struct cadre_comm *, cadre_comm_label, const void *in,
                                  void *out, uint64_t count, uint32_t dtype,
                                  uint32_t red, cadre_event after, cadre_event *done);
/* lint: long because the table of operations has this signature */
cadre_status cadre_mpi_reduce_scatter(struct cadre_comm *, cadre_comm_label,
                                      const void *in, void *out,
                                      const uint64_t *offsets, uint32_t dtype,
                                      uint32_t red, cadre_event after,
                                      cadre_event *done);
cadre_status cadre_mpi_all_gather(struct cadre_comm *, cadre_comm_label, const void *in,
                                  void *out, const uint64_t *offsets, uint32_t dtype,
                                  cadre_event after, cadre_event *done);
cadre_status cadre_mpi_broadcast(struct cadre_comm *, cadre_comm_label, void *buf,
                                 uint64_t count, uint32_t dtype, int root,
                                 cadre_event after, cadre_event *done);
cadre_status cadre_mpi_all_to_all(struct cadre_comm *, cadre_comm_label, const void *in,
                                  void *out, uint64_t count, uint32_t dtype,
                                  cadre_event after, cadre_event *done);
cadre_status cadre_mpi_send(struct cadre_comm *, cadre_comm_label, const void *buf,
                            uint64_t count, uint32_t dtype, int to, cadre_event after,
                            cadre_event *done);
cadre_status cadre_mpi_recv(struct cadre_comm *, cadre_comm_label, void *buf,
                            uint64_t count, uint32_t dtype, int from, cadre_event after,
                            cadre_event *done);
cadre_status cadre_mpi_barrier(struct cadre_comm *, cadre_comm_label, cadre_event after,
                               cadre_event *done);
/* Post a split, which is one of the group's collectives. */
cadre_status cadre_mpi_post_split(struct mpi_group *group, struct mpi_split *split,
                                  cadre_event *done);

#endif
