/* onto.h: plans laid onto a cluster: which chip takes the part of which rank, and which way each message goes. */
#ifndef CLI_ONTO_H
#define CLI_ONTO_H

#include "base/text.h"
#include "budget.h"
#include "names.h"
#include "topology/ring.h"
#include "topology/route.h"

enum onto_order { ONTO_NUMBER, ONTO_RING, ONTO_GRID, ONTO_ORDERS };

struct onto {
  /* As asked. */
  const char *what;            /* NULL: no cluster */
  const char *reserve, *place; /* NULL: none, auto */
  bool dimension_order;
  const struct budget *budget; /* of what is built */
  /* As found. */
  struct tu_cluster *cluster;
  struct tu_grid grid;
  struct tu_ring ring;
  struct tu_router *router;
  /* The plan that was laid last. */
  enum onto_order order;
  size_t messages;
  struct tu_loads loads; /* in blocks */
};

/* The options that say it, for a verb's table. */
#define ONTO_OPTIONS(o)                                                                                    \
  {"--cluster", CLI_STRING, &(o)->what, "CLUSTER", "lay it onto these chips; see tutti topo"},             \
      {"--reserve", CLI_STRING, &(o)->reserve, "WHICH", "links of the cluster that are not for use"},      \
      {"--place", CLI_STRING, &(o)->place, "HOW", "ranks on chips: ring, grid, number or auto (auto)"}, {  \
    "--dimension-order", CLI_FLAG, &(o)->dimension_order, NULL, "messages go a grid's dimensions in order" \
  }

/* These say what is wrong, and return exit codes. A cluster that was opened is closed, after a failure too. */
int onto_open(struct onto *o, const char *verb);
void onto_close(struct onto *o);

/* Builds what->algorithm, or without one what the collective has for such a cluster, for its chips, so that input and output
 * are in the order of the chips' numbers; and finds its messages' ways. Of several orders or algorithms it takes the one
 * whose busiest link carries least, of equals the one with the fewest hops. Fills in `what`. The caller destroys the
 * plan. */
int onto_build(struct onto *o, const char *verb, const char *word, const struct cli_name *name, struct tu_build *what,
               struct tu_plan **plan);
/* The same for a plan that is there; it is replaced. */
int onto_lay(struct onto *o, const char *verb, const char *word, struct tu_plan **plan);
/* The algorithm on groups of a row's ranks, if its groups are open and the chips are a grid of rows and columns. */
const struct tu_algorithm *onto_algorithm(const struct onto *o, const struct tu_algorithm *a);

/* "on t3000 in the order of its ring, 0 3 7 6 2 1 5 4" */
void onto_say_order(const struct onto *o, struct tu_text *text);
/* The chips' places in that order, for pictures; NULL if it is that of their numbers. The caller frees it. */
uint32_t *onto_columns(const struct onto *o);
/* What messages and links make of it, in a line. */
void onto_say_loads(const struct onto *o, struct tu_text *text);
/* Every link that carries something; every message's way. */
void onto_list_links(const struct onto *o, struct tu_text *text);
void onto_list_routes(const struct onto *o, const struct tu_plan *plan, struct tu_text *text);

#endif
