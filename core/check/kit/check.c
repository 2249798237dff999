/* SPDX-License-Identifier: Apache-2.0 */
#include "core/check/kit/check.h"

const char *cadre_check_status_name(enum cadre_check_status status)
{
    static const char *const names[CADRE_CHECK_STATUSES] = {
        [CADRE_CHECK_PASS] = "pass",
        [CADRE_CHECK_WARNING] = "warning",
        [CADRE_CHECK_REFUSED] = "refused",
        [CADRE_CHECK_UNSUPPORTED] = "unsupported",
        [CADRE_CHECK_WAIVED] = "waived",
        [CADRE_CHECK_FAIL] = "fail",
        [CADRE_CHECK_CRASH] = "crash",
        [CADRE_CHECK_TIMEOUT] = "timeout",
        [CADRE_CHECK_HOST_FAULT] = "host fault",
    };
    return names[status];
}

const char *cadre_check_level_name(enum cadre_check_level level)
{
    static const char *const names[CADRE_CHECK_LEVELS] = {
        [CADRE_LEVEL_LOADABLE] = "loadable",
        [CADRE_LEVEL_CORRECT] = "correct",
        [CADRE_LEVEL_EXACT] = "exact",
        [CADRE_LEVEL_STACKABLE] = "stackable",
        [CADRE_LEVEL_RESUMABLE] = "resumable",
        [CADRE_LEVEL_FAULT_TOLERANT] = "fault-tolerant",
    };
    return names[level];
}

bool cadre_check_status_is_bad(enum cadre_check_status status)
{
    return status >= CADRE_CHECK_FAIL;
}
