/* onto.h: maps plans onto a cluster: chooses the chip of each rank and the route of each message. */
#ifndef CLI_ONTO_H
#define CLI_ONTO_H

#include "base/text.h"
#include "cli/budget.h"
#include "cli/names.h"
#include "topology/ring.h"
#include "topology/route.h"

enum onto_order { ONTO_NUMBER, ONTO_RING, ONTO_GRID, ONTO_ORDERS };

/* A cluster, the options of the mapping, and the plan that was mapped last. */
struct onto {
  /* These fields are set by the caller, mostly from the command line's options. */
  const char *what;            /* value of --cluster; NULL: no cluster */
  const char *reserve, *place; /* values of --reserve and --place; NULL: not given */
  bool dimension_order;
  const struct budget *budget; /* limits of time and memory for building plans */
  /* onto_open sets the fields from here on. */
  struct tu_cluster *cluster;
  struct tu_grid grid;
  struct tu_ring ring;
  struct tu_router *router;
  /* onto_build and onto_lay set the fields from here on. They describe the plan that was mapped last. */
  enum onto_order order;
  size_t messages;
  struct tu_loads loads; /* load of each link in each direction, in blocks of data */
};

/* The options of the mapping, for a verb's table of options. */
#define ONTO_OPTIONS(o)                                                                                             \
  {"--cluster", CLI_STRING, &(o)->what, "CLUSTER", "map the plan onto this cluster; see tutti topo"},               \
      {"--reserve", CLI_STRING, &(o)->reserve, "none|dispatch|LIST", "links of the cluster that must not be used"}, \
      {"--place", CLI_STRING, &(o)->place, "ring|grid|number|auto", "order of the ranks on the chips (auto)"}, {    \
    "--dimension-order", CLI_FLAG, &(o)->dimension_order, NULL, "use dimension-order routing on a grid"             \
  }

/* Loads the cluster, and finds its grid and its ring. All functions of this file that return int print errors and
 * return an exit status. The caller must call onto_close after onto_open, even if onto_open has failed. */
int onto_open(struct onto *o, const char *verb);
void onto_close(struct onto *o);

/* Builds a plan with one rank for each chip of the cluster, and routes its messages. The algorithm is name->algorithm.
 * If this is NULL, it is a default algorithm of the collective for this cluster. The blocks of input and output are in
 * the order of the chips' numbers.
 *
 * Tries the orders of the ranks on the chips that the cluster has and --place allows. Keeps the plan with the least
 * load on its busiest link; among equal ones, the one with the fewest hops. Sets `algorithm`, `ranks` and `rank` of
 * `what`. The caller destroys the plan. */
int onto_build(struct onto *o, const char *verb, const char *word, const struct cli_name *name, struct tu_build *what,
               struct tu_plan **plan);
/* Maps an existing plan onto the cluster. Tries the same orders of the ranks as onto_build, and keeps the best one.
 * Replaces *plan by the mapped plan. */
int onto_lay(struct onto *o, const char *verb, const char *word, struct tu_plan **plan);
/* If the cluster is a two-dimensional grid and the algorithm leaves the size of its groups open, returns the algorithm
 * with the rows of the grid as groups. Otherwise returns the algorithm unchanged. */
const struct tu_algorithm *onto_algorithm(const struct onto *o, const struct tu_algorithm *a);

/* Writes the order of the ranks, for example "on t3000 in the order of its ring, 0 3 7 6 2 1 5 4". */
void onto_say_order(const struct onto *o, struct tu_text *text);
/* Returns the position of each chip in the order of the ranks, for pictures. Returns NULL if the ranks are in the order
 * of the chips' numbers. The caller frees the array. */
uint32_t *onto_columns(const struct onto *o);
/* Writes one line: the number of messages and hops, and the load of the busiest link. */
void onto_say_loads(const struct onto *o, struct tu_text *text);
/* onto_list_links writes every link that has a load, onto_list_routes the route of every message. */
void onto_list_links(const struct onto *o, struct tu_text *text);
void onto_list_routes(const struct onto *o, const struct tu_plan *plan, struct tu_text *text);

#endif
