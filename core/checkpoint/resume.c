/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/resume.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/checkpoint/format/checkpoint.h"
#include "core/checkpoint/format/folder.h"

/* The steps of the checkpoint *path. If it cannot be opened, *path is freed and NULL.
 */
static cadre_status steps_of(char **path, int64_t *step, struct cadre_error *err)
{
    struct cadre_checkpoint *checkpoint = NULL;
    cadre_status rc = cadre_checkpoint_open(*path, &checkpoint, err);
    if (rc == CADRE_OK) {
        *step = (int64_t)cadre_checkpoint_manifest(checkpoint)->step;
    } else {
        cadre_error_prefix(err, "checkpoint.resume");
        free(*path);
        *path = NULL;
    }
    cadre_checkpoint_close(checkpoint);
    return rc;
}

cadre_status cadre_resume_find_own(const char *out, char **path, int64_t *step,
                                   struct cadre_error *err)
{
    char *root = cadre_folder_root(out);
    cadre_status rc = CADRE_OK;
    *path = NULL;
    *step = 0;
    if (!root)
        rc = cadre_no_memory(err, "a path");
    else if (cadre_path_is_dir(root))
        rc = cadre_checkpoint_find_latest(root, path, err);
    free(root);
    return rc == CADRE_OK && *path ? steps_of(path, step, err) : rc;
}

cadre_status cadre_resume_find(const char *resume, const char *out, char **path,
                               int64_t *step, struct cadre_error *err)
{
    *path = NULL;
    *step = 0;
    if (strcmp(resume, "no") == 0)
        return CADRE_OK;
    if (strcmp(resume, "auto") == 0)
        return cadre_resume_find_own(out, path, step, err);
    if (!cadre_path_is_dir(resume))
        return cadre_fail(err, CADRE_E_INVALID,
                          "checkpoint.resume: there is no folder '%s'; name one such "
                          "as runs/x/checkpoints/step-00000100, or say auto",
                          resume);
    *path = cadre_strdup(resume);
    return *path ? steps_of(path, step, err) : cadre_no_memory(err, "a path");
}

cadre_status cadre_resume_refuse_older(const char *resume, const char *out,
                                       int64_t step, struct cadre_error *err)
{
    const bool chosen = strcmp(resume, "auto") != 0;
    char *own = NULL;
    int64_t newest = 0;
    cadre_status rc = cadre_resume_find_own(out, &own, &newest, err);
    if (rc == CADRE_OK && newest > step && !chosen)
        rc = cadre_fail(err, CADRE_E_IO,
                        "'%s' can be read now, and could not when the newest "
                        "checkpoint was looked for; start again",
                        own);
    else if (rc == CADRE_OK && newest > step)
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "'%s' is later than the %lld steps to resume from; continue it "
                        "with checkpoint.resume=auto, remove it, or choose another "
                        "--out",
                        own, (long long)step);
    free(own);
    return rc;
}
