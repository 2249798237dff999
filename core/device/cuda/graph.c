/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: work recorded from the current stream, kept under a key. */
#include "core/base/memory.h"
#include "core/device/cuda/cuda.h"

#include <stdlib.h>

/* Capture mode of the calling thread: other ranks may be threads here and allocate. */
cadre_status cadre_cuda_op_graph_begin(struct cadre_device *device, uint64_t key)
{
    struct cadre_cuda *cuda = cadre_cuda_of(device);
    cadre_status rc = cadre_cuda_use(cuda);
    (void)key;
    if (rc != CADRE_OK)
        return rc;
    return cadre_cuda_check(cudaStreamBeginCapture(cadre_cuda_current(cuda),
                                                   cudaStreamCaptureModeThreadLocal),
                            "cudaStreamBeginCapture");
}

static struct cadre_cuda_graph *find(struct cadre_cuda *cuda, uint64_t key)
{
    for (size_t i = 0; i < cuda->n_graphs; i++)
        if (cuda->graphs[i].key == key)
            return &cuda->graphs[i];
    return NULL;
}

/* The previous graph may still run. */
static cadre_status keep(struct cadre_cuda *cuda, uint64_t key, cudaGraphExec_t exec)
{
    struct cadre_cuda_graph *old = find(cuda, key);
    if (!old) {
        struct cadre_cuda_graph *grown =
            cadre_realloc(cuda->graphs, cuda->n_graphs + 1, sizeof *grown);
        if (!grown)
            return CADRE_E_RESOURCE;
        cuda->graphs = grown;
        grown[cuda->n_graphs++] = (struct cadre_cuda_graph){key, exec};
        return CADRE_OK;
    }
    cadre_status rc = cadre_cuda_check(cudaStreamSynchronize(cadre_cuda_current(cuda)),
                                       "cudaStreamSynchronize");
    cudaGraphExecDestroy(old->exec);
    old->exec = exec;
    return rc;
}

cadre_status cadre_cuda_op_graph_end(struct cadre_device *device, uint64_t key)
{
    struct cadre_cuda *cuda = cadre_cuda_of(device);
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    CADRE_TRY(cadre_cuda_use(cuda));
    cadre_status rc = cadre_cuda_check(
        cudaStreamEndCapture(cadre_cuda_current(cuda), &graph), "cudaStreamEndCapture");
    if (rc == CADRE_OK)
        rc = cadre_cuda_check(cudaGraphInstantiate(&exec, graph, 0),
                              "cudaGraphInstantiate");
    if (rc == CADRE_OK) {
        rc = keep(cuda, key, exec);
        if (rc == CADRE_E_RESOURCE)
            cudaGraphExecDestroy(exec);
    }
    if (graph)
        cudaGraphDestroy(graph);
    return rc;
}

cadre_status cadre_cuda_op_graph_launch(struct cadre_device *device, uint64_t key)
{
    struct cadre_cuda *cuda = cadre_cuda_of(device);
    const struct cadre_cuda_graph *graph = find(cuda, key);
    cadre_status rc = cadre_cuda_use(cuda);
    if (!graph)
        return CADRE_E_UNSUPPORTED;
    if (rc != CADRE_OK)
        return rc;
    return cadre_cuda_check(cudaGraphLaunch(graph->exec, cadre_cuda_current(cuda)),
                            "cudaGraphLaunch");
}

void cadre_cuda_graphs_close(struct cadre_cuda *cuda)
{
    for (size_t i = 0; i < cuda->n_graphs; i++)
        cudaGraphExecDestroy(cuda->graphs[i].exec);
    free(cuda->graphs);
    cuda->graphs = NULL;
    cuda->n_graphs = 0;
}
