/* A plan in one sentence, for headlines. */
#ifndef MEMWALL_PLAN_PLAN_WORDS_H
#define MEMWALL_PLAN_PLAN_WORDS_H

#include "sim/plan/plan.h"

/* "gpt3-175b, fp16, 256 samples a step: tensor 8 (sequence parallel), pipeline 8 x 3 chunks (interleaved), data 4 (ZeRO-1); 64 micro-batches of 1 in each replica; recompute selective; memory policy
 * resident". What is 1 or absent is left out; layers that differ from the degrees are counted. No line end. */
void plan_words(const struct plan *plan, const struct model *model, struct strbuf *out);

#endif
