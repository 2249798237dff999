/* SPDX-License-Identifier: Apache-2.0 */
/* Faults planted in correct strategies. A base (base_*.c) is complete and correct when
 * it is compiled as it is. With -DFAULT=n exactly one of its lines is another:
 * table.tsv says which, and which check must name it. Both lines of every fault are
 * compiled always, so that neither is forgotten when a header changes. */
#ifndef CADRE_TESTS_PLANTED_H
#define CADRE_TESTS_PLANTED_H

#ifndef FAULT
#define FAULT 0
#endif

/* The short name of the plugin, which is that of its file: base_data, planted_17. */
#ifndef PLANTED_NAME
#define PLANTED_NAME base
#endif
#define PLANTED_TEXT_OF(name) #name
#define PLANTED_TEXT(name) PLANTED_TEXT_OF(name)
#define PLANTED_ID "org.cadre.test." PLANTED_TEXT(PLANTED_NAME)

/* A statement: `wrong` where fault n is planted, else `right`. */
#define PLANTED(n, wrong, right)                                                       \
    do {                                                                               \
        if (FAULT == (n)) {                                                            \
            wrong;                                                                     \
        } else {                                                                       \
            right;                                                                     \
        }                                                                              \
    } while (0)

/* The same for an expression. */
#define PLANTED_VALUE(n, wrong, right) (FAULT == (n) ? (wrong) : (right))

/* One of the two lines where the other text has none. */
#define NOTHING ((void)0)

#endif
