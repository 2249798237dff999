/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/mig/command.h"

cadre_status mig_command_apply(const struct mig_call *call)
{
    return mig_refuse(call, CADRE_E_UNSUPPORTED, "`cadre mig apply` is not built yet");
}
