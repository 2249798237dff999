/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of schedule.h share. */
#ifndef PIPELINE_SCHEDULE_PRIVATE_H
#define PIPELINE_SCHEDULE_PRIVATE_H

#include "plugins/pipeline/schedule.h"

/* Fill an empty list for two chunks and two stages at least, in zb-v also of forward
 * passes alone. */
void pipeline_fill_zb_v(struct pipeline_list *list, const struct pipeline_shape *shape,
                        uint32_t rank);
void pipeline_fill_dualpipev(struct pipeline_list *list,
                             const struct pipeline_shape *shape, uint32_t rank);

#endif
