/* composite.h: algorithms composed of other algorithms, by name.
 *
 *   name  = phase { "+" phase }
 *   phase = kind ":" algorithm [ "/" G | "/g" | "/h" ]     kind = rs | ag | ar | re | bc | ga | sc
 *
 * Kinds are reduce_scatter, allgather, allreduce, reduce, broadcast, gather and scatter.
 *
 * "/G": the phase runs within groups of G consecutive ranks, for example those of a node. If some phase of a name has
 * "/G", the phases without it run between the groups. If phases cut the vector into shares (rs, ag), N must be a
 * multiple of G. If one rank per group acts for its group (re, bc), N may be any number.
 * "/g" leaves the size G open. It becomes the size of the communicator's locality groups.
 * "/h": the phase runs within each host. If phases cut the vector into shares, the hosts must have the same number of
 * ranks. If "/G" or "/g" occurs in the same name, these groups lie within the hosts: phases with "/h" run between the
 * groups of a host, and those without run between the hosts.
 *
 * The forms that each collective allows (A, B, C and D stand for algorithms):
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

/* Returns the composite with this name, or NULL if the name is invalid, with the reason in *error. The composite lives
 * as long as the process. */
const struct tu_algorithm *tu_composite_find(tutti_collective collective, const char *name, struct tu_error *error);

/* Returns the number of ranks per group, as a number in the name; 0 if there is none. */
uint32_t tu_composite_group(const struct tu_algorithm *a);
/* Returns the composite `a`, which must have groups, with groups of `group` ranks; groups that are hosts stay. If the
 * resulting name would be too long, returns `a` itself. */
const struct tu_algorithm *tu_composite_in_groups(const struct tu_algorithm *a, uint32_t group);

/* Builds the plan of the composite `name`. For an algorithm of the table that is only a short name of this composite;
 * for example, allreduce.line is rs:line+ag:line. Both must have the same collective and the same number of chunks per
 * block (split). */
void tu_composite_build(struct tu_builder *b, const char *name);

/* Examples of composites of every form, for the tests and `tutti check`. Some group sizes do not divide the usual
 * numbers of ranks. */
struct tu_composite_example {
  tutti_collective collective;
  const char *name;
};
extern const struct tu_composite_example tu_composite_examples[];
extern const size_t tu_composite_example_count;

#endif
