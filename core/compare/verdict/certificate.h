/* SPDX-License-Identifier: Apache-2.0 */
/* The certificate of a run: what was trained, how and where, hashes of the result, the
 * baseline that it was compared with, and the verdict. docs/comparison.md describes the
 * fields. The hashes are no protection against forgery. */
#ifndef CADRE_COMPARE_VERDICT_CERTIFICATE_H
#define CADRE_COMPARE_VERDICT_CERTIFICATE_H

#include "core/base/json.h"
#include "core/compare/verdict/comparison.h"

/* Write the certificate of run `run` of a judged comparison as the value that is due.
 */
void cadre_certificate_put(struct cadre_json *json,
                           const struct cadre_comparison *comparison, size_t run);

/* certificate-NAME.json; the caller frees it, NULL where there is no memory. */
char *cadre_certificate_file(const struct cadre_compared_run *run);

/* Is the file a certificate? False also for a file that is not JSON. */
bool cadre_certificate_is(const char *path);

/* Append to `out` what the certificate at `path` says. If the run's folder, named
 * relative to the certificate, exists, its hashes are computed again.
 * Errors: CADRE_E_INVALID no certificate, or a damaged folder; CADRE_E_DIFFERS the
 * folder has other hashes; CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_certificate_check(const char *path, struct cadre_text *out,
                                     struct cadre_error *err);

#endif
