/* names.h: finds collectives, datatypes and algorithms by the names on the command line, and reads plans from files. */
#ifndef CLI_NAMES_H
#define CLI_NAMES_H

#include "algo/algo.h"
#include "cli/cli.h"

/* Find a collective or a datatype by its name ("allreduce", "f32") or by an alias of other libraries ("all_reduce",
 * "float"); return false if there is none. Names in files have no aliases. */
bool cli_find_collective(const char *word, tutti_collective *collective);
bool cli_find_datatype(const char *word, tutti_datatype *type);

/* A parsed name: COLLECTIVE or COLLECTIVE.ALGORITHM. A collective with unequal blocks (such as allgatherv) has the
 * algorithms of the same collective with equal blocks (allgather), so its name stands for that one. */
struct cli_name {
  /* the collective; for one with unequal blocks (allgatherv), the one with equal blocks (allgather) */
  tutti_collective collective;
  const struct tu_algorithm *algorithm; /* algorithm of the collective; NULL: all of its algorithms */
};

/* Parses a name into *name. Returns false if the word is not the name of a collective or algorithm. */
bool cli_find_name(const char *word, struct cli_name *name);

/* The hosts of the ranks, given by --hosts. */
struct cli_hosts {
  const char *text;               /* the option's argument; NULL: not given */
  struct tu_placement *placement; /* NULL: one host */
};
#define HOSTS_OPTION(hosts)                                                  \
  {                                                                          \
    "--hosts", CLI_STRING, &(hosts)->text, "HOSTS",                          \
        "ranks of each host (4,4), or a letter per rank for its host (abab)" \
  }
/* Reads the argument of --hosts, if it is given, and sets *ranks. *ranks must be 0 or agree. Returns CLI_GOOD; otherwise
 * prints the reason and returns CLI_USAGE. cli_hosts_fini frees the placement. */
int cli_hosts_read(struct cli_hosts *hosts, const char *verb, uint32_t *ranks);
void cli_hosts_fini(struct cli_hosts *hosts);

/* Checks that the name denotes one algorithm that can be built for the ranks, hosts, root, chunks, lanes and order of
 * `what`, and sets what->algorithm. If a plan of the collective cannot follow the hosts, sets what->placement to NULL. Returns
 * CLI_GOOD; otherwise prints the reason and returns CLI_USAGE. */
int cli_check_build(const char *verb, const char *word, const struct cli_name *name, struct tu_build *what);

/* Reads a plan from a file ("-": standard input). The file has the text form of a plan, or MSCCL XML; in_place selects
 * the in-place or the out-of-place plan of the XML (see tu_plan_read_any). Returns TUTTI_ERR_ARGUMENT if the file has
 * no valid plan. The caller destroys the plan. */
tutti_err cli_read_plan(const char *path, bool in_place, struct tu_plan **plan, struct tu_error *error);

/* Prints "unknown algorithm 'x'; did you mean 'y'?", or that the file x cannot be read, if that is meant; returns
 * exit_code. */
int cli_fail_name(const char *verb, int exit_code, const char *word);

#endif
