/* SPDX-License-Identifier: Apache-2.0 */
/* The border to libraries in C++: an exception that left one would end the program, as
 * there is nobody in C to catch it. */
#ifndef CADRE_DEVICE_CPU_GUARDED_H
#define CADRE_DEVICE_CPU_GUARDED_H

enum cadre_thrown {
    CADRE_THROWN_NOTHING,
    CADRE_THROWN_NO_MEMORY, /* std::bad_alloc */
    CADRE_THROWN_OTHER,
};

/* Calls work(arg) and says what it threw; what it had begun stays as it was then. [any
 * thread] */
enum cadre_thrown cadre_guarded(void (*work)(void *), void *arg);

#endif
