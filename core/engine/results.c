/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/results.h"

static size_t result_bytes(size_t n_losses)
{
    return (n_losses + 2) * sizeof(double);
}

void cadre_results_note(struct cadre_ledger *ledger, size_t n_losses, uint64_t n_chunks)
{
    cadre_ledger_note(ledger, CADRE_SPACE_DEVICE,
                      CADRE_RESULTS * n_chunks * sizeof(double), "gradient norm");
    cadre_ledger_note(ledger, CADRE_SPACE_DEVICE, result_bytes(n_losses), "results");
    cadre_ledger_note(ledger, CADRE_SPACE_PINNED,
                      CADRE_RESULTS * result_bytes(n_losses), "results");
}

cadre_status cadre_results_init(struct cadre_results *results,
                                struct cadre_ledger *ledger, size_t n_losses,
                                uint64_t n_chunks)
{
    size_t bytes = result_bytes(n_losses);
    *results = (struct cadre_results){
        .device = ledger->device,
        .n_losses = n_losses,
        .losses = cadre_ledger_alloc(ledger, CADRE_SPACE_DEVICE, bytes, "results"),
    };
    bool some = results->losses != NULL;
    for (int i = 0; i < CADRE_RESULTS; i++) {
        struct cadre_result *result = &results->result[i];
        result->chunks = cadre_ledger_alloc(ledger, CADRE_SPACE_DEVICE,
                                            n_chunks * sizeof(double), "gradient norm");
        result->host = cadre_ledger_alloc(ledger, CADRE_SPACE_PINNED, bytes, "results");
        some = some && result->chunks && result->host;
    }
    return some ? CADRE_OK : CADRE_E_RESOURCE;
}

double *cadre_results_norm(const struct cadre_results *results)
{
    return results->losses + results->n_losses;
}

struct cadre_result *cadre_results_of(struct cadre_results *results, uint64_t step)
{
    return &results->result[step % CADRE_RESULTS];
}

cadre_status cadre_results_read_losses(const struct cadre_results *results,
                                       struct cadre_result *result)
{
    return results->device->ops->to_host(results->device, result->host, results->losses,
                                         results->n_losses * sizeof(double));
}

cadre_status cadre_results_read_norm(const struct cadre_results *results,
                                     struct cadre_result *result)
{
    return results->device->ops->to_host(
        results->device, result->host + results->n_losses, cadre_results_norm(results),
        2 * sizeof(double));
}

cadre_status cadre_results_download(const struct cadre_results *results,
                                    struct cadre_result *result)
{
    struct cadre_device *device = results->device;
    cadre_status rc = device->ops->download(device, result->host, results->losses,
                                            result_bytes(results->n_losses));
    return rc == CADRE_OK ? device->ops->event_record(device, &result->done) : rc;
}
