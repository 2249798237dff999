/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces as they are run and kept: each is a child process in OUT/pieces/RUN, a line of
 * OUT/pieces.jsonl as soon as it ended, and an element of the comparison. [main] */
#ifndef CADRE_COMPARE_PIECES_H
#define CADRE_COMPARE_PIECES_H

#include <stdio.h>

#include "core/compare/child.h"
#include "core/compare/task.h"

struct cadre_pieces {
    struct cadre_task_request request; /* its `piece` is set for each */
    struct cadre_comparison *comparison;
    const struct cadre_supervise_watch *watch;
    FILE *file; /* pieces.jsonl */
    double began_s; /* the first piece, by cadre_now_s */
    int made; /* also those that failed */
    struct cadre_piece **kept; /* the comparison's array, and its length */
    size_t *n;
    size_t room;
};

/* Borrows all. Pieces go to the comparison's `piece`. Empties OUT/pieces and
 * OUT/pieces.jsonl, and the comparison's pieces. On success the caller ends it with
 * close. Errors: CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_pieces_open(struct cadre_pieces *pieces,
                               const struct cadre_task_request *request,
                               struct cadre_comparison *comparison,
                               const struct cadre_supervise_watch *watch,
                               struct cadre_error *err);

/* Run the piece whose run, round, place and half are set, and keep it with the rest
 * filled. One that fails, or does not reach its target, is no error and not kept:
 * *failure says so, and its `why` names the piece by number. Errors: as
 * cadre_child_run, and CADRE_E_IO. */
cadre_status cadre_pieces_run(struct cadre_pieces *pieces, const struct cadre_piece *of,
                              const struct cadre_task_piece *what,
                              struct cadre_child_failure *failure,
                              struct cadre_error *err);

/* From now on they go to the comparison's `target_piece`. */
void cadre_pieces_to_target(struct cadre_pieces *pieces);

/* Forget the pieces of a run; their lines stay. */
void cadre_pieces_drop(struct cadre_pieces *pieces, size_t run);

void cadre_pieces_close(struct cadre_pieces *pieces);

#endif
