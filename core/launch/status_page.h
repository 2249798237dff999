/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that processes share with the one that watches them: slots that say where
 * each rank is (core/base/status_slot.h), and the line with which a process ends.
 *
 * The supervisor's page has a slot for the main thread of the run, and one for each
 * rank that is a thread of it. The page of cadre_launch_processes has one for each
 * rank. */
#ifndef CADRE_LAUNCH_STATUS_PAGE_H
#define CADRE_LAUNCH_STATUS_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"
#include "core/base/status_slot.h"

/* The variable by which the process of a rank finds the page of its launcher. */
#define CADRE_STATUS_VARIABLE "CADRE_STATUS"

/* What is shared. A plugin that writes where it should not may damage it, so a reader
 * believes no count and no length in it. */
struct cadre_status_shared;

/* A mapping of it. Zeroed: there is none. */
struct cadre_status_page {
    struct cadre_status_shared *shared;
    struct cadre_status_slot *slot;
    uint32_t n; /* slots */
    size_t bytes; /* of the mapping */
    int fd; /* of the memory */
};

/* Make a page of n slots, all zeros: a slot needs no memory before it is used. exec
 * closes its descriptor unless FD_CLOEXEC is cleared. Errors: CADRE_E_RESOURCE. */
cadre_status cadre_status_page_create(int n, struct cadre_status_page *page,
                                      struct cadre_error *err);

/* Map the page with the descriptor fd. Errors: CADRE_E_INVALID for another descriptor;
 * CADRE_E_RESOURCE. */
cadre_status cadre_status_page_open(int fd, struct cadre_status_page *page,
                                    struct cadre_error *err);

/* Unmap it and close the descriptor; other processes keep theirs. */
void cadre_status_page_close(struct cadre_status_page *page);

/* Leave the line with which this process ends, for the process that watches it. [main,
 * once] */
void cadre_status_page_say(const struct cadre_status_page *page, const char *text);

/* Copy that line: "" where there is none. [the process that watches] */
void cadre_status_page_said(const struct cadre_status_page *page, char *text,
                            size_t size);

#endif
