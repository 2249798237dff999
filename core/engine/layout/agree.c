/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/layout/agree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/memory.h"

/* ---- what is run ---- */

static cadre_status failed(struct cadre_comm *world, cadre_status rc,
                           struct cadre_error *err)
{
    if (rc != CADRE_OK && cadre_comm_failure(world, err) == CADRE_OK)
        cadre_fail(err, rc, "the ranks could not agree: %s", cadre_strerror(rc));
    return rc;
}

cadre_status cadre_agree_run(struct cadre_comm *world, uint64_t fingerprint,
                             struct cadre_error *err)
{
    if (!world || world->size == 1)
        return CADRE_OK;
    uint64_t *all = cadre_calloc((size_t)world->size, sizeof *all);
    cadre_status rc = all ? cadre_comm_gather_records(world, "agreement", &fingerprint,
                                                      all, sizeof *all)
                          : CADRE_E_RESOURCE;
    failed(world, rc, err);
    for (int r = 1; rc == CADRE_OK && r < world->size; r++)
        if (all[r] != all[0])
            rc = cadre_fail(
                err, CADRE_E_INVALID,
                "rank %d does not run what rank 0 runs: build, plugins, options "
                "or data differ; start all ranks from one installation and one "
                "ini file",
                r);
    free(all);
    return rc;
}

/* ---- how devices multiply ---- */

static cadre_status from_first(struct cadre_comm *world, void *data, uint64_t bytes)
{
    cadre_event done = 0;
    cadre_status rc = cadre_comm_broadcast(world, "agreement on algorithms", data,
                                           bytes, CADRE_U8, 0, 0, &done);
    return rc == CADRE_OK ? cadre_comm_wait(world, done) : rc;
}

/* The library's line and the algorithms of rank 0; owned by the caller. */
static cadre_status share(struct cadre_comm *world, struct cadre_device *device,
                          int index, char **out, struct cadre_error *err)
{
    struct cadre_text text = {0};
    cadre_status rc = CADRE_OK;
    uint64_t bytes;
    if (index == 0) {
        device->ops->tuning_library(device, &text);
        cadre_text_append(&text, "\n", 1);
        rc = device->ops->tuning_export(device, &text);
    }
    if (rc == CADRE_OK && text.failed)
        rc = CADRE_E_RESOURCE;
    bytes = text.len;
    if (rc == CADRE_OK && world && world->size > 1) {
        rc = from_first(world, &bytes, sizeof bytes);
        if (rc == CADRE_OK && index != 0) {
            text.data = cadre_calloc(bytes + 1, 1);
            rc = text.data ? CADRE_OK : CADRE_E_RESOURCE;
        }
        if (rc == CADRE_OK)
            rc = from_first(world, text.data, bytes);
        failed(world, rc, err);
    } else if (rc != CADRE_OK) {
        cadre_fail(err, rc, "no memory for the chosen algorithms");
    }
    if (rc == CADRE_OK)
        *out = text.data;
    else
        cadre_text_fini(&text);
    return rc;
}

cadre_status cadre_agree_read_tuning(struct cadre_device *device,
                                     struct cadre_tuning *out)
{
    struct cadre_text library = {0}, text = {0};
    device->ops->tuning_library(device, &library);
    cadre_status rc = device->ops->tuning_export(device, &text);
    if (rc == CADRE_OK && (library.failed || text.failed))
        rc = CADRE_E_RESOURCE;
    *out = (struct cadre_tuning){0};
    snprintf(out->library, sizeof out->library, "%s", cadre_text_str(&library));
    if (rc == CADRE_OK && text.len > 0)
        cadre_hash_hex(cadre_hash_of(text.data, text.len, 0), out->algorithms);
    cadre_text_fini(&library);
    cadre_text_fini(&text);
    return rc;
}

/* Take over rank 0's algorithms. Different libraries choose differently, also without
 * timing. */
static cadre_status take(struct cadre_device *device, int index, bool exact,
                         const char *library, const char *choices,
                         struct cadre_error *err)
{
    struct cadre_text mine = {0};
    device->ops->tuning_library(device, &mine);
    bool same = strcmp(cadre_text_str(&mine), library) == 0;
    cadre_status rc = CADRE_OK;
    if (!same && exact)
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "run.exact: rank %d multiplies with %s, rank 0 with %s: bits "
                        "differ; use one kind of processor and one version, or "
                        "run.exact = no",
                        index, cadre_text_str(&mine), library);
    else if (!same)
        cadre_log(CADRE_LOG_WARN, "train",
                  "rank %d multiplies with %s, rank 0 with %s: it chooses its own "
                  "algorithms",
                  index, cadre_text_str(&mine), library);
    else if (device->ops->tuning_import(device, choices) != CADRE_OK)
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "rank %d cannot use the algorithms that rank 0 chose", index);
    cadre_text_fini(&mine);
    return rc;
}

cadre_status cadre_agree_tuning(struct cadre_comm *world, struct cadre_device *device,
                                int index, bool exact, struct cadre_tuning *out,
                                struct cadre_error *err)
{
    char *text = NULL;
    cadre_status rc = share(world, device, index, &text, err);
    if (rc != CADRE_OK || !text)
        return rc;
    char *end = text + strcspn(text, "\n"); /* of the library's line */
    const char *choices = *end ? end + 1 : end;
    *end = 0;
    rc = take(device, index, exact, text, choices, err);
    free(text);
    if (rc == CADRE_OK && cadre_agree_read_tuning(device, out) != CADRE_OK)
        rc = cadre_no_memory(err, "the chosen algorithms");
    return rc;
}
