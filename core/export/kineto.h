/* SPDX-License-Identifier: Apache-2.0 */
/* trace/rank-N.json, one file a rank, in the form that PyTorch's profiler (Kineto)
 * writes, for Holistic Trace Analysis and others that read it. Those tell what
 * computes and what communicates by the kernels of GPU streams, so a rank that
 * computes on its own thread is shown as one:
 *
 * - Stream 7 has what the rank's thread did in the recorded steps: the innermost span
 *   of every moment ("forward of block 3", "optimizer"; "step" where there is none
 *   other), "between steps", and nothing while it waits for ranks or transfers.
 * - Streams from 20 have the operations of communicators, from when bytes begin to
 *   move to the end: ncclKernel_AllGather and so on, with the arguments of a
 *   collective (Collective name, In msg nelems, ...). Each communicator has two:
 *   collectives, and sends and receives.
 * - Each kernel has a launch of the same correlation on the rank's thread: the begin
 *   of the work; the posting of an operation.
 * - Steps are ProfilerStep#N, with the rank's comm_s and comm_exposed_s; passes are
 *   user annotations, units and waits cpu_op.
 *
 * Then communication that no computation overlaps is what Cadre calls exposed. Only
 * for devices that compute inline, such as the CPU. Times are whole microseconds since
 * the begin of the first recorded step; an operation that began before it begins with
 * it, and one that ran outside of recorded steps is left out.
 *
 * Source of the form: PyTorch Kineto, schemaVersion 1; HTA 0.5.0 has read it. */
#ifndef CADRE_EXPORT_KINETO_H
#define CADRE_EXPORT_KINETO_H

#include "core/export/trace_record.h"

/* [collective: world] Write DIR/trace/rank-N.json of all ranks, by rank 0; older ones
 * are removed. The record has its origin. Errors: those of cadre_gather_each,
 * CADRE_E_IO on rank 0. */
cadre_status cadre_kineto_write(const struct cadre_trace_record *record,
                                struct cadre_rank *rank, const char *dir,
                                struct cadre_error *err);

#endif
