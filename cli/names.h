/* names.h: finding algorithms by the names that people type, and plans by their files. */
#ifndef CLI_NAMES_H
#define CLI_NAMES_H

#include "algo/algo.h"
#include "cli.h"

/* A name is a collective, or COLLECTIVE.ALGORITHM; vector names mean their family. */
struct cli_name {
  tutti_collective collective;          /* a family */
  const struct tu_algorithm *algorithm; /* NULL: all of the collective */
};

/* False if there is none of it. */
bool cli_find_name(const char *word, struct cli_name *name);

/* May that be built, of one algorithm, for what->ranks and what->root? Says why not. Sets what->algorithm. */
int cli_check_build(const char *verb, const char *word, const struct cli_name *name, struct tu_build *what);

/* Reads a plan from a file ("-": standard input): its text form, or the XML of MSCCL, of which `in_place` picks (see
 * tu_plan_read_any). What is no plan is refused with TUTTI_ERR_ARGUMENT. The caller destroys it. */
tutti_err cli_read_plan(const char *path, bool in_place, struct tu_plan **plan, struct tu_error *error);

/* "there is no algorithm 'x', did you mean 'y'?"; returns exit_code. */
int cli_fail_name(const char *verb, int exit_code, const char *word);

#endif
