/* facts.c: selects the facts (properties) of a call that must be equal on all ranks, and prints a call. */
#include "comm/facts.h"

#include <stdio.h>

#include "algo/algo.h"

uint32_t tu_facts_hash(const struct tu_call_facts *facts) {
  const struct tu_collective *c = &tu_collectives[facts->collective];
  struct tu_call_facts must = {
      .collective = facts->collective, .algorithm = facts->algorithm, .plan = facts->plan, .lanes = facts->lanes};
  if (facts->collective != TUTTI_BARRIER) must.type = facts->type;
  if (c->rooted) must.root = facts->root;
  if (tu_reduces(facts->collective)) {
    must.op = facts->op;
    must.rank_order = facts->rank_order;
    must.canonical = facts->canonical;
    must.leaves = facts->leaves;
  }
  if (!c->vector) must.count = facts->count;
  if (!c->vector || !c->rooted) must.counts_hash = facts->counts_hash;
  else if (must.type == TUTTI_BYTES) must.counts_hash = facts->counts_hash & TU_FACT_ELEMENT_BYTES;
  return (uint32_t)tu_hash(&must, sizeof must, 0);
}

uint64_t tu_facts_bytes(const struct tu_call_facts *facts) {
  if (facts->collective == TUTTI_BARRIER) return 0;
  const uint64_t element = facts->type == TUTTI_BYTES ? facts->counts_hash & TU_FACT_ELEMENT_BYTES
                                                      : tutti_datatype_size((tutti_datatype)facts->type);
  return facts->count * element;
}

/* Prints the datatype, and for TUTTI_BYTES the size of an element. */
static void print_type(const struct tu_call_facts *facts, char *text, size_t text_bytes) {
  if (facts->type == TUTTI_BYTES)
    snprintf(text, text_bytes, "elements of %u bytes", (unsigned)(facts->counts_hash & TU_FACT_ELEMENT_BYTES));
  else snprintf(text, text_bytes, "%s", tutti_datatype_name((tutti_datatype)facts->type));
}

bool tu_facts_are_valid(const struct tu_call_facts *facts) {
  return tu_is_collective(facts->collective) && facts->type < TU_DATATYPES && facts->algorithm < tu_algorithm_count;
}

void tu_facts_print(const struct tutti_comm *comm, const struct tu_call_facts *facts, char *text, size_t text_bytes) {
  const struct tu_collective *c = &tu_collectives[facts->collective];
  char root[24] = "", op[100] = "", type[32], count[100] = "", lanes[24] = "", leaves[24] = "", algorithm[64];
  if (c->rooted && facts->root != TUTTI_ANY_RANK) snprintf(root, sizeof root, ", root %u", facts->root);
  if (tu_reduces(facts->collective))
    snprintf(op, sizeof op, ", %s%s%s", tu_op_name(comm, facts->op), facts->rank_order ? ", not commutative" : "",
             facts->canonical ? ", canonical" : "");
  print_type(facts, type, sizeof type);
  if (facts->collective != TUTTI_BARRIER)
    snprintf(count, sizeof count, "%scount %llu, %s, ", c->vector ? "own " : "", (unsigned long long)facts->count,
             type);
  if (!c->vector && facts->counts_hash && facts->type != TUTTI_BYTES)
    snprintf(count, sizeof count, "count %llu, %s, tensors %08x, ", (unsigned long long)facts->count, type,
             (unsigned)(facts->counts_hash >> 32));
  if (facts->plan)
    snprintf(algorithm, sizeof algorithm, "plan %.15s %016llx", facts->plan_name, (unsigned long long)facts->plan);
  else snprintf(algorithm, sizeof algorithm, "algorithm %s", tu_algorithms[facts->algorithm]->name);
  if (facts->lanes) snprintf(lanes, sizeof lanes, ", %u lane%s", facts->lanes, facts->lanes == 1 ? "" : "s");
  if (facts->leaves) snprintf(leaves, sizeof leaves, ", %u leaves", 1u << facts->leaves);
  snprintf(text, text_bytes, "%s(%s%s%s%s%s%s)", c->name, count, algorithm, lanes, op, leaves, root);
}
