/* SPDX-License-Identifier: Apache-2.0 */
/* A figure of a step, by the name that it has in metrics.jsonl. */
#ifndef CADRE_EXPORT_SCALAR_H
#define CADRE_EXPORT_SCALAR_H

struct cadre_scalar {
    const char *name;
    double value; /* not finite: unknown */
};

#endif
