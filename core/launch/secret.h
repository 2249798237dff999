/* SPDX-License-Identifier: Apache-2.0 */
/* The secret of a job, by which ranks that another program started know each other
 * where they meet: CADRE_SECRET, the same on all ranks, or else a file that rank 0
 * makes in the run's folder, which only its owner can read, and removes when all have
 * met. It is never sent, nor in a command line. Ranks that cadre started inherit their
 * segment and need none. [any thread] */
#ifndef CADRE_LAUNCH_SECRET_H
#define CADRE_LAUNCH_SECRET_H

#include <stdbool.h>

#include "core/base/error.h"
#include "core/base/sha256.h"

#define CADRE_SECRET_VARIABLE "CADRE_SECRET"
#define CADRE_SECRET_LEAST 16 /* characters of CADRE_SECRET */

/* Zeroed: there is none. */
struct cadre_secret {
    unsigned char key[CADRE_SHA256_BYTES];
    bool given; /* by the variable: there is no file */
    bool made, made_dir; /* by this process */
    char dir[4096], path[4200];
};

/* `given` is the variable's value, NULL or "": a file in the folder `dir`, whose name
 * tells jobs apart by `job`, any text. Errors: CADRE_E_INVALID: it is too short, or
 * `dir` too long. */
cadre_status cadre_secret_init(struct cadre_secret *secret, const char *given,
                               const char *dir, const char *job,
                               struct cadre_error *err);

/* Make the file, and the folder where it is missing. No-op where it is given or made.
 * [rank 0] Errors: CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_secret_make(struct cadre_secret *secret, struct cadre_error *err);

/* Read the file again, which rank 0 may have made anew. False, and why not: "is not
 * there". [the other ranks] */
bool cadre_secret_look(struct cadre_secret *secret, const char **why);

/* Remove what this process made. */
void cadre_secret_fini(struct cadre_secret *secret);

#endif
