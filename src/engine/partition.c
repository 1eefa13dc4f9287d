/* partition.c: partitioned calls: gates (instructions that wait for input), and the last writer of each part of the
 * output. */
#include "engine/partition.h"

#include <string.h>

#include "engine/engine.h"

enum { FILLED_MIN = 64 }; /* initial capacity of the list of filled byte ranges */

/* ---- lowering: gates (instructions that wait for input) ---- */

static uint32_t chunks_of(const struct tu_lowering *from, enum tu_buffer buffer) {
  return tu_plan_chunks(from->plan, from->plan_rank, buffer);
}

static uint32_t cell_of(const struct tu_lowering *from, enum tu_buffer buffer, uint32_t chunk) {
  return tu_plan_cell(from->plan, from->plan_rank, buffer, chunk);
}

static uint32_t cell_count(const struct tu_lowering *from) {
  return chunks_of(from, TU_IN) + chunks_of(from, TU_OUT) + chunks_of(from, TU_TMP);
}

struct tu_partition *tu_partition_begin(struct tu_arena *arena, const struct tu_lowering *from, uint32_t gate_first) {
  struct tu_partition *partition = tu_arena_allocate(arena, 1, sizeof *partition);
  *partition =
      (struct tu_partition){.arena = arena, .filled = from->fills, .told = from->tells, .gate_first = gate_first};
  uint32_t cells = cell_count(from);
  partition->input_of = tu_arena_allocate(arena, cells, sizeof *partition->input_of);
  memset(partition->input_of, 0xff, cells * sizeof *partition->input_of);
  for (uint32_t chunk = 0; chunk < chunks_of(from, TU_IN); chunk++)
    partition->input_of[cell_of(from, TU_IN, chunk)] = chunk;
  return partition;
}

static void add_run(struct tu_partition *partition, struct tu_run run) {
  partition->runs = tu_arena_grow(partition->arena, partition->runs, partition->run_count, &partition->run_capacity,
                                  sizeof *partition->runs);
  partition->runs[partition->run_count++] = run;
}

/* Returns the length in bytes of a cell (a numbered chunk of the plan's buffers) that holds output, but no input. If a
 * call is in place, a span may contain such cells beside cells that hold input. */
static size_t bytes_beside_input(const struct tu_lowering *from, uint32_t cell) {
  uint32_t first = cell_of(from, TU_OUT, 0);
  tu_assert(cell - first < chunks_of(from, TU_OUT));
  return tu_view_chunk(&from->out, cell - first).bytes;
}

static uint32_t add_gate(struct tu_partition *partition, uint32_t first, uint32_t count) {
  partition->gates = tu_arena_grow(partition->arena, partition->gates, partition->gate_count, &partition->gate_capacity,
                                   sizeof *partition->gates);
  partition->gates[partition->gate_count] =
      (struct tu_gate){.first = first, .count = count, .run_first = partition->run_count};
  return partition->gate_count++;
}

uint32_t tu_partition_gate(struct tu_partition *partition, const struct tu_lowering *from, uint32_t first,
                           uint32_t count) {
  bool is_input = false;
  for (uint32_t i = 0; i < count; i++) is_input |= partition->input_of[first + i] != UINT32_MAX;
  if (!partition->filled || !is_input) return TU_NO_GATE;
  for (uint32_t g = 0; g < partition->gate_count; g++)
    if (partition->gates[g].first == first && partition->gates[g].count == count) return partition->gate_first + g;
  uint32_t gate = add_gate(partition, first, count);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t chunk = partition->input_of[first + i];
    if (chunk != UINT32_MAX) add_run(partition, tu_view_chunk(&from->in, chunk));
    else add_run(partition, (struct tu_run){TU_NOT_INPUT, bytes_beside_input(from, first + i)});
  }
  partition->gates[gate].run_count = count;
  return partition->gate_first + gate;
}

size_t tu_partition_gate_bytes(const struct tu_partition *partition, uint32_t gate) {
  const struct tu_gate *g = &partition->gates[gate];
  size_t bytes = 0;
  for (uint32_t i = 0; i < g->run_count; i++) bytes += partition->runs[g->run_first + i].bytes;
  return bytes;
}

/* ---- lowering: when output becomes final ---- */

static void add_final(struct tu_partition *partition, struct tu_final final) {
  struct tu_final *last = partition->final_count ? &partition->finals[partition->final_count - 1] : NULL;
  if (final.bytes == 0) return;
  if (last && last->instruction == final.instruction && last->begin + last->bytes == final.begin &&
      last->offset + last->bytes == final.offset) {
    last->bytes += final.bytes;
    return;
  }
  partition->finals = tu_arena_grow(partition->arena, partition->finals, partition->final_count,
                                    &partition->final_capacity, sizeof *partition->finals);
  partition->finals[partition->final_count++] = final;
}

/* Handles an output chunk that no step writes. The call is in place, so the chunk is input that keeps its value. Adds
 * the chunk to the list of final ranges. It is final from the start; or, if the caller fills the input part by part,
 * when the gate of the chunk is done. */
static void add_untouched(struct tu_partition *partition, const struct tu_lowering *from, uint32_t chunk) {
  uint32_t cell = cell_of(from, TU_OUT, chunk), gate = tu_partition_gate(partition, from, cell, 1);
  struct tu_run run = tu_view_chunk(&from->out, chunk);
  add_final(partition, (struct tu_final){gate == TU_NO_GATE ? TU_FROM_THE_START : gate, 0, run.bytes, run.offset});
}

/* Adds to the list of final ranges the output chunks of which this step is the last writer. */
static void add_finals_of(struct tu_partition *partition, const struct tu_lowering *from, const struct tu_step *step,
                          uint32_t index, uint32_t instruction, const uint32_t last_writer[]) {
  const struct tu_view *view = step->target.buffer == TU_IN ? &from->in : &from->out;
  uint32_t first = cell_of(from, (enum tu_buffer)step->target.buffer, step->target.first);
  uint32_t out_first = cell_of(from, TU_OUT, 0), out_count = chunks_of(from, TU_OUT);
  size_t begin = 0;
  for (uint32_t i = 0; i < step->target.count; i++) {
    size_t bytes = tu_view_chunk(view, step->target.first + i).bytes;
    uint32_t chunk = first + i - out_first;
    if (chunk < out_count && last_writer[first + i] == index)
      add_final(partition, (struct tu_final){instruction, begin, bytes, tu_view_chunk(&from->out, chunk).offset});
    begin += bytes;
  }
}

static bool writes_buffer(const struct tu_step *step) { return step->kind != TU_SEND && step->target.buffer != TU_TMP; }

static void find_finals(struct tu_partition *partition, const struct tu_lowering *from,
                        const uint32_t first_of_step[]) {
  const struct tu_rank_plan *rank = &from->plan->rank[from->plan_rank - from->plan->rank_first];
  uint32_t cells = cell_count(from), *last_writer = tu_arena_allocate(partition->arena, cells, sizeof *last_writer);
  memset(last_writer, 0xff, cells * sizeof *last_writer);
  for (uint32_t i = 0; i < rank->step_count; i++) {
    const struct tu_step *step = &rank->steps[i];
    if (!writes_buffer(step)) continue;
    uint32_t cell = cell_of(from, (enum tu_buffer)step->target.buffer, step->target.first);
    for (uint32_t k = 0; k < step->target.count; k++) last_writer[cell + k] = i;
  }
  for (uint32_t chunk = 0; chunk < chunks_of(from, TU_OUT); chunk++)
    if (last_writer[cell_of(from, TU_OUT, chunk)] == UINT32_MAX) add_untouched(partition, from, chunk);
  for (uint32_t i = 0; i < rank->step_count; i++)
    if (writes_buffer(&rank->steps[i]))
      add_finals_of(partition, from, &rank->steps[i], i, first_of_step[i], last_writer);
  tu_arena_free(partition->arena, last_writer);
}

void tu_partition_end(struct tu_partition *partition, const struct tu_lowering *from, const uint32_t first_of_step[]) {
  if (partition->told && chunks_of(from, TU_OUT) > 0) find_finals(partition, from, first_of_step);
  if (partition->filled) {
    uint32_t whole = add_gate(partition, 0, 0), chunks = chunks_of(from, TU_IN);
    for (uint32_t chunk = 0; chunk < chunks; chunk++) add_run(partition, tu_view_chunk(&from->in, chunk));
    partition->gates[whole].run_count = chunks;
    size_t begin;
    partition->input_bytes = tu_view_extent(&from->in, &begin);
  }
  tu_arena_free(partition->arena, partition->input_of);
  partition->input_of = NULL;
}

/* ---- filled input ---- */

/* Returns the index of the first filled byte range that ends after `offset`. */
static uint32_t find_filled(const struct tu_partition_progress *p, size_t offset) {
  uint32_t low = 0, high = p->filled_count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (p->filled[middle].offset + p->filled[middle].bytes > offset) high = middle;
    else low = middle + 1;
  }
  return low;
}

/* Returns the number of bytes from `offset` on that the caller has filled without a gap. */
static size_t filled_from(const struct tu_partition_progress *p, size_t offset) {
  uint32_t i = find_filled(p, offset);
  if (i == p->filled_count || p->filled[i].offset > offset) return 0;
  return p->filled[i].offset + p->filled[i].bytes - offset;
}

/* Advances a gate (an instruction that waits for input) to the first gap in its filled input. */
static void move_gate(struct tu_execution *e, uint32_t gate) {
  const struct tu_partition *partition = e->program->partition;
  const struct tu_gate *g = &partition->gates[gate];
  struct tu_progress *progress = &e->progress[partition->gate_first + gate];
  if (progress->finished) return;
  size_t before = 0; /* total bytes of the gate's runs before the current one */
  bool there = true;
  for (uint32_t i = 0; i < g->run_count && there; i++) {
    const struct tu_run *run = &partition->runs[g->run_first + i];
    size_t done = progress->done - tu_min(progress->done, before), bytes = run->bytes;
    if (run->offset != TU_NOT_INPUT && done < bytes)
      bytes = tu_min(bytes, done + filled_from(e->partition, run->offset + done));
    progress->done = tu_max(progress->done, before + bytes);
    there = bytes == run->bytes;
    before += run->bytes;
  }
  if (!there) return;
  progress->finished = true;
  e->unfinished--;
}

static void move_gates(struct tu_execution *e) {
  for (uint32_t i = 0; i < e->program->partition->gate_count; i++) move_gate(e, i);
}

/* Joins the filled byte ranges number i and i + 1 if they are adjacent. */
static void join_filled(struct tu_partition_progress *p, uint32_t i) {
  if (i + 1 >= p->filled_count || p->filled[i].offset + p->filled[i].bytes != p->filled[i + 1].offset) return;
  p->filled[i].bytes += p->filled[i + 1].bytes;
  memmove(&p->filled[i + 1], &p->filled[i + 2], (p->filled_count - i - 2) * sizeof *p->filled);
  p->filled_count--;
}

enum tu_filling tu_partition_fill(struct tu_execution *e, size_t offset, size_t bytes) {
  struct tu_partition_progress *p = e->partition;
  uint32_t at = find_filled(p, offset);
  if (bytes == 0) return TU_FILLED;
  if (at < p->filled_count && p->filled[at].offset < offset + bytes) return TU_FILLED_BEFORE;
  struct tu_run *filled =
      tu_arena_try_grow(&e->arena, p->filled, p->filled_count, &p->filled_capacity, sizeof *p->filled);
  if (!filled) return TU_FILL_NO_MEMORY;
  p->filled = filled;
  memmove(&p->filled[at + 1], &p->filled[at], (p->filled_count - at) * sizeof *p->filled);
  p->filled[at] = (struct tu_run){offset, bytes};
  p->filled_count++;
  p->filled_bytes += bytes;
  join_filled(p, at);
  if (at > 0) join_filled(p, at - 1);
  move_gates(e);
  return TU_FILLED;
}

bool tu_partition_missing(const struct tu_execution *e, size_t *offset) {
  const struct tu_partition *partition = e->program->partition;
  if (!partition->filled) return false;
  const struct tu_gate *whole = &partition->gates[partition->gate_count - 1];
  const struct tu_progress *progress = &e->progress[partition->gate_first + partition->gate_count - 1];
  if (progress->finished) return false;
  const struct tu_run *run = partition->runs + whole->run_first;
  size_t done = progress->done;
  while (done >= run->bytes) done -= run++->bytes;
  *offset = run->offset + done;
  return true;
}

/* ---- reports of final output ---- */

bool tu_partition_tell(struct tu_execution *e, struct tu_run *run) {
  const struct tu_partition *partition = e->program->partition;
  struct tu_partition_progress *p = e->partition;
  for (uint32_t i = p->untold_first; i < partition->final_count; i++) {
    const struct tu_final *f = &partition->finals[i];
    size_t done = f->begin + f->bytes;
    if (f->instruction != TU_FROM_THE_START) {
      const struct tu_progress *progress = &e->progress[f->instruction];
      if (!progress->finished) done = tu_min(done, tu_program_whole(e->program, progress->done));
    }
    size_t there = done - tu_min(done, f->begin), told = p->told[i];
    if (told == f->bytes && i == p->untold_first) p->untold_first++;
    if (there == told) continue;
    *run = (struct tu_run){f->offset + told, there - told};
    p->told[i] = there;
    return true;
  }
  return false;
}

/* ---- allocation and start ---- */

void tu_partition_init(struct tu_execution *e) {
  const struct tu_partition *partition = e->program->partition;
  if (!partition) return;
  e->partition = tu_arena_allocate(&e->arena, 1, sizeof *e->partition);
  e->partition->told = tu_arena_allocate(&e->arena, (size_t)partition->final_count + 1, sizeof *e->partition->told);
  if (!partition->filled) return;
  e->partition->filled_capacity = FILLED_MIN;
  e->partition->filled = tu_arena_allocate(&e->arena, FILLED_MIN, sizeof *e->partition->filled);
}

void tu_partition_start(struct tu_execution *e) {
  struct tu_partition_progress *p = e->partition;
  p->filled_count = 0;
  p->filled_bytes = 0;
  p->untold_first = 0;
  memset(p->told, 0, e->program->partition->final_count * sizeof *p->told);
  move_gates(e);
}
