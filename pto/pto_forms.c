/* pto_forms.c: the table of the instructions and their properties. */
#include "pto/pto.h"

static const char *const reductions[] = {[TU_PTO_SUM] = "Sum", [TU_PTO_MAX] = "Max", [TU_PTO_MIN] = "Min"};
static const char *const notices[] = {[TU_PTO_SET] = "Set", [TU_PTO_ADD] = "AtomicAdd"};
static const char *const comparisons[] = {[TU_PTO_EQ] = "EQ", [TU_PTO_NE] = "NE", [TU_PTO_GT] = "GT",
                                          [TU_PTO_GE] = "GE", [TU_PTO_LT] = "LT", [TU_PTO_LE] = "LE"};
static const char *const stores[] = {[TU_PTO_SET] = "None", [TU_PTO_ADD] = "Add"};

static const struct tu_pto_choices reduce_op = {"reduce_op", reductions, 3};
static const struct tu_pto_choices notify_op = {"notify_op", notices, 2};
static const struct tu_pto_choices cmp = {"cmp", comparisons, 6};
static const struct tu_pto_choices atomic = {"atomic", stores, 2};

const struct tu_pto_form tu_pto_forms[TU_PTO_OPCODES] = {
    [TU_PTO_TGATHER] = {.name = "tgather", .collective = true, .operands = 2, .tiles = 1, .result = TU_PTO_EVENT},
    [TU_PTO_TSCATTER] = {.name = "tscatter", .collective = true, .operands = 2, .tiles = 1, .result = TU_PTO_EVENT},
    [TU_PTO_TBROADCAST] = {.name = "tbroadcast", .collective = true, .operands = 2, .tiles = 1, .result = TU_PTO_EVENT},
    [TU_PTO_TREDUCE] = {.name = "treduce",
                        .key = "op",
                        .choices = &reduce_op,
                        .needs_choice = true,
                        .collective = true,
                        .operands = 2,
                        .tiles = 2,
                        .result = TU_PTO_EVENT},
    [TU_PTO_TPUT] = {.name = "tput",
                     .key = "atomic",
                     .choices = &atomic,
                     .shaped = true,
                     .operands = 2,
                     .tiles = 1,
                     .result = TU_PTO_EVENT},
    [TU_PTO_TGET] = {.name = "tget", .shaped = true, .operands = 2, .tiles = 1, .result = TU_PTO_EVENT},
    [TU_PTO_TPUT_ASYNC] = {.name = "tput_async", .shaped = true, .operands = 2, .result = TU_PTO_EVENT},
    [TU_PTO_TGET_ASYNC] = {.name = "tget_async", .shaped = true, .operands = 2, .result = TU_PTO_EVENT},
    [TU_PTO_TNOTIFY] = {.name = "tnotify", .key = "op", .choices = &notify_op, .needs_choice = true, .operands = 2},
    [TU_PTO_TWAIT] =
        {.name = "twait", .key = "cmp", .choices = &cmp, .needs_choice = true, .shaped = true, .operands = 2},
    [TU_PTO_TTEST] = {.name = "ttest",
                      .key = "cmp",
                      .choices = &cmp,
                      .needs_choice = true,
                      .shaped = true,
                      .operands = 2,
                      .result = TU_PTO_BOOL},
    [TU_PTO_TSYNC] = {.name = "tsync", .operands = 1},
};
