/* pack.c: writes and reads the state of a host's ranks as bytes. All structs are sent as they lie in memory. */
#include "sight/pack.h"

#include <stdlib.h>
#include <string.h>

#include "sight/plate.h"

enum { COMMS_MAX = 65536, RANKS_MAX = 65536 }; /* of a job (src/boot/identity.c) */

struct head {
  uint64_t layout; /* of the structs that follow */
  uint64_t now, began_ns, id;
  uint32_t ranks, here, comms;
  int32_t launcher;
};

struct comm_head {
  uint64_t comm_id;
  uint32_t ranks, padding;
  struct tu_error verdict;
};

static uint64_t layout(void) {
  const uint64_t words[] = {tu_plate_layout(), sizeof(struct head), sizeof(struct tu_rank_state),
                            sizeof(struct tu_member_state), sizeof(struct comm_head)};
  return tu_hash(words, sizeof words, 0);
}

static void pack(const struct tu_job_state *state, const struct tu_job_look *look, FILE *file) {
  struct head head = {.layout = layout(),
                      .now = state->now,
                      .began_ns = state->began_ns,
                      .id = look->id,
                      .ranks = state->ranks,
                      .here = state->here,
                      .comms = state->comms,
                      .launcher = look->launcher};
  fwrite(&head, sizeof head, 1, file);
  fwrite(state->rank, sizeof *state->rank, state->here, file);
  for (uint32_t i = 0; i < state->comms; i++) {
    const struct tu_comm_state *comm = &state->comm[i];
    struct comm_head c;
    memset(&c, 0, sizeof c);
    c.comm_id = comm->comm_id;
    c.ranks = comm->ranks;
    c.verdict = comm->verdict;
    fwrite(&c, sizeof c, 1, file);
    fwrite(comm->members, sizeof *comm->members, comm->ranks, file);
  }
}

void tu_job_look_pack(const struct tu_job_look *look, FILE *file) {
  pack(&look->before, look, file);
  pack(&look->now, look, file);
}

struct source {
  const unsigned char *at;
  size_t left;
};

static bool take(struct source *source, void *to, size_t bytes) {
  if (bytes > source->left) return false;
  memcpy(to, source->at, bytes);
  source->at += bytes;
  source->left -= bytes;
  return true;
}

/* Takes an array, which the caller frees. Returns NULL if it is not there. */
static void *take_list(struct source *source, uint32_t count, size_t bytes) {
  if (count > source->left / bytes) return NULL;
  void *list = tu_try_allocate((size_t)count + 1, bytes);
  if (list && !take(source, list, count * bytes)) abort();
  return list;
}

static bool unpack(struct source *source, struct tu_job_state *state, struct tu_job_look *look) {
  struct head head;
  *state = (struct tu_job_state){0};
  if (!take(source, &head, sizeof head) || head.layout != layout() || head.comms > COMMS_MAX ||
      head.ranks > RANKS_MAX || head.here > head.ranks)
    return false;
  look->id = head.id;
  look->launcher = head.launcher;
  state->now = head.now;
  state->began_ns = head.began_ns;
  state->ranks = head.ranks;
  state->rank = take_list(source, head.here, sizeof *state->rank);
  state->comm = tu_try_allocate((size_t)head.comms + 1, sizeof *state->comm);
  if (!state->rank || !state->comm) return false;
  state->here = head.here;
  for (; state->comms < head.comms; state->comms++) {
    struct comm_head c;
    struct tu_comm_state *comm = &state->comm[state->comms];
    if (!take(source, &c, sizeof c)) return false;
    *comm = (struct tu_comm_state){.comm_id = c.comm_id, .ranks = c.ranks, .verdict = c.verdict};
    comm->members = take_list(source, c.ranks, sizeof *comm->members);
    if (!comm->members) return false;
  }
  return true;
}

/* Moves a time of the other host's clock to this host's. 0 and UINT64_MAX are no times. */
static void shift(uint64_t *time, uint64_t by) {
  if (*time != 0 && *time != UINT64_MAX) *time += by;
}

static void shift_all(struct tu_job_state *state, uint64_t by) {
  shift(&state->now, by);
  shift(&state->began_ns, by);
  for (uint32_t i = 0; i < state->here; i++)
    for (uint32_t t = 0; t < TU_WAITS_THREADS; t++) {
      struct tu_waits *w = &state->rank[i].waits[t];
      shift(&w->since, by);
      shift(&w->looked, by);
      shift(&w->until, by);
    }
}

/* Makes a bool of any byte. */
static void tame(bool *flag) {
  unsigned char byte;
  memcpy(&byte, flag, 1);
  *flag = byte != 0;
}

static void tame_member(struct tu_member_state *m) {
  tame(&m->here);
  tame(&m->departed);
  tame(&m->known);
  m->known = m->known && tu_facts_are_valid(&m->facts);
}

/* Returns true if all numbers that are used as indices are in range. Ends all texts. */
static bool is_sound(struct tu_job_state *state) {
  for (uint32_t i = 0; i < state->here; i++) {
    struct tu_rank_state *r = &state->rank[i];
    r->host[sizeof r->host - 1] = '\0';
    if ((uint32_t)r->life > TU_RANK_DEAD || (r->rank >= state->ranks && r->life != TU_RANK_ABSENT)) return false;
    for (uint32_t t = 0; t < TU_WAITS_THREADS; t++) {
      if (r->waits[t].count > TU_WAITS_ENTRIES) return false;
      for (size_t k = 0; k < r->waits[t].count; k++)
        if (r->waits[t].entries[k].rank >= state->ranks) return false;
    }
  }
  for (uint32_t i = 0; i < state->comms; i++) {
    struct tu_comm_state *comm = &state->comm[i];
    comm->verdict.text[sizeof comm->verdict.text - 1] = '\0';
    for (uint32_t m = 0; m < comm->ranks; m++) tame_member(&comm->members[m]);
  }
  return true;
}

bool tu_job_look_unpack(const void *data, size_t bytes, struct tu_job_look *look) {
  struct source source = {data, bytes};
  struct tu_error error;
  *look = (struct tu_job_look){0};
  if (!unpack(&source, &look->before, look) || !unpack(&source, &look->now, look) || !is_sound(&look->before) ||
      !is_sound(&look->now))
    return false;
  tu_job_look_find_host(look);
  look->elsewhere = true;
  const uint64_t by = tu_clock_ns() - look->now.now;
  shift_all(&look->before, by);
  shift_all(&look->now, by);
  return tu_why_find(&look->now, &look->why, &error) == TUTTI_OK;
}
