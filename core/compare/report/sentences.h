/* SPDX-License-Identifier: Apache-2.0 */
/* The conclusions of a report, sentence by sentence: who was faster, whether the
 * training was the same, what exact mode costs. [any thread] */
#ifndef CADRE_COMPARE_REPORT_SENTENCES_H
#define CADRE_COMPARE_REPORT_SENTENCES_H

#include "core/base/memory.h"
#include "core/compare/verdict/comparison.h"

enum cadre_tone {
    CADRE_TONE_OPEN, /* nothing was shown, or it is a mere fact */
    CADRE_TONE_SHOWN, /* a difference of speed, or equality, that was shown */
    CADRE_TONE_BAD, /* training that differs, a run that failed */
};

struct cadre_sentence {
    enum cadre_tone tone;
    char *text; /* without a line break; owned */
};

struct cadre_sentences {
    struct cadre_sentence *of; /* owned */
    size_t n;
    bool failed; /* no memory: some are missing */
};

/* All conclusions, in the order in which they are read. *sentences is zeroed by the
 * caller, who ends it by fini. */
void cadre_sentences_fill(struct cadre_sentences *sentences,
                          const struct cadre_comparison *comparison);

/* Those about speed alone; they come first. */
/* Why no run is ranked, "" where one is. Borrowed. */
const char *cadre_sentences_unranked(const struct cadre_comparison *comparison);

void cadre_sentences_speed(struct cadre_sentences *sentences,
                           const struct cadre_comparison *comparison);

/* Accepts a zeroed one. */
void cadre_sentences_fini(struct cadre_sentences *sentences);

/* "name (strategy)", or only the name if the strategy has the same one. */
void cadre_sentences_put_run(struct cadre_text *out,
                             const struct cadre_compared_run *run);

#endif
