/* request.c: finds the request for a call: an idle request of the same signature, or a new one. For a new request it
 * selects an algorithm, builds a plan, and lowers (converts) the plan to a program. */
#include "call/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "algo/tuning.h"
#include "base/log.h"
#include "call/tensors.h"
#include "comm/operations.h"

#define SEGMENT_BYTES ((size_t)4 << 20)
/* Between hosts, segments are shorter: while one segment crosses a wire, others are summed or copied on the hosts. The
 * wire is idle during the first phase of the first segment, and the last phase of the last. */
#define SEGMENT_BYTES_OF_HOSTS ((size_t)1 << 20)
#define SEGMENTS_MAX 128u
/* default number of lanes of a call whose vector is cut into segments: with two lanes, a segment need not wait for the
 * last message of the previous segment */
#define SEGMENT_LANES 2u
/* a vector is cut into at most STEPS_MAX / ranks segments, which limits the number of steps of the plan */
#define STEPS_MAX 4096u
/* Idle requests are kept for repeated calls: so many at least, and at most; between these, all of them together take no
 * more memory. */
#define IDLE_MIN 32u
#define IDLE_MAX 1024u
#define IDLE_BYTES ((size_t)4 << 20)
/* Requests with longer leaves, of which each has the memory of one, are not kept. */
#define IDLE_LEAF_BYTES ((size_t)8 << 20)

/* ---- the cache ---- */

static bool same_blocks(const struct tutti_request *r, const struct tu_call *call) {
  if (!r->blocks) return true;
  const struct tu_view *views[] = {&call->in, &call->out};
  const size_t *kept = r->blocks;
  for (int i = 0; i < 2; i++) {
    const struct tu_view *v = views[i];
    if (!v->counts) continue;
    size_t offset = 0;
    for (uint32_t k = 0; k < v->blocks; k++) {
      if (kept[k] != v->counts[k] || kept[v->blocks + k] != (v->offsets ? v->offsets[k] : offset)) return false;
      offset += v->counts[k];
    }
    kept += 2 * (size_t)v->blocks;
  }
  return true;
}

static struct tutti_request **bucket_of(struct tutti_comm *comm, const struct tu_signature *s) {
  const uint64_t mixed = (s->count + s->collective * 31u + s->root * 17u + s->op) * UINT64_C(0x9e3779b97f4a7c15);
  return &comm->idle_of[mixed >> 32 & (TU_IDLE_BUCKETS - 1)];
}

static void remove_idle(struct tutti_request *r) {
  struct tutti_comm *comm = r->comm;
  if (r->bucket_previous) r->bucket_previous->bucket_next = r->bucket_next;
  else *bucket_of(comm, &r->signature) = r->bucket_next;
  if (r->bucket_next) r->bucket_next->bucket_previous = r->bucket_previous;
  if (r->idle_previous) r->idle_previous->idle_next = r->idle_next;
  else comm->idle = r->idle_next;
  if (r->idle_next) r->idle_next->idle_previous = r->idle_previous;
  else comm->idle_last = r->idle_previous;
  comm->idle_count--;
  comm->idle_bytes -= r->bytes;
}

static void add_idle(struct tutti_request *r) {
  struct tutti_comm *comm = r->comm;
  struct tutti_request **bucket = bucket_of(comm, &r->signature);
  r->bucket_previous = NULL;
  r->bucket_next = *bucket;
  if (*bucket) (*bucket)->bucket_previous = r;
  *bucket = r;
  r->idle_previous = NULL;
  r->idle_next = comm->idle;
  if (comm->idle) comm->idle->idle_previous = r;
  else comm->idle_last = r;
  comm->idle = r;
  comm->idle_count++;
  comm->idle_bytes += r->bytes;
}

static struct tutti_request *take_idle(struct tutti_comm *comm, const struct tu_call *call) {
  for (struct tutti_request *r = *bucket_of(comm, &call->signature); r; r = r->bucket_next) {
    if (memcmp(&r->signature, &call->signature, sizeof r->signature) != 0 || !same_blocks(r, call) ||
        !tu_call_tensors_same(r->tensors, call->tensors))
      continue;
    remove_idle(r);
    return r;
  }
  return NULL;
}

/* Returns the memory that a request holds, about: its program, the execution of it, and scratch. */
static size_t bytes_of(const struct tutti_request *r) {
  const struct tu_program *p = r->program;
  return sizeof *r + p->tmp_bytes + (r->leaves ? r->leaves->leaves.bytes : 0) +
         p->instruction_count * (sizeof *p->instructions + sizeof *r->execution.progress) +
         p->message_count * sizeof *p->messages + p->operand_count * sizeof *p->operands +
         p->run_count * sizeof *p->runs + p->after_count * sizeof *p->afters;
}

void tu_request_drop_idle(struct tutti_comm *comm) {
  struct tutti_request *r = comm->idle_last;
  remove_idle(r);
  tu_request_destroy(r);
}

void tu_request_destroy(struct tutti_request *r) {
  if (!r) return;
  for (size_t i = 0; i < r->child_count; i++) tu_request_destroy(r->children[i]);
  free(r->children);
  free(r->execution.arithmetic.room);
  tu_leaf_sum_destroy(r->leaves);
  tu_execution_fini(&r->execution);
  tu_program_destroy(r->program);
  tu_call_tensors_release(r->tensors);
  free(r->blocks);
  free(r->addresses);
  free(r);
}

void tu_request_retire(struct tutti_request *r) {
  struct tutti_comm *comm = r->comm;
  if (r->child_count > 0) {
    for (size_t i = 0; i < r->child_count; i++) tu_request_retire(r->children[i]);
    r->child_count = 0;
    tu_request_destroy(r);
    return;
  }
  if (comm->failed || (r->leaves && r->leaves->leaves.bytes > IDLE_LEAF_BYTES)) {
    tu_request_destroy(r);
    return;
  }
  r->place = NULL;
  r->ready = false;
  add_idle(r);
  while (comm->idle_count > IDLE_MAX || (comm->idle_count > IDLE_MIN && comm->idle_bytes > IDLE_BYTES))
    tu_request_drop_idle(comm);
}

/* Returns true if a list of counts and a list of displacements are equal to those that a request has kept. offsets
 * NULL: the blocks are packed. */
static bool same_list(const size_t *kept, uint32_t blocks, const size_t *counts, const size_t *offsets) {
  size_t offset = 0;
  if (!counts || memcmp(kept, counts, blocks * sizeof *kept) != 0) return false;
  for (uint32_t k = 0; k < blocks; k++) {
    if (kept[blocks + k] != (offsets ? offsets[k] : offset)) return false;
    offset += counts[k];
  }
  return true;
}

/* Returns true if the addresses of blocks are those for which the request's program is pointed. Returns false for a call
 * with a buffer and addresses, which is refused later. */
static bool same_addresses(const struct tutti_request *r, const tutti_call *call) {
  const void *const *given[] = {call->send_blocks, (const void *const *)call->recv_blocks};
  const void **kept = r->addresses;
  if ((call->send_blocks && call->send) || (call->recv_blocks && call->recv)) return false;
  for (uint32_t i = 0; i < 2; i++) {
    if (!(r->signature.form & (i == 0 ? TU_SEND_BLOCKS : TU_RECV_BLOCKS))) continue;
    if (!given[i] || memcmp(kept, given[i], r->comm->ranks * sizeof *kept) != 0) return false;
    kept += r->comm->ranks;
  }
  return true;
}

bool tu_request_has_blocks(const struct tutti_request *r, const tutti_call *call) {
  const struct tu_collective *c = &tu_collectives[r->signature.collective];
  if (!same_addresses(r, call)) return false;
  const uint32_t ranks = r->comm->ranks;
  const size_t *kept = r->blocks;
  if (!kept) return true;
  if (c->in == TU_EACH) {
    if (!same_list(kept, ranks, call->counts, call->offsets)) return false;
    kept += 2 * (size_t)ranks;
  }
  if (c->out == TU_ONE) return true;
  return c->in == TU_EACH ? same_list(kept, ranks, call->recv_counts, call->recv_offsets)
                          : same_list(kept, ranks, call->counts, call->offsets);
}

/* ---- lowering ---- */

/* Copies the counts and offsets of the views, and fills in missing offsets; the views then point at the copies. Returns
 * false if out of memory. */
static bool keep_blocks(struct tutti_request *r, struct tu_view *in, struct tu_view *out) {
  size_t need = 2 * ((size_t)(in->counts ? in->blocks : 0) + (out->counts ? out->blocks : 0));
  if (need == 0) return true;
  size_t *at = r->blocks = tu_try_allocate(need, sizeof *at);
  if (!at) return false;
  struct tu_view *views[] = {in, out};
  for (int i = 0; i < 2; i++) {
    if (!views[i]->counts) continue;
    tu_view_keep(views[i], at);
    at += 2 * (size_t)views[i]->blocks;
  }
  return true;
}

/* Allocates memory for the addresses of blocks, if the views have some. Returns false if out of memory. */
static bool keep_addresses(struct tutti_request *r, const struct tu_view *in, const struct tu_view *out) {
  size_t need = (in->addresses ? in->blocks : 0) + (out->addresses ? out->blocks : 0);
  if (need > 0) r->addresses = tu_try_allocate(need, sizeof *r->addresses);
  return need == 0 || r->addresses;
}

/* Points the request's program at the blocks of the call, unless it is pointed there already. */
static void point(struct tutti_request *r, const struct tu_call *call) {
  const struct tu_view *views[] = {&call->in, &call->out};
  const void **kept = r->addresses, *const base[] = {call->in_data, call->out_data};
  for (int i = 0; i < 2; i++) {
    const struct tu_view *v = views[i];
    if (!v->addresses) continue;
    if (memcmp(kept, v->addresses, v->blocks * sizeof *kept) != 0) {
      memcpy(kept, v->addresses, v->blocks * sizeof *kept);
      tu_execution_point(&r->execution, r->program, i == 0 ? TU_IN : TU_OUT, base[i], kept);
    }
    kept += v->blocks;
  }
}

/* Returns the size of the longest buffer of any rank, in bytes; SIZE_MAX: not all ranks can compute the size. */
static size_t known_bytes(const struct tutti_comm *comm, const struct tu_call *call) {
  const struct tu_collective *c = &tu_collectives[call->signature.collective];
  const struct tu_view *v = c->out == TU_EACH ? &call->out : &call->in;
  if (c->vector && (c->rooted || c->in == c->out)) return SIZE_MAX;
  if (c->vector) {
    size_t total = 0;
    for (uint32_t i = 0; i < comm->ranks; i++) total += v->counts[i];
    return total * v->item_bytes;
  }
  bool long_buffer = c->in == TU_EACH || c->out == TU_EACH;
  return call->signature.count * call->in.item_bytes * (long_buffer ? comm->ranks : 1);
}

/* The algorithm of a call, and the placement of the ranks for which its plan is built. */
struct choice {
  const struct tu_algorithm *algorithm; /* NULL: the call names a user's plan */
  const struct tu_placement *placement;
};

static tutti_err choose(const struct tutti_comm *comm, const struct tu_call *call, const struct tu_user_op *user,
                        struct choice *choice, struct tu_error *error) {
  tutti_collective collective = (tutti_collective)call->signature.collective;
  /* Numbers of lanes that no algorithm supports are refused afterwards. */
  bool lanes = !call->point_to_point && collective != TUTTI_BARRIER && call->signature.lanes <= TU_LANES_MAX;
  struct tu_wanted wanted = {
      .collective = collective,
      .ranks = call->point_to_point ? 2 : comm->ranks,
      .bytes = call->point_to_point ? call->signature.count : known_bytes(comm, call),
      .canonical = call->signature.form & TU_ORDERED,
      .rank_order = tu_reduces(collective) && user && (!user->commutative || call->signature.form & TU_ORDERED),
      .any_blocks = tu_collectives[collective].vector,
      .group = call->point_to_point ? 0 : comm->group,
      .share = comm->share,
      .placement = call->point_to_point ? NULL : comm->placement,
      .lanes = lanes ? call->signature.lanes : 0,
  };
  const struct tu_algorithm *everywhere = comm->tuning ? comm->tuning->forced[collective] : NULL;
  const struct tu_algorithm *forced = call->forced ? call->forced : everywhere;
  tutti_err err = tu_tuning_choose(comm->tuning, forced, &wanted, &choice->algorithm, error);
  if (err != TUTTI_OK) return err;
  const char *why;
  choice->placement = tu_wanted_placement(&wanted);
  if (tu_algorithm_serves(choice->algorithm, &wanted, &why)) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "algorithm %s%s cannot carry out this %s on %u ranks: %s",
                 choice->algorithm->name, call->forced ? "" : " (forced by TUTTI_ALGORITHM)",
                 tu_collectives[collective].name, comm->ranks, why);
}

/* Checks whether the algorithm supports the requested number of lanes. */
static tutti_err check_lanes(const struct tu_call *call, const struct tu_algorithm *algorithm, struct tu_error *error) {
  uint32_t lanes = call->signature.lanes;
  uint32_t most = call->point_to_point ? TU_POINT_TO_POINT_LANES : tu_build_lanes_max(algorithm);
  if (lanes <= most) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: found %u lanes; algorithm %s supports 1 to %u, or 0 for its default",
                 tu_collectives[call->signature.collective].name, lanes, algorithm->name, most);
}

/* Returns how many blocks the algorithm may join into one message. With several lanes it counts parts of blocks, one
 * part per lane. The result is the number that fits into a slot, at most the number of ranks, rounded down to a power
 * of two. 0: the algorithm joins no blocks. */
static uint32_t pieces_of(const struct tutti_comm *comm, const struct tu_call *call,
                          const struct tu_algorithm *algorithm) {
  if (!(algorithm->flags & TU_AGGREGATES)) return 0;
  size_t block = tu_max(known_bytes(comm, call) / comm->ranks / tu_max(call->signature.lanes, 1), 1);
  return tu_pow2_floor((uint32_t)tu_max(tu_min(comm->mover->shape.slot_bytes / block, comm->ranks), 1));
}

/* Cuts a long vector into segments, which pass through the plan one after the other. The number of segments is rounded
 * down to a power of two, so that few different plans are built. Then it is rounded up to a multiple of the lanes. */
static void cut(const struct tutti_comm *comm, const struct tu_call *call, struct tu_build *what) {
  if (call->signature.collective == TUTTI_BARRIER) return;
  what->lanes = call->signature.lanes;
  if (!tu_has_one_block((tutti_collective)call->signature.collective)) return;
  size_t segments = known_bytes(comm, call) / (what->placement ? SEGMENT_BYTES_OF_HOSTS : SEGMENT_BYTES);
  segments = tu_pow2_floor((uint32_t)tu_max(tu_min(segments, tu_min(SEGMENTS_MAX, STEPS_MAX / comm->ranks)), 1));
  if (segments > 1 && what->lanes == 0) what->lanes = SEGMENT_LANES / (uint32_t)tu_max(what->algorithm->lanes, 1);
  what->segments = (uint32_t)tu_round_up(segments, tu_max(what->lanes, 1));
}

/* Finds the plan among those that the communicator keeps, or builds it. Plans are kept, because building a plan takes
 * long for many ranks. */
static tutti_err plan_for(struct tutti_comm *comm, const struct tu_build *what, const struct tu_plan **plan,
                          struct tu_error *error) {
  for (struct tu_cached_plan *p = comm->plans; p; p = p->next)
    if (p->algorithm == what->algorithm && p->rank == what->rank && p->root == what->root &&
        p->in_place == what->in_place && p->slot_pieces == what->slot_pieces && p->segments == what->segments &&
        p->lanes == what->lanes && p->placement == what->placement && p->canonical == what->canonical) {
      *plan = p->plan;
      return TUTTI_OK;
    }
  struct tu_plan *built;
  tutti_err err = tu_plan_try_build(what, &built, error);
  if (err != TUTTI_OK) return err;
  struct tu_cached_plan *p = tu_try_allocate(1, sizeof *p);
  if (!p) {
    tu_plan_destroy(built);
    return tu_fail_memory(error, sizeof *p, "a plan");
  }
  *p = (struct tu_cached_plan){.next = comm->plans,
                               .algorithm = what->algorithm,
                               .rank = what->rank,
                               .root = what->root,
                               .slot_pieces = what->slot_pieces,
                               .segments = what->segments,
                               .lanes = what->lanes,
                               .in_place = what->in_place,
                               .canonical = what->canonical,
                               .placement = what->placement,
                               .plan = built};
  comm->plans = p;
  *plan = built;
  return TUTTI_OK;
}

static uint16_t algorithm_index(const struct tu_algorithm *algorithm) {
  uint16_t index = 0;
  while (index < tu_algorithm_count && tu_algorithms[index] != algorithm) index++;
  return index;
}

/* Sets the facts by which other ranks identify the plan. A plan of an algorithm in the table of algorithms is
 * identified by the algorithm's index. A plan of any other algorithm, or a user's plan, is identified by a hash. */
static void name_plan(const struct tu_call *call, const struct tu_algorithm *algorithm, struct tu_call_facts *facts) {
  const char *name = call->plan ? call->plan->algorithm : NULL;
  if (algorithm) {
    facts->algorithm = algorithm_index(algorithm) & 0x7ffu;
    if (facts->algorithm == tu_algorithm_count) name = algorithm->name;
  }
  if (!name) return;
  facts->algorithm = 0;
  facts->plan = call->plan ? call->signature.plan : tu_hash(name, strlen(name), 0);
  snprintf(facts->plan_name, sizeof facts->plan_name, "%.15s", name);
}

/* *in: the view of the input, with counts and offsets that the request keeps. */
static tutti_err lower(struct tutti_comm *comm, const struct tu_call *call, struct tutti_request *r,
                       const struct choice *choice, struct tu_view *in, struct tu_error *error) {
  bool receives = call->signature.collective == TUTTI_RECV;
  /* A receive from any rank is lowered with this rank as its peer, until it has found its message. */
  const bool any = receives && call->signature.root == TUTTI_ANY_RANK;
  const uint32_t peer = any ? comm->rank : call->signature.root;
  uint32_t pair[2] = {receives ? peer : comm->rank, receives ? comm->rank : peer};
  struct tu_lowering lowering = {.mover = comm->mover,
                                 .in = call->in,
                                 .out = call->out,
                                 .in_builder_order = !call->plan,
                                 .fills = call->signature.form & TU_FILLS,
                                 .tells = call->signature.form & TU_TELLS};
  tutti_err err = TUTTI_OK;
  if (call->point_to_point) {
    const struct tu_build what = {
        .algorithm = choice->algorithm, .ranks = 2, .rank = receives, .lanes = call->signature.lanes};
    err = plan_for(comm, &what, &lowering.plan, error);
    lowering.plan_rank = receives;
    lowering.peers = pair;
    lowering.point_to_point = true;
    lowering.from_any = any;
  } else {
    uint32_t root = tu_collectives[call->signature.collective].rooted ? call->signature.root : 0;
    lowering.plan = call->plan;
    lowering.plan_rank = comm->rank;
    if (!call->plan) {
      struct tu_build what = {.algorithm = choice->algorithm,
                              .ranks = comm->ranks,
                              .root = root,
                              .in_place = call->signature.in_place,
                              .rank = comm->rank,
                              .slot_pieces = pieces_of(comm, call, choice->algorithm),
                              .canonical = call->signature.form & TU_ORDERED,
                              .placement = choice->placement};
      cut(comm, call, &what);
      err = plan_for(comm, &what, &lowering.plan, error);
      r->built = what;
      r->longest_bytes = known_bytes(comm, call);
    }
  }
  if (err != TUTTI_OK) return err;
  lowering.in.split = lowering.out.split = lowering.plan->split;
  if (!keep_blocks(r, &lowering.in, &lowering.out) || !keep_addresses(r, &lowering.in, &lowering.out))
    return tu_fail_memory(error, comm->ranks * sizeof *r->blocks, "the blocks of %u ranks", comm->ranks);
  *in = lowering.in;
  err = tu_program_create(&lowering, &r->program, error);
  return err != TUTTI_OK ? err : tu_execution_init(&r->execution, r->program, comm->mover, error);
}

/* Notes what other ranks and the program may learn about the call. */
static void note_facts(struct tutti_request *r, const struct tu_call *call, const struct tu_algorithm *algorithm,
                       bool has_user) {
  const struct tu_signature *s = &call->signature;
  const struct tu_collective *c = &tu_collectives[s->collective];
  r->facts = (struct tu_call_facts){
      .collective = s->collective & 127u,
      .type = s->type,
      .root = s->root,
      .op = s->op & (TU_OPS_END - 1),
      .rank_order = has_user && !r->user.commutative,
      .canonical = (s->form & TU_ORDERED) != 0,
      .count = s->count,
      .lanes = s->lanes & 0xfu,
      .leaves = call->leaves && r->comm->ranks > 1 ? (unsigned)__builtin_ctz(call->leaves) & 31u : 0,
  };
  r->algorithm = algorithm;
  r->canonical = r->facts.canonical || !tu_reduces((tutti_collective)s->collective) ||
                 !tu_op_is_ordered(s->op, (tutti_datatype)s->type) ||
                 (call->plan ? call->plan->order == TU_CANONICAL : r->comm->ranks <= 2);
  if (call->tensors) r->facts.counts_hash = call->tensors->facts;
  name_plan(call, algorithm, &r->facts);
  if (c->vector && !c->rooted && c->in != c->out) {
    const struct tu_view *v = c->in == TU_EACH ? &call->in : &call->out;
    r->facts.counts_hash = tu_hash(v->counts, v->blocks * sizeof *v->counts, 0);
  }
  if (s->type == TUTTI_BYTES)
    r->facts.counts_hash = (r->facts.counts_hash & ~(uint64_t)TU_FACT_ELEMENT_BYTES) | s->element_bytes;
  r->facts.hash = tu_facts_hash(&r->facts);
}

/* Returns the operation of a call whose leaves are added already: their sum is not scaled again, nor divided again on a
 * single rank. */
static tutti_op op_of_sum(const struct tutti_comm *comm, const struct tu_call *call) {
  const tutti_op op = call->signature.op;
  const bool done = op == TUTTI_PREMUL_SUM || (op == TUTTI_AVG && comm->ranks == 1);
  return done && (call->folded || call->operands > 1) ? TUTTI_SUM : op;
}

tutti_err tu_call_arithmetic(const struct tutti_comm *comm, const struct tu_call *call, const struct tu_user_op *user,
                             struct tu_arithmetic *a, struct tu_error *error) {
  const struct tu_signature *s = &call->signature;
  *a = (struct tu_arithmetic){
      .type = (tutti_datatype)s->type,
      .op = s->op,
      .user = user,
      .scale = s->scale,
      .divisor = comm->ranks * (uint32_t)tu_max(call->leaves, 1),
      .item_bytes = s->element_bytes,
  };
  if (!user || s->element_bytes <= TU_KERNEL_BLOCK_BYTES) return TUTTI_OK;
  const size_t room = tu_round_up((size_t)TU_KERNEL_BLOCKS * s->element_bytes, TU_LINE_BYTES);
  a->room = aligned_alloc(TU_LINE_BYTES, room);
  return a->room ? TUTTI_OK : tu_fail_memory(error, room, "%d elements of an operation", TU_KERNEL_BLOCKS);
}

/* Sets the arithmetic of a request, and prepares it to add up its leaves. */
static tutti_err prepare_arithmetic(struct tutti_comm *comm, const struct tu_call *call, struct tutti_request *r,
                                    bool has_user, const struct tu_view *in, struct tu_error *error) {
  struct tu_arithmetic *a = &r->execution.arithmetic;
  const tutti_err err = tu_call_arithmetic(comm, call, has_user ? &r->user : NULL, a, error);
  if (err != TUTTI_OK) return err;
  const struct tu_leaves leaves = {
      .a = *a,
      .parallel = r->execution.parallel,
      .scales = a->op == TUTTI_PREMUL_SUM && !call->folded,
  };
  a->op = op_of_sum(comm, call);
  if (call->operands < 2) return TUTTI_OK;
  return tu_leaf_sum_create(&leaves, in, call->operands, comm->ranks == 1 ? TU_FINAL : 0, &r->leaves, error);
}

/* Logs which algorithm a call got, and why: once for each kind of call, as far as the table holds them. */
static void log_choice(const struct tutti_comm *comm, const struct tu_call *call, const struct tutti_request *r) {
  static _Atomic uint32_t logged[256];
  char text[280];
  const struct tu_tuning *tuning = comm->tuning;
  struct tu_call_facts facts = r->facts;
  facts.root = 0; /* calls that differ in their root only are one kind */
  const uint64_t hash = tu_hash(&facts, sizeof facts, comm->mover->control.comm_id);
  _Atomic uint32_t *place = &logged[hash % (sizeof logged / sizeof logged[0])];
  if (call->point_to_point ||
      atomic_exchange_explicit(place, (uint32_t)(hash >> 32), memory_order_relaxed) == hash >> 32)
    return;
  tu_facts_print(comm, &r->facts, text, sizeof text);
  const char *why = call->plan                                             ? "the call's plan"
                    : call->forced                                         ? "named by the call"
                    : tuning && tuning->forced[call->signature.collective] ? "TUTTI_ALGORITHM"
                    : tuning && tuning->name                               ? tuning->name
                                                                           : "built-in table";
  tu_log(TU_LOG_INFO, "selection", "%s: chosen by: %s", text, why);
}

static tutti_err create(struct tutti_comm *comm, const struct tu_call *call, struct tutti_request **request,
                        struct tu_error *error) {
  tutti_err err;
  struct tutti_request *r = tu_try_allocate(1, sizeof *r);
  if (!r) return tu_fail_memory(error, sizeof *r, "a request");
  const struct tu_signature *s = &call->signature;
  r->comm = comm;
  r->id = ++comm->request_ids;
  r->signature = *s;
  r->tensors = call->tensors;
  if (r->tensors) r->tensors->users++;
  bool has_user = tu_reduces((tutti_collective)s->collective) && tu_user_op_find(comm, s->op, &r->user);
  r->own_op_context = r->user.context;
  struct choice choice = {.algorithm = NULL};
  if (!call->plan && (err = choose(comm, call, has_user ? &r->user : NULL, &choice, error)) != TUTTI_OK) goto failed;
  if (choice.algorithm && (err = check_lanes(call, choice.algorithm, error)) != TUTTI_OK) goto failed;
  struct tu_view in;
  if ((err = lower(comm, call, r, &choice, &in, error)) != TUTTI_OK ||
      (err = prepare_arithmetic(comm, call, r, has_user, &in, error)) != TUTTI_OK)
    goto failed;
  note_facts(r, call, choice.algorithm, has_user);
  r->bytes = bytes_of(r);
  if (tu_logs(TU_LOG_INFO)) log_choice(comm, call, r);
  *request = r;
  return TUTTI_OK;

failed:
  tu_request_destroy(r);
  return err;
}

tutti_err tu_request_acquire(struct tutti_comm *comm, const struct tu_call *call, struct tutti_request **request,
                             struct tu_error *error) {
  struct tutti_request *r = take_idle(comm, call);
  if (!r) {
    tutti_err err = create(comm, call, &r, error);
    if (err != TUTTI_OK) return err;
  }
  if (r->addresses) point(r, call);
  r->in_data = call->in_data;
  r->out_data = call->out_data;
  r->tag = call->tag;
  *request = r;
  return TUTTI_OK;
}
