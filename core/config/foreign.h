/* SPDX-License-Identifier: Apache-2.0 */
/* What other programs call our options and strategies, for the hints of errors and for
 * `cadre options PATTERN`. */
#ifndef CADRE_CONFIG_FOREIGN_H
#define CADRE_CONFIG_FOREIGN_H

#include <stddef.h>

struct cadre_foreign {
    const char *of; /* whose name it is: "Megatron-LM"; "" in common use */
    const char *name; /* there: "tensor-model-parallel-size", "training.seq_len" */
    const char *option; /* the option that does it here */
    const char *write; /* behind it, such as " = tensor:N"; "" for nothing */
};

/* The entry of an option's name as it may be written: with or without dashes in front,
 * in any case, "-" and "_" being the same. With a section that is no part of a name
 * there ("train.seq_length"), cadre_foreign_key looks at what follows it. NULL where
 * there is none. [any thread] */
const struct cadre_foreign *cadre_foreign_find(const char *name);
const struct cadre_foreign *cadre_foreign_key(const char *name);

/* All entries, *n of static storage. */
const struct cadre_foreign *cadre_foreign_all(size_t *n);

/* "training.seq_len of TorchTitan is model.context here". Returns out. */
const char *cadre_foreign_say(const struct cadre_foreign *foreign, char *out,
                              size_t size);

/* What `name` in strategy.stack is here, as a sentence: "FSDP is zero with zero.stage =
 * 3"; NULL where it is unknown. Names are compared as above. [any thread] */
const char *cadre_foreign_strategy(const char *name);

#endif
