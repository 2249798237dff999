/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes shared by the core and by plugins. Zero is success, errors are negative.
 */
#ifndef CADRE_STATUS_H
#define CADRE_STATUS_H

#include <stdint.h>

typedef int32_t cadre_status;

#define CADRE_OK 0
#define CADRE_E_INVALID (-1) /* bad option, file or argument: the user can fix it */
#define CADRE_E_UNSUPPORTED (-2) /* refused in plan(): composition, shape, device */
#define CADRE_E_RESOURCE (-3) /* memory, disk, descriptors */
#define CADRE_E_DEVICE (-4) /* the compute device failed */
#define CADRE_E_COMM (-5) /* a collective failed or timed out */
#define CADRE_E_ABORTED (-6) /* another rank failed first */
#define CADRE_E_INTERNAL (-7) /* a bug in Cadre or the plugin */
#define CADRE_E_IO (-8) /* a file could not be read or written */
#define CADRE_E_NUMERIC (-9) /* a loss or gradient is not finite */
#define CADRE_E_DIFFERS (-10) /* a comparison's equality check failed */
#define CADRE_E_STOPPED (-11) /* stopped by a signal, after a checkpoint */

/* Return the status of the call if it is not CADRE_OK. */
#define CADRE_TRY(call)                                                                \
    do {                                                                               \
        cadre_status rc_ = (call);                                                     \
        if (rc_ != CADRE_OK)                                                           \
            return rc_;                                                                \
    } while (0)

/* The same, but store the status in the local `rc` and go to `label` for clean-up. */
#define CADRE_TRY_OR(call, label)                                                      \
    do {                                                                               \
        rc = (call);                                                                   \
        if (rc != CADRE_OK)                                                            \
            goto label;                                                                \
    } while (0)

#endif
