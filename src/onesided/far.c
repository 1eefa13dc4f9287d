/* far.c: makes requests that concern memory of ranks on other hosts, and waits for their answers. */
#include "onesided/far.h"

#include <stdlib.h>
#include <string.h>

#include "call/progress.h"
#include "comm/chain.h"
#include "comm/failure.h"
#include "comm/peers.h"
#include "comm/wait.h"

enum {
  OPEN_MAX = 4,         /* number of requests that a call has open at a time */
  PIECE_BYTES = 4 << 20 /* maximum size of one request for contiguous memory */
};

struct tu_far_request {
  struct tu_request_to to;
  struct tu_far_request *next;
  struct tutti_comm *comm;
  uint32_t rank;
  /* Of a load: the rows of the answer, which are packed at `rows`, are moved to their places, `pitch` bytes apart. */
  unsigned char *rows;
  size_t row_count, row_bytes, pitch;
  unsigned char body[];
};

/* ---- waiting ---- */

static bool is_done(const struct tu_far_request *q) { return atomic_load_explicit(&q->to.done, memory_order_acquire); }

static bool is_over(void *context) {
  const struct tu_far_request *q = context;
  const struct tu_control *control = &q->comm->mover->control;
  if (is_done(q) || tu_control_failed(control)) return true;
  (void)tu_remote_look(control);
  return is_done(q) || tu_control_failed(control);
}

static tutti_err fail_late(const struct tu_far *far, const struct tu_far_request *q, const struct tu_wait *wait,
                           struct tu_error *error) {
  char late[250];
  const struct tu_chain_wait chain = {.member = q->rank, .since = wait->since};
  const bool known = tu_chain_print(q->comm, &chain, late, sizeof late);
  return tu_fail(error, TUTTI_ERR_TIMEOUT,
                 "%s: rank %u has waited %d ms until rank %u, on another host, has read or changed its memory%s%s",
                 far->call, q->comm->rank, wait->timeout_ms, q->rank, known ? "; this rank waits for " : "",
                 known ? late : "");
}

/* Returns true if the rank is dead or has left, or the wait has lasted too long. The communicator has then failed. */
static bool is_lost(const struct tu_far *far, struct tu_far_request *q, const struct tu_wait *wait, enum tu_due due) {
  struct tu_error error;
  struct tutti_comm *comm = q->comm;
  const bool left = tu_control_departed(&comm->mover->control, q->rank);
  if (is_over(q)) return false;
  tu_chain_tell_one(comm, q->rank, wait->since, tu_clock_ns());
  const bool lost = (left && tu_peer_left(comm, q->rank, far->call, &error)) ||
                    tu_peer_died(comm, q->rank, far->call, &error) ||
                    (due == TU_TOO_LATE && fail_late(far, q, wait, &error) != TUTTI_OK);
  if (!lost || is_over(q)) return false; /* the answer may have come between that look and the rank's end */
  tu_control_fail(&comm->mover->control, &error);
  return true;
}

/* Waits for the answer. Returns the error of the communicator, or of the rank that has the memory. */
static tutti_err await(const struct tu_far *far, struct tu_far_request *q, struct tu_error *error) {
  struct tutti_comm *comm = q->comm;
  struct tu_wait wait = {.timeout_ms = comm->timeout_ms};
  /* This thread serves the other hosts while it waits, so the thread of the library may rest, unless it has requests of the
   * program to advance. */
  const bool rests = !comm->transport->advanced;
  if (rests) tu_progress_pause(comm);
  while (!is_over(q)) {
    const enum tu_due due = tu_wait_outside(comm, &wait, is_over, q);
    if (due != TU_GO_ON && is_lost(far, q, &wait, due)) break;
  }
  if (rests) tu_progress_resume(comm);
  if (wait.since) tu_chain_go_on(comm->transport);
  if (is_done(q) && q->to.code == TUTTI_OK) return TUTTI_OK;
  const tutti_err verdict = tu_comm_verdict(comm, error);
  if (verdict != TUTTI_OK) return verdict;
  if (q->to.code == TUTTI_ERR_MEMORY)
    return tu_fail(error, TUTTI_ERR_MEMORY, "%s: rank %u is out of memory", far->call, q->rank);
  return tu_fail(error, q->to.code,
                 "%s: rank %u, on another host, has refused to read or change its memory: its part of the "
                 "window does not exist any more, or is shorter than this rank knows",
                 far->call, q->rank);
}

/* The packed rows lie at the beginning, so the last one is moved first. */
static void spread(const struct tu_far_request *q) {
  for (size_t row = q->row_count; row-- > 1;)
    memmove(q->rows + row * q->pitch, q->rows + row * q->row_bytes, q->row_bytes);
}

static struct tu_far_request *take_first(struct tu_far *far) {
  struct tu_far_request *q = far->first;
  far->first = q->next;
  if (!far->first) far->last = NULL;
  return q;
}

static void give_up_all(struct tu_far *far) {
  while (far->first) {
    struct tu_far_request *q = take_first(far);
    tu_memory_withdraw(&q->comm->mover->control, &q->to);
    free(q);
  }
}

static void complete_first(struct tu_far *far) {
  struct tu_far_request *q = far->first;
  if (await(far, q, &far->error) != TUTTI_OK) {
    give_up_all(far);
    return;
  }
  if (q->pitch > q->row_bytes) spread(q);
  free(take_first(far));
  far->completed++;
}

void tu_far_wait(struct tu_far *far, uint64_t number) {
  while (far->first && far->completed < number) complete_first(far);
}

tutti_err tu_far_end(struct tu_far *far, struct tu_error *error) {
  while (far->first) complete_first(far);
  if (far->error.code != TUTTI_OK) *error = far->error;
  return far->error.code;
}

/* ---- beginning ---- */

static struct tu_far_request *create(struct tu_far *far, struct tu_far_memory at, enum tu_far_what what,
                                     size_t body_bytes) {
  while (far->begun - far->completed >= OPEN_MAX && far->first) complete_first(far);
  if (far->error.code != TUTTI_OK) return NULL;
  struct tu_far_request *q = malloc(sizeof *q + body_bytes);
  if (!q) {
    tu_fail_memory(&far->error, sizeof *q + body_bytes, "%s", far->call);
    give_up_all(far);
    return NULL;
  }
  const struct tu_window_part *part = &at.window->parts[at.rank];
  *q = (struct tu_far_request){.comm = at.window->comm, .rank = at.rank};
  q->to.peer = q->comm->mover->control.members[at.rank];
  q->to.frame = (struct tu_memory_frame){.what = (uint8_t)what, .window = part->number, .offset = at.offset};
  return q;
}

/* Lets the wire carry out a request that only moves bytes, if it has direct access to the part. The frame says the rest;
 * q may be NULL. */
static void allow_transfer(struct tu_far_request *q, struct tu_far_memory at, bool reads, const void *here,
                           size_t bytes) {
  const struct tu_window_part *part = &at.window->parts[at.rank];
  if (!q || !part->exposed) return;
  q->to.transfer.reads = reads;
  q->to.transfer.here = (void *)(uintptr_t)here;
  q->to.transfer.bytes = bytes;
  q->to.transfer.address = part->address + q->to.frame.offset;
  q->to.transfer.key = part->key;
}

/* Begins the request; q may be NULL. Returns its number. */
static uint64_t begin(struct tu_far *far, struct tu_far_request *q, const void *body, size_t bytes) {
  if (!q) return far->begun;
  if (tu_memory_request(&q->comm->mover->control, &q->to, body, bytes, &far->error) != TUTTI_OK) {
    free(q);
    give_up_all(far);
    return far->begun;
  }
  if (far->last) far->last->next = q;
  else far->first = q;
  far->last = q;
  return ++far->begun;
}

uint64_t tu_far_read(struct tu_far *far, struct tu_far_memory at, void *to, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const size_t piece = tu_min(bytes - done, PIECE_BYTES);
    struct tu_far_request *q = create(far, at, TU_FAR_READ, 0);
    if (q) {
      q->to.frame.offset += done;
      q->to.frame.value = (uint32_t)piece;
      q->to.answer = (unsigned char *)to + done;
      q->to.answer_bytes = piece;
    }
    allow_transfer(q, at, true, (unsigned char *)to + done, piece);
    (void)begin(far, q, NULL, 0);
    done += piece;
  }
  return far->begun;
}

uint64_t tu_far_write(struct tu_far *far, struct tu_far_memory at, const void *from, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const size_t piece = tu_min(bytes - done, PIECE_BYTES);
    struct tu_far_request *q = create(far, at, TU_FAR_WRITE, 0);
    if (q) q->to.frame.offset += done;
    allow_transfer(q, at, false, (const unsigned char *)from + done, piece);
    (void)begin(far, q, (const unsigned char *)from + done, piece);
    done += piece;
  }
  return far->begun;
}

/* ---- regions ---- */

/* Describes the rows of a region for the rank that has them. Returns the number of bytes of the rows. `at` becomes the
 * place of the first row, if the rows lie in memory as a matrix. */
static size_t describe(struct tu_far_rows *rows, struct tu_far_memory *at, const tutti_tensor *tensor,
                       const struct tu_region *region) {
  size_t offset, pitch;
  *rows =
      (struct tu_far_rows){.row_count = region->extent[0] * region->extent[1] * region->extent[2] * region->extent[3],
                           .row_bytes = region->extent[4] * tu_map_item_bytes(region->map),
                           .tensor = *tensor};
  if (tu_region_is_matrix(region, &offset, &pitch)) {
    rows->pitch = tu_max(pitch, rows->row_bytes);
    at->offset += offset;
  }
  for (int d = 0; d < TUTTI_DIMS; d++) rows->origin[d] = region->origin[d], rows->extent[d] = region->extent[d];
  rows->tensor.data = NULL;
  return rows->row_count * rows->row_bytes;
}

static bool is_contiguous(const struct tu_far_rows *rows) {
  return rows->pitch > 0 && (rows->row_count == 1 || rows->pitch == rows->row_bytes);
}

uint64_t tu_far_load(struct tu_far *far, struct tu_far_memory at, const tutti_tensor *tensor,
                     const struct tu_region *region, void *to, size_t pitch) {
  struct tu_far_rows rows;
  const size_t bytes = describe(&rows, &at, tensor, region);
  const bool plain = is_contiguous(&rows);
  struct tu_far_request *q = create(far, at, plain ? TU_FAR_READ : TU_FAR_READ_ROWS, plain ? 0 : sizeof rows);
  if (!q) return far->begun;
  q->to.frame.value = (uint32_t)bytes;
  q->to.answer = q->rows = to;
  q->to.answer_bytes = bytes;
  q->row_count = rows.row_count;
  q->row_bytes = rows.row_bytes;
  q->pitch = pitch;
  if (!plain) memcpy(q->body, &rows, sizeof rows);
  else allow_transfer(q, at, true, to, bytes);
  return begin(far, q, q->body, plain ? 0 : sizeof rows);
}

static uint64_t change(struct tu_far *far, struct tu_far_memory at, const tutti_tensor *tensor,
                       const struct tu_region *region, enum tu_far_what what, const void *from, size_t pitch) {
  struct tu_far_rows rows;
  const struct tu_far_memory data = at;
  const size_t bytes = describe(&rows, &at, tensor, region);
  const bool plain = what == TU_FAR_WRITE_ROWS && is_contiguous(&rows);
  const size_t head = plain ? 0 : sizeof rows;
  if (what == TU_FAR_ADD_ROWS) rows.pitch = 0, at = data;
  struct tu_far_request *q = create(far, at, plain ? TU_FAR_WRITE : what, head + bytes);
  if (!q) return far->begun;
  if (!plain) memcpy(q->body, &rows, sizeof rows);
  for (size_t row = 0; row < rows.row_count; row++)
    memcpy(q->body + head + row * rows.row_bytes, (const unsigned char *)from + row * pitch, rows.row_bytes);
  if (plain) allow_transfer(q, at, false, q->body, bytes);
  return begin(far, q, q->body, head + bytes);
}

uint64_t tu_far_store(struct tu_far *far, struct tu_far_memory at, const tutti_tensor *tensor,
                      const struct tu_region *region, const void *rows, size_t pitch) {
  return change(far, at, tensor, region, TU_FAR_WRITE_ROWS, rows, pitch);
}

uint64_t tu_far_add(struct tu_far *far, struct tu_far_memory at, const tutti_tensor *tensor,
                    const struct tu_region *region, const void *rows, size_t pitch) {
  return change(far, at, tensor, region, TU_FAR_ADD_ROWS, rows, pitch);
}

/* ---- requests without data ---- */

tutti_err tu_far_ask(const char *call, struct tu_far_memory at, enum tu_far_what what, uint32_t *value,
                     const void *body, size_t bytes, struct tu_error *error) {
  struct tu_far far;
  tu_far_start(&far, call);
  struct tu_far_request *q = create(&far, at, what, 0);
  if (q) q->to.frame.value = *value;
  (void)begin(&far, q, body, bytes);
  if (far.first && await(&far, q, &far.error) == TUTTI_OK) *value = q->to.value;
  give_up_all(&far);
  return tu_far_end(&far, error);
}
