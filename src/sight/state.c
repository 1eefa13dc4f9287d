/* state.c: reads the state of a job from its segment. All numbers found there are checked before they are used, because a
 * rank may be changing them, or may have been killed while it did. */
#include "sight/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/control.h"

enum {
  COMMS_MAX = 4096, /* communicators whose state is read */
  TRIES = 100       /* attempts to read a list or a call that changes meanwhile */
};

/* ---- ranks ---- */

static void read_rank(const struct tu_segment *segment, uint32_t local, struct tu_rank_state *state) {
  const struct tu_slice_head *head = tu_segment_head(segment, local);
  struct tu_life_line line;
  *state = (struct tu_rank_state){.run = '?', .rank = UINT32_MAX};
  if (!tu_segment_has(segment, local)) return;
  state->rank = head->plate.rank;
  state->pid = (pid_t)head->plate.pid;
  memcpy(state->host, head->plate.host, sizeof state->host - 1);
  state->life = atomic_load(&head->gone) ? TU_RANK_CLOSED : tu_life_goes_on(&head->life) ? TU_RANK_LIVES : TU_RANK_DEAD;
  if (state->life != TU_RANK_DEAD && tu_life_read(head->plate.pid, &line) && line.started == head->life.started) {
    state->run = line.state;
    state->cpu_ns = line.ticks * (UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK));
  }
  for (uint32_t i = 0; i < TU_WAITS_THREADS; i++)
    if (!tu_waits_read_note(&head->waits[i], segment->ranks, &state->waits[i])) state->waits[i] = (struct tu_waits){0};
}

/* ---- communicators ---- */

static void read_member(const struct tu_segment *segment, const struct tu_board *board, struct tu_member_state *m) {
  uint64_t words[TU_BOARD_WORDS];
  for (int i = 0; i < TRIES; i++) {
    m->latest = atomic_load(&board->latest);
    m->known = m->latest > 0 && tu_board_read(board, m->latest, words);
    if (m->known || m->latest == 0) break;
  }
  if (m->known) memcpy(&m->facts, words, sizeof m->facts);
  m->known = m->known && tu_facts_are_valid(&m->facts);
  m->departed = atomic_load(&board->departed) != 0;
  m->messages = atomic_load(&board->messages);
  m->message_bytes = atomic_load(&board->message_bytes);
  m->waited_ns = atomic_load(&board->waited_ns);
  for (uint32_t i = 0; i < segment->here; i++)
    m->here |= tu_segment_has(segment, i) && tu_segment_head(segment, i)->plate.rank == m->rank;
}

static bool read_comm(const struct tu_segment *segment, const struct tu_block *block, size_t bytes,
                      struct tu_comm_state *comm, struct tu_error *error) {
  const unsigned char *at = (const unsigned char *)block;
  const uint32_t ranks = block->ranks;
  comm->comm_id = atomic_load(&block->comm_id);
  comm->ranks = 0;
  if (comm->comm_id == 0 || ranks == 0 || ranks > segment->ranks || bytes < tu_block_bytes(ranks)) return true;
  comm->members = tu_try_allocate(ranks, sizeof *comm->members);
  if (!comm->members)
    return tu_fail_memory(error, ranks * sizeof *comm->members, "the members of a communicator"), false;
  const struct tu_board *boards = (const struct tu_board *)(const void *)(at + tu_block_boards_at());
  for (uint32_t i = 0; i < ranks; i++) {
    memcpy(&comm->members[i].rank, at + tu_block_members_at(ranks) + i * sizeof(uint32_t), sizeof(uint32_t));
    memcpy(&comm->members[i].awaited_ns, at + tu_block_awaited_at(ranks) + i * sizeof(uint64_t), sizeof(uint64_t));
    read_member(segment, &boards[i], &comm->members[i]);
  }
  if (atomic_load_explicit(&block->verdict.state, memory_order_acquire) == 1) {
    comm->verdict.code = (tutti_err)block->verdict.code;
    memcpy(comm->verdict.text, block->verdict.text, sizeof comm->verdict.text - 1);
  }
  comm->ranks = ranks;
  return true;
}

/* Adds the communicators that a rank of this host leads: their blocks are a list in its slice. */
static bool read_list(const struct tu_segment *segment, uint32_t local, struct tu_job_state *state,
                      struct tu_error *error) {
  const struct tu_slice_head *head = tu_segment_head(segment, local);
  const unsigned char *slice = (const unsigned char *)head;
  const uint32_t before = state->comms, version = atomic_load(&head->blocks_version);
  uint32_t page = atomic_load(&head->blocks);
  while (page > 0 && state->comms < COMMS_MAX) {
    const uint64_t offset = (uint64_t)page * TU_OFFSET_ALIGN;
    if (version % 2 || offset + tu_block_boards_at() > segment->slice_bytes) break;
    const struct tu_block *block = (const struct tu_block *)(const void *)(slice + offset);
    struct tu_comm_state *comm = &state->comm[state->comms];
    *comm = (struct tu_comm_state){0};
    if (!read_comm(segment, block, segment->slice_bytes - offset, comm, error)) return false;
    page = atomic_load(&block->next);
    if (atomic_load(&head->blocks_version) != version) break;
    if (comm->ranks > 0) state->comms++;
  }
  if (atomic_load(&head->blocks_version) == version && version % 2 == 0) return true;
  while (state->comms > before) free(state->comm[--state->comms].members);
  return true;
}

static int by_id(const void *a, const void *b) {
  const struct tu_comm_state *one = a, *other = b;
  return (one->comm_id > other->comm_id) - (one->comm_id < other->comm_id);
}

static int by_rank(const void *a, const void *b) {
  const struct tu_rank_state *one = a, *other = b;
  return (one->rank > other->rank) - (one->rank < other->rank);
}

tutti_err tu_job_state_read(const struct tu_segment *segment, struct tu_job_state *state, struct tu_error *error) {
  *state = (struct tu_job_state){
      .now = tu_clock_ns(), .ranks = segment->ranks, .here = segment->here, .began_ns = UINT64_MAX};
  state->rank = tu_try_allocate(segment->here, sizeof *state->rank);
  state->comm = tu_try_allocate(COMMS_MAX, sizeof *state->comm);
  if (!state->rank || !state->comm) return tu_fail_memory(error, segment->here, "the state of a job");
  for (uint32_t i = 0; i < segment->here; i++) {
    read_rank(segment, i, &state->rank[i]);
    if (!tu_segment_has(segment, i)) continue;
    state->began_ns = tu_min(state->began_ns, tu_segment_head(segment, i)->plate.began_ns);
    const uint32_t before = state->comms;
    for (int tries = 0; tries < TRIES && state->comms == before; tries++)
      if (!read_list(segment, i, state, error)) return error->code;
      else if (atomic_load(&tu_segment_head(segment, i)->blocks) == 0) break;
  }
  qsort(state->rank, state->here, sizeof *state->rank, by_rank);
  qsort(state->comm, state->comms, sizeof *state->comm, by_id);
  return TUTTI_OK;
}

/* Adds what another host knows of a communicator. Of a rank, the host knows most that it runs on. */
static void merge_comm(struct tu_comm_state *comm, const struct tu_comm_state *from) {
  for (uint32_t i = 0; i < tu_min(comm->ranks, from->ranks); i++) {
    const uint64_t awaited_ns = comm->members[i].awaited_ns + from->members[i].awaited_ns;
    if (from->members[i].here) comm->members[i] = from->members[i];
    comm->members[i].awaited_ns = awaited_ns;
  }
  if (comm->verdict.code == TUTTI_OK) comm->verdict = from->verdict;
}

tutti_err tu_job_state_merge(struct tu_job_state *state, struct tu_job_state *from, struct tu_error *error) {
  const size_t here = (size_t)state->here + from->here, comms = (size_t)state->comms + from->comms;
  struct tu_rank_state *rank = realloc(state->rank, (here + 1) * sizeof *rank);
  if (rank) state->rank = rank;
  struct tu_comm_state *comm = realloc(state->comm, (comms + 1) * sizeof *comm);
  if (comm) state->comm = comm;
  if (!rank || !comm) return tu_fail_memory(error, here * sizeof *rank, "the state of a job");
  memcpy(rank + state->here, from->rank, from->here * sizeof *rank);
  state->here = (uint32_t)here;
  state->began_ns = tu_min(state->began_ns, from->began_ns);
  for (uint32_t i = 0; i < from->comms; i++) {
    struct tu_comm_state *known = (struct tu_comm_state *)(uintptr_t)tu_job_state_comm(state, from->comm[i].comm_id);
    if (known) {
      merge_comm(known, &from->comm[i]);
      free(from->comm[i].members);
    } else {
      state->comm[state->comms++] = from->comm[i];
    }
  }
  from->comms = 0;
  qsort(state->rank, state->here, sizeof *state->rank, by_rank);
  qsort(state->comm, state->comms, sizeof *state->comm, by_id);
  return TUTTI_OK;
}

void tu_job_state_fini(struct tu_job_state *state) {
  for (uint32_t i = 0; i < state->comms; i++) free(state->comm[i].members);
  free(state->comm);
  free(state->rank);
  *state = (struct tu_job_state){0};
}

/* ---- look-ups ---- */

const struct tu_rank_state *tu_job_state_rank(const struct tu_job_state *state, uint32_t rank) {
  for (uint32_t i = 0; i < state->here; i++)
    if (state->rank[i].rank == rank && state->rank[i].life != TU_RANK_ABSENT) return &state->rank[i];
  return NULL;
}

const struct tu_member_state *tu_comm_state_member(const struct tu_comm_state *comm, uint32_t rank) {
  for (uint32_t i = 0; i < comm->ranks; i++)
    if (comm->members[i].rank == rank) return &comm->members[i];
  return NULL;
}

const struct tu_comm_state *tu_job_state_comm(const struct tu_job_state *state, uint64_t comm_id) {
  for (uint32_t i = 0; i < state->comms; i++)
    if (state->comm[i].comm_id == comm_id) return &state->comm[i];
  return NULL;
}

const struct tu_waits *tu_rank_state_wait(const struct tu_rank_state *rank) {
  const struct tu_waits *first = NULL;
  for (uint32_t i = 0; i < TU_WAITS_THREADS; i++) {
    const struct tu_waits *w = &rank->waits[i];
    if (w->count > 0 && w->until == 0 && (!first || w->since < first->since)) first = w;
  }
  return first;
}
