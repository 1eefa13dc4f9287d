/* composite.h: algorithms put together of others, by name.
 *
 *   name  = phase { "+" phase }
 *   phase = kind ":" algorithm [ "/" G | "/g" | "/h" ]     kind = rs | ag | ar | re | bc | ga | sc
 *
 * Kinds are reduce_scatter, allgather, allreduce, reduce, broadcast, gather and scatter. "/G": within groups of G ranks that
 * follow each other (a node, a row of a mesh); the phases without it are then between the groups (the columns). Where
 * shares are cut (rs, ag), N must be a multiple of G; where one rank of a group speaks for it (re, bc), any N will do.
 * "/g" leaves the size open: it is that of the communicator's groups by caches or NUMA nodes; with "/h" groups are hosts.
 *
 *   allreduce       rs:A+ag:B   re:A+bc:B   rs:A/G+ar:B+ag:C/G   rs:A+rs:B/G+ag:C/G+ag:D   re:A/G+ar:B+bc:C/G ...
 *   reduce          rs:A+ga:B   re:A/G+re:B
 *   broadcast       sc:A+ag:B   bc:A+bc:B/G
 *   reduce_scatter  rs:A+rs:B/G
 *   allgather       ag:A/G+ag:B */
#ifndef TU_COMPOSITE_H
#define TU_COMPOSITE_H

#include "algo/algo.h"

static inline bool tu_is_composite(const char *name) {
  while (*name && *name != ':') name++;
  return *name == ':';
}

/* NULL if the name is none; the error says why. Lives as long as the process. */
const struct tu_algorithm *tu_composite_find(tutti_collective collective, const char *name, struct tu_error *error);

/* Ranks of a group; 0: `a` is no composite, or has no groups, or leaves their size open. */
uint32_t tu_composite_group(const struct tu_algorithm *a);
/* The composite that `a`, a composite with groups, is on groups of `group` ranks; `a` itself if that would have too long a
 * name. */
const struct tu_algorithm *tu_composite_in_groups(const struct tu_algorithm *a, uint32_t group);

/* Carries out the composite of that name in the place of an algorithm of the same collective, which has its split. */
void tu_composite_build(struct tu_builder *b, const char *name);

/* Of every shape and with awkward groups: what tests and `tutti check` go through. */
struct tu_composite_example {
  tutti_collective collective;
  const char *name;
};
extern const struct tu_composite_example tu_composite_examples[];
extern const size_t tu_composite_example_count;

#endif
