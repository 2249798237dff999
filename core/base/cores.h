/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CADRE_BASE_CORES_H
#define CADRE_BASE_CORES_H

/* Cores that this process may run on, at least 1. [any thread] */
int cadre_cores(void);

#endif
