/* plan.c: creates and destroys plans, and numbers and classifies their chunks. */
#include "plan/plan.h"

struct tu_plan *tu_plan_create(void) {
  struct tu_arena arena = {0};
  struct tu_plan *plan = tu_arena_allocate(&arena, 1, sizeof *plan);
  plan->arena = arena;
  return plan;
}

void tu_plan_destroy(struct tu_plan *plan) {
  if (plan) tu_arena_fini(&plan->arena);
}

uint32_t tu_plan_chunks(const struct tu_plan *plan, uint32_t rank, enum tu_buffer buffer) {
  switch (buffer) {
    case TU_IN: return plan->split * tu_in_blocks(plan->collective, plan->ranks, plan->root, rank);
    case TU_OUT: return plan->split * tu_out_blocks(plan->collective, plan->ranks, plan->root, rank);
    default: break;
  }
  tu_assert(rank - plan->rank_first < plan->rank_count);
  return plan->rank[rank - plan->rank_first].tmp_count;
}

uint32_t tu_plan_cell(const struct tu_plan *plan, uint32_t rank, enum tu_buffer buffer, uint32_t chunk) {
  uint32_t in = tu_plan_chunks(plan, rank, TU_IN), out = tu_plan_chunks(plan, rank, TU_OUT);
  if (buffer == TU_TMP) return in + out + chunk;
  if (plan->in_place && in > 0 && out > 0) {
    /* The rank has both buffers: number each shared chunk by its position in the longer buffer. */
    uint32_t offset = tu_alias_offset(plan->collective, rank) * plan->split;
    if (buffer == TU_OUT && in >= out) return chunk + offset;
    if (buffer == TU_IN && in < out) return in + chunk + offset;
  }
  return buffer == TU_IN ? chunk : in + chunk;
}

uint32_t tu_plan_chunk_class(const struct tu_plan *plan, uint32_t rank, enum tu_buffer buffer, uint32_t chunk) {
  if (buffer == TU_TMP) {
    const struct tu_like *like = &plan->rank[rank - plan->rank_first].tmp[chunk];
    tu_assert(like->buffer != TU_TMP);
    return tu_plan_chunk_class(plan, rank, (enum tu_buffer)like->buffer, like->chunk);
  }
  uint32_t block = chunk / plan->split, part = chunk % plan->split;
  if (plan->equal_blocks) return part;
  return part + plan->split * tu_size_class(plan->collective, plan->ranks, rank, buffer == TU_OUT, block);
}
