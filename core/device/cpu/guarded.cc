/* SPDX-License-Identifier: Apache-2.0 */
/* In C++, as C cannot catch what is thrown. */
#include <new>

extern "C" {
#include "core/device/cpu/guarded.h"

enum cadre_thrown cadre_guarded(void (*work)(void *), void *arg)
{
    try {
        work(arg);
    } catch (const std::bad_alloc &) {
        return CADRE_THROWN_NO_MEMORY;
    } catch (...) {
        return CADRE_THROWN_OTHER;
    }
    return CADRE_THROWN_NOTHING;
}
}
