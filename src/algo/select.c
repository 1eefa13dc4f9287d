/* select.c: the built-in selection table, and the selection of algorithms by such tables. */
#include <stdio.h>
#include <string.h>

#include "algo/tuning.h"

/* For each collective, the last rules serve calls of any size, number of ranks, order of operands and block sizes.
 *
 * Locality groups: two-level algorithms send fewer bytes between groups. Let n be the number of bytes, N of ranks, G of
 * groups, and g = N/G.
 *  - allreduce: a two-level algorithm sends 2n(G-1) bytes between groups, on g parallel paths. A ring sends 2nG bytes,
 *    on one path after another.
 *  - reduce and broadcast: a two-level algorithm sends n(G-1) bytes. An algorithm without groups sends up to n(N-g).
 *  - reduce_scatter and allgather: two-level algorithms save nothing, because of the rank order of the blocks.
 *
 * Hosts: a wire between hosts is slower than memory. So rules for several hosts send few bytes across wires or, if blocks
 * are short, few messages one after the other. Let H be the number of hosts.
 *  - allreduce: of a long vector, 2n(H-1)/H bytes cross to each host, on as many parallel paths as a host has ranks. Of
 *    a short one, n bytes cross in ceil(log2 H) rounds. Locality groups within hosts are a third level.
 *  - reduce and broadcast: n bytes cross a wire once per host. A chain of pieces pays off from three hosts on: between two,
 *    the pieces are only more messages.
 *  - allgather: each block crosses once per host. reduce_scatter: blocks are summed on each host, and the sums cross.
 *  - gather, scatter, alltoall: blocks cross once in any case. Short ones of many ranks cross together.
 *  - scan: the chain crosses each wire once, and takes a step for each rank.
 *
 * Ranks that share CPUs: the cost of a plan is the number of context switches, whatever the size of the data. There is
 * a context switch each time that a rank waits.
 *
 * Ranks with a core each, in one cache (share<=1 groups<=1): measured on 16 cores of an Intel Xeon with a mesh, with 4, 6, 8, 12
 * and 16 ranks (docs/PERFORMANCE.md). Of short calls, a step costs less than the messages that a rank has to handle one after
 * the other, so trees are faster than `direct` from 8 ranks on. Of long ones, all ranks copy at once, and a broadcast is read by
 * all from the memory in which it was written once. */
static const char hosts_rules[] =
    "allreduce      hosts>=2 bytes<=64K  re:direct/h+ar:recursive_doubling+bc:direct/h\n"
    "allreduce      hosts>=2 groups>=3 ranks<=64 rs:direct/g+rs:direct/h+ar:ring+ag:direct/h+ag:direct/g\n"
    "allreduce      hosts>=2 ranks<=64   rs:direct/h+ar:ring+ag:direct/h\n"
    "allreduce      hosts>=2             rs:bucket/h+ar:ring+ag:bucket/h\n"
    "allreduce      hosts>=2             re:direct/h+ar:ring+bc:direct/h\n"
    "allreduce      hosts>=2             re:direct/h+ar:rabenseifner+bc:direct/h\n"
    "reduce         hosts>=2 bytes<=64K  re:direct/h+re:binomial\n"
    "reduce         hosts>=2             re:direct/h+re:line\n"
    "reduce         hosts>=2             re:direct/h+re:direct\n"
    "broadcast      hosts>=2 bytes<=64K  bc:binomial+bc:direct/h\n"
    "broadcast      hosts>=2 hosts<=2    bc:binomial+bc:direct/h\n"
    "broadcast      hosts>=2             bc:chain+bc:direct/h\n"
    "allgather      hosts>=2             by_host\n"
    "reduce_scatter hosts>=2             by_host\n"
    "alltoall       hosts>=2 ranks>=9 bytes<=4K bruck\n"
    "barrier        hosts>=2             by_host\n"
    "scan           hosts>=2 ranks<=8    chain\n"
    "scan           hosts>=2 ranks<=16 order=canonical sklansky\n"
    "scan           hosts>=2             recursive_doubling\n"
    "exscan         hosts>=2 ranks<=8    chain\n"
    "exscan         hosts>=2 ranks<=16 order=canonical sklansky\n"
    "exscan         hosts>=2             recursive_doubling\n";

static const char core_rules[] =
    "allreduce      ranks>=4 ranks<=7 share<=1 groups<=1 bytes<=2K direct\n"
    "allreduce      ranks>=4 ranks<=8 share<=1 groups<=1 bytes<=32 direct\n"
    "allreduce      ranks>=4 ranks<=8 share<=1 groups<=1 bytes<=32K recursive_doubling\n"
    "allreduce      ranks=8 share<=1 groups<=1 bytes>=128K bytes<=512K rs:recursive_halving+ag:direct\n"
    "allreduce      ranks>=9 ranks<=16 share<=1 groups<=1 bytes<=8K recursive_doubling\n"
    "allreduce      ranks>=9 ranks<=16 share<=1 groups<=1 bytes<=32K bine\n"
    "allreduce      ranks>=9 ranks<=16 share<=1 groups<=1 bytes<=128K rabenseifner\n"
    "allreduce      ranks>=9 ranks<=16 share<=1 groups<=1 bytes<=4M rs:pairwise+ag:direct\n"
    "allreduce      ranks>=9 ranks<=16 share<=1 groups<=1 rs:direct+ag:direct\n"
    "reduce         ranks>=4 ranks<=7 share<=1 groups<=1 bytes<=16K direct\n"
    "reduce         ranks>=4 ranks<=16 share<=1 groups<=1 bytes<=32K binomial\n"
    "reduce         ranks>=4 ranks<=7 share<=1 groups<=1 bytes<=2M binomial\n"
    "reduce         ranks=8 share<=1 groups<=1 bytes<=1M rs_gather\n"
    "reduce         ranks>=9 ranks<=16 share<=1 groups<=1 bytes<=256K rs_gather\n"
    "reduce         ranks>=4 ranks<=16 share<=1 groups<=1 bidirectional\n"
    "broadcast      ranks=8 share<=1 groups<=1 bytes<=512 binomial\n"
    "broadcast      ranks>=9 ranks<=16 share<=1 groups<=1 bytes<=2K binomial\n"
    "broadcast      ranks>=9 ranks<=16 share<=1 groups<=1 direct\n"
    "gather         ranks=8 share<=1 groups<=1 bytes<=128 binomial\n"
    "gather         ranks>=9 ranks<=16 share<=1 groups<=1 bytes<=4K binomial\n"
    "gather         ranks>=9 ranks<=16 share<=1 groups<=1 direct\n"
    "scatter        ranks=8 share<=1 groups<=1 bytes<=128 binomial\n"
    "scatter        ranks>=9 ranks<=16 share<=1 groups<=1 bytes<=4K binomial\n"
    "scatter        ranks>=9 ranks<=16 share<=1 groups<=1 direct\n"
    "allgather      ranks=16 share<=1 groups<=1 bytes<=4K recursive_doubling\n"
    "allgather      ranks>=9 ranks<=16 share<=1 groups<=1 direct\n"
    "reduce_scatter ranks=8 share<=1 groups<=1 bytes>=32K bytes<=512K recursive_halving\n"
    "reduce_scatter ranks>=9 ranks<=16 share<=1 groups<=1 bytes<=32K direct\n"
    "reduce_scatter ranks>=8 ranks<=16 share<=1 groups<=1 bytes>=32K bytes<=4M pairwise\n"
    "reduce_scatter ranks>=8 ranks<=16 share<=1 groups<=1 direct\n"
    "alltoall       ranks>=9 ranks<=16 share<=1 groups<=1 bytes<=16K direct\n"
    "alltoall       ranks>=5 ranks<=16 share<=1 groups<=1 bytes>=32K pairwise\n"
    "alltoall       ranks=4 share<=1 groups<=1 bytes>=512K pairwise\n"
    "barrier        ranks=8 share<=1 groups<=1 dissemination\n"
    "scan           ranks>=5 ranks<=8 share<=1 groups<=1 bytes<=512K recursive_doubling\n"
    "scan           ranks>=9 ranks<=16 share<=1 groups<=1 bytes<=64K recursive_doubling\n"
    "scan           ranks>=5 ranks<=16 share<=1 groups<=1 chain\n"
    "exscan         ranks>=5 ranks<=8 share<=1 groups<=1 bytes<=512K recursive_doubling\n"
    "exscan         ranks>=9 ranks<=16 share<=1 groups<=1 bytes<=128K recursive_doubling\n"
    "exscan         ranks>=5 ranks<=16 share<=1 groups<=1 chain\n";

static const char other_rules[] =
    "allreduce      ranks<=2 bytes<=256K direct\n"
    "allreduce      ranks<=2             ring\n"
    "allreduce      ranks<=4 share>=2 bytes<=4K   direct\n"
    "allreduce      ranks<=4 share>=2 bytes<=64K  recursive_doubling\n"
    "allreduce      ranks>=5 ranks<=32 share>=2 bytes<=1K   direct\n"
    "allreduce      ranks>=5 ranks<=32 share>=2 bytes<=256K re:direct+bc:direct\n"
    "allreduce      ranks<=8 bytes<=32K  direct\n"
    "allreduce      bytes<=8K            recursive_doubling\n"
    "allreduce      groups>=2 ranks<=16  rs:direct/g+ar:ring+ag:direct/g\n"
    "allreduce      groups>=2            rs:bucket/g+ar:ring+ag:bucket/g\n"
    "allreduce      ranks<=4             rs:direct+ag:direct\n"
    "allreduce      ranks<=8 bytes<=512K rabenseifner\n"
    "allreduce      ranks<=8             rs:direct+ag:direct\n"
    "allreduce                           ring\n"
    "allreduce                           rabenseifner\n"
    "allreduce      bytes<=64K           recursive_doubling\n"
    "allreduce                           rs:direct+ag:bucket\n"
    "reduce         ranks<=8 bytes<=8K   direct\n"
    "reduce         bytes<=8K            binomial\n"
    "reduce         groups>=2 ranks<=16  re:direct/g+re:direct\n"
    "reduce         ranks<=8             direct\n"
    "reduce                              binomial\n"
    "reduce                              direct\n"
    "broadcast      ranks<=8 bytes<=8K   direct\n"
    "broadcast      bytes<=8K            binomial\n"
    "broadcast      groups>=2 ranks<=16  bc:direct+bc:direct/g\n"
    "broadcast      ranks<=8             direct\n"
    "broadcast                           binomial\n"
    "gather         ranks<=8             direct\n"
    "gather         bytes<=16K           binomial\n"
    "gather                              direct\n"
    "scatter        ranks<=8             direct\n"
    "scatter        bytes<=16K           binomial\n"
    "scatter                             direct\n"
    "allgather      ranks<=8             direct\n"
    "allgather                           bucket\n"
    "reduce_scatter ranks<=8             direct\n"
    "reduce_scatter ranks<=16 share>=2   direct\n"
    "reduce_scatter                      bucket\n"
    "reduce_scatter                      direct\n"
    "alltoall       ranks<=8             direct\n"
    "alltoall       bytes<=4K            direct\n"
    "alltoall                            pairwise\n"
    "barrier        ranks<=8             direct\n"
    "barrier        ranks<=64 share>=2   central\n"
    "barrier                             dissemination\n"
    "scan           ranks=4 share>=2 bytes<=1K direct\n"
    "scan           ranks=4 share>=2 bytes<=4K recursive_doubling\n"
    "scan           ranks=4 share>=2 bytes<=64K sklansky\n"
    "scan           ranks>=5 ranks<=8 share>=2 bytes<=2K direct\n"
    "scan           ranks>=5 ranks<=16 share>=2 bytes>=64K chain\n"
    "scan           ranks<=4             chain\n"
    "scan           ranks<=16            sklansky\n"
    "scan                                recursive_doubling\n"
    "exscan         ranks>=3 ranks<=4 share>=2 bytes<=1K direct\n"
    "exscan         ranks>=5 ranks<=8 share>=2 bytes<=2K direct\n"
    "exscan         ranks>=5 ranks<=16 share>=2 bytes>=128K chain\n"
    "exscan         ranks<=4             chain\n"
    "exscan         ranks<=16            sklansky\n"
    "exscan                              recursive_doubling\n"
    "send                                direct\n";

/* The first call reads the table. If several threads read it at the same time, one of the copies stays for all later
 * calls, and the other copies are freed. */
const struct tu_tuning *tu_tuning_builtin(void) {
  static struct tu_tuning *_Atomic kept;
  struct tu_tuning *tuning = atomic_load_explicit(&kept, memory_order_acquire);
  if (tuning) return tuning;
  char rules[sizeof hosts_rules + sizeof core_rules + sizeof other_rules];
  const int bytes = snprintf(rules, sizeof rules, "%s%s%s", hosts_rules, core_rules, other_rules);
  const struct tu_tuning_text text = {"the built-in table", rules, (size_t)bytes, NULL};
  struct tu_error error;
  tutti_err err = tu_tuning_read(&text, &tuning, &error);
  if (err == TUTTI_ERR_MEMORY) tu_arena_refuse_again();
  tu_assert(err == TUTTI_OK);
  struct tu_tuning *first = NULL;
  if (atomic_compare_exchange_strong(&kept, &first, tuning)) return tuning;
  tu_tuning_release(tuning);
  return first;
}

/* Returns the algorithm of the rule, or NULL if the rule does not serve the call. Ignores the conditions on the size of
 * the call. */
static const struct tu_algorithm *offer(const struct tu_rule *rule, const struct tu_wanted *wanted) {
  const char *why;
  uint32_t groups = wanted->group ? wanted->ranks / wanted->group : 1, share = (uint32_t)tu_max(wanted->share, 1);
  if (rule->collective != wanted->collective && rule->collective != tu_collectives[wanted->collective].family)
    return NULL;
  if (wanted->ranks < rule->ranks_min || wanted->ranks > rule->ranks_max) return NULL;
  uint32_t hosts = tu_wanted_hosts(wanted);
  if (hosts < rule->hosts_min || hosts > rule->hosts_max) return NULL;
  if (groups < rule->groups_min || groups > rule->groups_max) return NULL;
  if (share < rule->share_min || share > rule->share_max) return NULL;
  if (!(rule->orders & (wanted->canonical ? TU_FOR_CANONICAL : TU_FOR_ANY))) return NULL;
  const struct tu_algorithm *a = tu_algorithm_in_groups(rule->algorithm, wanted->group);
  if (wanted->lanes > tu_build_lanes_max(a)) return NULL;
  return tu_algorithm_serves(a, wanted, &why) ? a : NULL;
}

const struct tu_algorithm *tu_tuning_select(const struct tu_tuning *tuning, const struct tu_wanted *wanted) {
  const struct tu_tuning *tables[] = {tuning, tu_tuning_builtin()};
  for (int t = 0; t < 2; t++)
    for (uint32_t i = 0; tables[t] && i < tables[t]->rule_count; i++) {
      const struct tu_rule *rule = &tables[t]->rules[i];
      if (wanted->bytes < rule->bytes_min || wanted->bytes > rule->bytes_max) continue;
      const struct tu_algorithm *a = offer(rule, wanted);
      if (a) return a;
    }
  tu_assert(false && "every collective has a rule that serves anything");
  return NULL;
}

struct choosing {
  const struct tu_tuning *tuning;
  const struct tu_wanted *wanted;
  /* before `choose`: the forced algorithm or NULL; afterwards: the algorithm to use */
  const struct tu_algorithm *choice;
};

static tutti_err choose(void *argument, struct tu_error *error) {
  struct choosing *c = argument;
  (void)error;
  const struct tu_algorithm *a = c->choice ? c->choice : tu_tuning_select(c->tuning, c->wanted);
  c->choice = tu_algorithm_in_groups(a, c->wanted->group);
  return TUTTI_OK;
}

tutti_err tu_tuning_choose(const struct tu_tuning *tuning, const struct tu_algorithm *forced,
                           const struct tu_wanted *wanted, const struct tu_algorithm **choice, struct tu_error *error) {
  struct choosing c = {tuning, wanted, forced};
  tutti_err err = tu_arena_build(choose, &c, "the selection of an algorithm", error);
  *choice = c.choice;
  return err;
}

/* Returns the largest size up to which the same rules match as for wanted->bytes, in the user's table and in the
 * built-in table. */
static size_t same_rules_until(const struct tu_tuning *tuning, const struct tu_wanted *wanted) {
  const struct tu_tuning *tables[] = {tuning, tu_tuning_builtin()};
  size_t until = SIZE_MAX;
  for (int t = 0; t < 2; t++)
    for (uint32_t i = 0; tables[t] && i < tables[t]->rule_count; i++) {
      const struct tu_rule *rule = &tables[t]->rules[i];
      if (!offer(rule, wanted)) continue;
      if (rule->bytes_min > wanted->bytes) until = tu_min(until, rule->bytes_min - 1);
      if (rule->bytes_max >= wanted->bytes) until = tu_min(until, rule->bytes_max);
    }
  return until;
}

size_t tu_tuning_select_until(const struct tu_tuning *tuning, const struct tu_wanted *wanted) {
  const struct tu_algorithm *choice = tu_tuning_select(tuning, wanted);
  struct tu_wanted next = *wanted;
  for (;;) {
    size_t until = same_rules_until(tuning, &next);
    if (until == SIZE_MAX) return SIZE_MAX;
    next.bytes = until + 1;
    if (tu_tuning_select(tuning, &next) != choice) return until;
  }
}
