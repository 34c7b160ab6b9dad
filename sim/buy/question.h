/* A question to buy by ("memwall.question/1"): a need, and the machines offered.
 *
 *     { "schema": "memwall.question/1", "name": "7B in a month",
 *       "model": "llama3-8b", "software": "megatron",                     as in a scenario
 *       "training": { "sequence_length": 4096, "global_batch": 512, "precision": "bf16" },      global_batch is needed; the planner chooses the micro-batch
 *       "tokens": 300e9, "deadline_days": 30, "budget_usd": 1e6,           tokens are needed; the limits are not
 *       "goal": "cost", "pay": "cheaper",                                  goal: cost (but with a budget alone: time); pay: rent, own, cheaper
 *       "electricity_usd_per_kwh": 0.12, "carbon_g_per_kwh": 350, "pue": 1.2, "amortise_years": 4, "utilisation": 0.8, "goodput": 0.95,
 *       "planner": "exhaustive", "planner_parameters": { "simulate": 20 },
 *       "machines": [ { "machine": "dgx-h100", "nodes": [2, 4, 8] },      every number of servers is a candidate
 *                     { "name": "our cloud", "machine": "dgx-a100-80gb", "nodes": 8, "gpus": 60, "usd_per_gpu_hour": 1.1, "system_usd": 2e5, "system_W": 5500 } ] }
 *
 * Prices beside a machine replace its own. What is wrong with the question is refused here, with path and line; what is wrong with one candidate (no network between its servers, a precision that
 * its GPUs do not have) is that candidate's row (buy.h). */
#ifndef MEMWALL_BUY_QUESTION_H
#define MEMWALL_BUY_QUESTION_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/arena.h"
#include "sim/report/money.h"
#include "strategies/planners/planner.h"

enum { QUESTION_MACHINES_MAX = 64, QUESTION_NODES_MAX = 32, QUESTION_CANDIDATES_MAX = 256, QUESTION_NAME_BYTES = 128 };

#define QUESTION_PAY_TABLE(X)                                                                                          \
    X(PAY_CHEAPER, "cheaper")                                                                                          \
    X(PAY_RENT, "rent")                                                                                                \
    X(PAY_OWN, "own")

enum question_pay {
#define X(name, word) name,
    QUESTION_PAY_TABLE(X)
#undef X
        PAY_COUNT
};

enum question_goal { GOAL_COST, GOAL_TIME };

/* One machine, so many of it. */
struct candidate {
    const char *label;        /* the offer's name, or the machine's */
    const char *machine_json; /* what a scenario says for "machine" */
    uint32_t nodes, gpus;
    struct money_prices prices; /* texts live in the question */
};

struct question {
    const char *name;
    const char *file;                       /* for messages */
    const char *model_json, *software_json; /* what a scenario says; software NULL: the default */
    const char
        *training_json; /* members without global_batch, "" or starting with a comma: ",\"precision\":\"bf16\"" */
    int64_t global_batch;
    double tokens, deadline_days, budget_usd; /* limits: 0: none */
    enum question_goal goal;
    enum question_pay pay;
    struct money_terms terms;
    double goodput;
    const struct planner *planner;
    struct parameter_values planner_parameters;
    struct candidate *candidates; /* in the order of the file */
    uint32_t candidate_count;
    struct arena arena;
};

/* On error nothing stays allocated. */
enum status question_load(struct question *question, const char *file, struct error *error);
enum status question_parse(struct question *question, const char *text, const char *file, struct error *error);
void question_free(struct question *question);

/* The scenario of a candidate that any split may start from: one replica a GPU, a sequence each. Its batch is not the question's: see buy.c. */
void question_scenario(const struct question *question, const struct candidate *candidate, struct strbuf *text);

const char *question_pay_word(enum question_pay pay);

#endif
