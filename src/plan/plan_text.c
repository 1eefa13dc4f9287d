/* plan_text.c: writes and reads the text form of plans. The grammar is in tutti-plan(5).
 * The reader accepts only well-formed text. The length of the text limits the memory that the reader allocates. */
#include "plan/plan_text.h"

#include <stdio.h>
#include <string.h>

static const char *const buffer_names[] = {[TU_IN] = "in", [TU_OUT] = "out", [TU_TMP] = "tmp"};
static const char *const kind_names[] = {[TU_SEND] = "send",
                                         [TU_RECV] = "recv",
                                         [TU_RECV_REDUCE] = "recv_reduce",
                                         [TU_COPY] = "copy",
                                         [TU_REDUCE] = "reduce"};
enum { BUFFERS = 3, KINDS = 5 };

static const char *const order_names[] = {
    [TU_BY_CHUNK] = "by_chunk", [TU_UNIFORM] = "uniform", [TU_CANONICAL] = "canonical"};
enum { ORDERS = 3 };

const char *tu_order_name(enum tu_order_class order) { return order_names[order]; }

const char *tu_buffer_name(uint32_t buffer) { return buffer < BUFFERS ? buffer_names[buffer] : "?"; }

/* ---- writing a plan as text ------------------------------------------------------------------------------------- */

static void write_run(struct tu_text *text, const char *buffer, uint32_t first, uint32_t count) {
  if (count == 1) tu_text_print(text, "%s[%u]", buffer, first);
  else tu_text_print(text, "%s[%u:%u]", buffer, first, first + count);
}

static void write_span(struct tu_text *text, bool first_load, struct tu_span span) {
  if (first_load) tu_text_print(text, "first ");
  write_run(text, tu_buffer_name(span.buffer), span.first, span.count);
}

static void write_list(struct tu_text *text, const uint32_t *numbers, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) tu_text_print(text, i ? ",%u" : "%u", numbers[i]);
}

static void write_operands(const struct tu_rank_plan *r, const struct tu_step *step, struct tu_text *text) {
  for (uint32_t i = 0; i < step->operand_count; i++) {
    const struct tu_operand *o = &r->operands[step->operand_first + i];
    if (i > 0) tu_text_print(text, " + ");
    if (o->peer == TU_LOCAL) write_span(text, o->first, o->span);
    else tu_text_print(text, o->joined ? "@%u joined" : "@%u", o->peer);
  }
}

void tu_plan_write_step(const struct tu_rank_plan *r, const struct tu_step *step, struct tu_text *text) {
  tu_text_print(text, "%s ", step->kind < KINDS ? kind_names[step->kind] : "?");
  switch (step->kind) {
    case TU_SEND:
      write_span(text, step->first, step->source);
      tu_text_print(text, " to ");
      write_list(text, r->peers + step->peer_first, step->peer_count);
      if (step->joined) tu_text_print(text, " joined");
      break;
    case TU_RECV:
      tu_text_print(text, "from ");
      write_list(text, r->peers + step->peer_first, step->peer_count);
      if (step->joined) tu_text_print(text, " joined");
      break;
    case TU_COPY: write_span(text, step->first, step->source); break;
    default: write_operands(r, step, text); break;
  }
  if (step->kind != TU_SEND) {
    tu_text_print(text, " into ");
    write_span(text, false, step->target);
  }
  if (step->tree) tu_text_print(text, " tree");
  if (step->final) tu_text_print(text, " final");
  if (step->lane) tu_text_print(text, " lane %u", step->lane);
  if (step->after_count == 0) return;
  tu_text_print(text, " after ");
  write_list(text, r->afters + step->after_first, step->after_count);
}

static void write_tmp(const struct tu_rank_plan *r, struct tu_text *text) {
  if (r->tmp_count == 0) return;
  tu_text_print(text, "  tmp");
  for (uint32_t i = 0, count; i < r->tmp_count; i += count) {
    const struct tu_like *like = &r->tmp[i];
    for (count = 1; i + count < r->tmp_count; count++)
      if (like[count].buffer != like->buffer || like[count].chunk != like->chunk + count) break;
    tu_text_print(text, " ");
    write_run(text, tu_buffer_name(like->buffer), like->chunk, count);
  }
  tu_text_print(text, "\n");
}

void tu_plan_write_head(const struct tu_plan *plan, struct tu_text *text) {
  static const char *const answers[] = {"no", "yes"};
  tu_text_print(text, "tutti-plan 1\ncollective %s\nalgorithm %s\n", tu_collectives[plan->collective].name,
                plan->algorithm);
  tu_text_print(text, "ranks %u\nroot %u\nsplit %u\n", plan->ranks, plan->root, plan->split);
  tu_text_print(text, "in_place %s\nequal_blocks %s\nrank_order %s\n", answers[plan->in_place],
                answers[plan->equal_blocks], answers[plan->rank_order]);
  if (plan->order != TU_BY_CHUNK) tu_text_print(text, "order %s\n", tu_order_name(plan->order));
}

void tu_plan_write_rank(const struct tu_plan *plan, uint32_t i, struct tu_text *text) {
  const struct tu_rank_plan *r = &plan->rank[i];
  tu_text_print(text, "rank %u\n", plan->rank_first + i);
  write_tmp(r, text);
  for (uint32_t s = 0; s < r->step_count; s++) {
    tu_text_print(text, "    %u: ", s);
    tu_plan_write_step(r, &r->steps[s], text);
    tu_text_print(text, "\n");
  }
}

void tu_plan_write(const struct tu_plan *plan, struct tu_text *text) {
  tu_plan_write_head(plan, text);
  for (uint32_t i = 0; i < plan->rank_count; i++) tu_plan_write_rank(plan, i, text);
}

/* ---- reading a plan from text ----------------------------------------------------------------------------------- */

/* Limit of the number of scratch chunks: TMP_FREE, plus TMP_PER_BYTE for each byte of the text. Only scratch needs a
 * limit, because other data cannot be much larger than its text. */
enum { TMP_FREE = 1 << 16, TMP_PER_BYTE = 64, CHUNKS_MAX = 1 << 30 };

struct reader {
  struct tu_scan scan;
  struct tu_error *error;
  struct tu_plan *plan;
  size_t tmp_left;
  uint32_t rank_capacity;
  /* for each array of the rank that is being read: number of entries for which there is memory */
  uint32_t step_capacity, peer_capacity, operand_capacity, after_capacity, tmp_capacity;
};

static tutti_err expected(struct reader *r, const char *what) { return tu_scan_fail(&r->scan, r->error, what); }

/* Format of a position (name and line of the text), for error messages. */
#define POSITION "%s:%u: "
#define POSITION_OF(r) ((r)->scan.name ? (r)->scan.name : "text"), (r)->scan.line

/* Reads the next word if it equals `word`. Otherwise reads nothing and returns false. */
static bool take_word(struct reader *r, const char *word) {
  struct tu_scan before = r->scan;
  char found[TU_NAME_BYTES];
  if (tu_scan_word(&r->scan, found, sizeof found) && strcmp(found, word) == 0) return true;
  r->scan = before;
  return false;
}

static tutti_err read_line_end(struct reader *r) {
  return tu_scan_end_of_line(&r->scan) ? TUTTI_OK : expected(r, "the end of the line");
}

/* Reads a line of the form "key NUMBER". */
static tutti_err read_number_line(struct reader *r, const char *key, uint32_t low, uint32_t high, uint32_t *number) {
  tu_scan_at_end(&r->scan);
  char what[64];
  snprintf(what, sizeof what, "'%s NUMBER'", key);
  if (!take_word(r, key)) return expected(r, what);
  snprintf(what, sizeof what, "a number from %u to %u", low, high);
  struct tu_scan before = r->scan;
  if (!tu_scan_uint(&r->scan, number) || *number < low || *number > high) {
    r->scan = before;
    return expected(r, what);
  }
  return read_line_end(r);
}

static tutti_err read_flag_line(struct reader *r, const char *key, bool *flag) {
  tu_scan_at_end(&r->scan);
  char what[64];
  snprintf(what, sizeof what, "'%s yes' or '%s no'", key, key);
  if (!take_word(r, key)) return expected(r, what);
  *flag = take_word(r, "yes");
  if (!*flag && !take_word(r, "no")) return expected(r, "yes or no");
  return read_line_end(r);
}

/* Characters that may occur in the name of an algorithm, including composites. */
static const char name_characters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-:+/";

static tutti_err read_names(struct reader *r) {
  struct tu_plan *plan = r->plan;
  tu_scan_at_end(&r->scan);
  if (!take_word(r, "collective")) return expected(r, "'collective NAME'");
  struct tu_scan before = r->scan;
  char word[TU_NAME_BYTES];
  if (!tu_scan_word(&r->scan, word, sizeof word) || !tu_collective_find(word, &plan->collective) ||
      tu_collectives[plan->collective].family != plan->collective) {
    r->scan = before;
    return expected(r, "a collective, but no vector variant (allgatherv uses the plans of allgather)");
  }
  tutti_err err = read_line_end(r);
  if (err != TUTTI_OK) return err;
  tu_scan_at_end(&r->scan);
  if (!take_word(r, "algorithm")) return expected(r, "'algorithm NAME'");
  tu_scan_blanks(&r->scan);
  before = r->scan;
  if (!tu_scan_token(&r->scan, plan->algorithm, sizeof plan->algorithm) ||
      strspn(plan->algorithm, name_characters) != (size_t)(r->scan.at - before.at)) {
    r->scan = before;
    return expected(r, "a name of at most 99 letters, digits and characters of _.-:+/");
  }
  return read_line_end(r);
}

/* Reads the line "order CLASS", which may be missing. */
static tutti_err read_order(struct reader *r, enum tu_order_class *order) {
  tu_scan_at_end(&r->scan);
  *order = TU_BY_CHUNK;
  if (!take_word(r, "order")) return TUTTI_OK;
  for (int i = 0; i < ORDERS; i++) {
    if (!take_word(r, order_names[i])) continue;
    *order = (enum tu_order_class)i;
    return read_line_end(r);
  }
  return expected(r, "by_chunk, uniform or canonical");
}

static tutti_err read_header(struct reader *r) {
  struct tu_plan *plan = r->plan;
  uint32_t version;
  tutti_err err;
  if ((err = read_number_line(r, "tutti-plan", 1, 1, &version)) != TUTTI_OK) return err;
  if ((err = read_names(r)) != TUTTI_OK) return err;
  if ((err = read_number_line(r, "ranks", 1, TU_RANKS_MAX, &plan->ranks)) != TUTTI_OK) return err;
  const struct tu_collective *c = &tu_collectives[plan->collective];
  uint32_t root_max = c->rooted ? plan->ranks - 1 : 0;
  if ((err = read_number_line(r, "root", 0, root_max, &plan->root)) != TUTTI_OK) return err;
  /* Limits the number of chunks per block (split), because the numbers of chunks and of size classes must fit 32 bits.
   * If both buffers have one block per rank, there is a size class for each pair of ranks. */
  uint32_t split_max = CHUNKS_MAX / plan->ranks;
  if (c->in == TU_EACH && c->out == TU_EACH) split_max = (uint32_t)tu_max(1, split_max / plan->ranks);
  if ((err = read_number_line(r, "split", 1, split_max, &plan->split)) != TUTTI_OK) return err;
  if ((err = read_flag_line(r, "in_place", &plan->in_place)) != TUTTI_OK) return err;
  if ((err = read_flag_line(r, "equal_blocks", &plan->equal_blocks)) != TUTTI_OK) return err;
  if ((err = read_flag_line(r, "rank_order", &plan->rank_order)) != TUTTI_OK) return err;
  return read_order(r, &plan->order);
}

/* Reads a span: "in[3]" or "in[0:4]". */
static tutti_err read_span(struct reader *r, struct tu_span *span) {
  uint32_t buffer = 0;
  while (buffer < BUFFERS && !take_word(r, buffer_names[buffer])) buffer++;
  if (buffer == BUFFERS) return expected(r, "a span (in[...], out[...] or tmp[...])");
  span->buffer = buffer;
  if (!tu_scan_literal(&r->scan, "[")) return expected(r, "'['");
  if (!tu_scan_uint(&r->scan, &span->first) || span->first == UINT32_MAX) return expected(r, "a chunk's number");
  uint32_t end = span->first + 1;
  if (tu_scan_literal(&r->scan, ":")) {
    struct tu_scan before = r->scan;
    if (!tu_scan_uint(&r->scan, &end) || end <= span->first) {
      r->scan = before;
      return expected(r, "an end greater than the first chunk");
    }
  }
  span->count = end - span->first;
  return tu_scan_literal(&r->scan, "]") ? TUTTI_OK : expected(r, "']'");
}

static tutti_err read_tmp(struct reader *r, struct tu_rank_plan *rank, uint32_t number) {
  do {
    struct tu_span span;
    tutti_err err = read_span(r, &span);
    if (err != TUTTI_OK) return err;
    uint32_t chunks = span.buffer == TU_TMP ? 0 : tu_plan_chunks(r->plan, number, (enum tu_buffer)span.buffer);
    if (span.first >= chunks || span.count > chunks - span.first)
      return tu_fail(r->error, TUTTI_ERR_ARGUMENT,
                     POSITION
                     "expected chunks of in or out that rank %u has, found %s[%u:%u]; this buffer has %u chunks",
                     POSITION_OF(r), number, tu_buffer_name(span.buffer), span.first, span.first + span.count, chunks);
    if (span.count > r->tmp_left)
      return tu_fail(r->error, TUTTI_ERR_ARGUMENT,
                     POSITION
                     "too much scratch for a text of this length: found %u chunks, but only %zu more are allowed",
                     POSITION_OF(r), span.count, r->tmp_left);
    r->tmp_left -= span.count;
    for (uint32_t i = 0; i < span.count; i++) {
      rank->tmp = tu_arena_grow(&r->plan->arena, rank->tmp, rank->tmp_count, &r->tmp_capacity, sizeof *rank->tmp);
      rank->tmp[rank->tmp_count++] = (struct tu_like){span.buffer, span.first + i};
    }
  } while (!tu_scan_end_of_line(&r->scan));
  return TUTTI_OK;
}

/* Reads the number of a rank other than `self`. */
static tutti_err read_peer(struct reader *r, uint32_t self, uint32_t *peer) {
  struct tu_scan before = r->scan;
  if (tu_scan_uint(&r->scan, peer) && *peer < r->plan->ranks && *peer != self) return TUTTI_OK;
  r->scan = before;
  char what[80];
  snprintf(what, sizeof what, "a rank other than %u, below %u", self, r->plan->ranks);
  return expected(r, what);
}

static tutti_err read_peers(struct reader *r, struct tu_rank_plan *rank, uint32_t self, struct tu_step *step) {
  step->peer_first = rank->peer_count;
  do {
    uint32_t peer;
    tutti_err err = read_peer(r, self, &peer);
    if (err != TUTTI_OK) return err;
    rank->peers = tu_arena_grow(&r->plan->arena, rank->peers, rank->peer_count, &r->peer_capacity, sizeof *rank->peers);
    rank->peers[rank->peer_count++] = peer;
    step->peer_count++;
  } while (step->kind == TU_SEND && tu_scan_literal(&r->scan, ","));
  step->joined = step->peer_count == 1 && take_word(r, "joined");
  return TUTTI_OK;
}

static tutti_err read_operands(struct reader *r, struct tu_rank_plan *rank, uint32_t self, struct tu_step *step) {
  step->operand_first = rank->operand_count;
  bool remote = false;
  do {
    struct tu_operand operand = {.peer = TU_LOCAL};
    tutti_err err;
    if (step->kind == TU_RECV_REDUCE && tu_scan_literal(&r->scan, "@")) {
      err = read_peer(r, self, &operand.peer);
      operand.joined = take_word(r, "joined");
      remote = true;
    } else {
      operand.first = take_word(r, "first");
      err = read_span(r, &operand.span);
    }
    if (err != TUTTI_OK) return err;
    rank->operands = tu_arena_grow(&r->plan->arena, rank->operands, rank->operand_count, &r->operand_capacity,
                                   sizeof *rank->operands);
    rank->operands[rank->operand_count++] = operand;
    step->operand_count++;
  } while (tu_scan_literal(&r->scan, "+"));
  if (step->kind == TU_RECV_REDUCE && !remote)
    return expected(r, "'+ @RANK' (a recv_reduce takes at least one message)");
  return TUTTI_OK;
}

static tutti_err read_afters(struct reader *r, struct tu_rank_plan *rank, struct tu_step *step) {
  step->after_first = rank->after_count;
  do {
    struct tu_scan before = r->scan;
    uint32_t after;
    if (!tu_scan_uint(&r->scan, &after) || after >= rank->step_count) {
      r->scan = before;
      return expected(r, "the number of an earlier step");
    }
    rank->afters =
        tu_arena_grow(&r->plan->arena, rank->afters, rank->after_count, &r->after_capacity, sizeof *rank->afters);
    rank->afters[rank->after_count++] = after;
    step->after_count++;
  } while (tu_scan_literal(&r->scan, ","));
  return TUTTI_OK;
}

/* Reads the part of a step that depends on the kind of step, up to and including the target span. */
static tutti_err read_action(struct reader *r, struct tu_rank_plan *rank, uint32_t self, struct tu_step *step) {
  tutti_err err;
  if (step->kind == TU_SEND || step->kind == TU_COPY) {
    step->first = take_word(r, "first");
    if ((err = read_span(r, &step->source)) != TUTTI_OK) return err;
  }
  if (step->kind == TU_SEND) {
    if (!take_word(r, "to")) return expected(r, "'to RANK'");
    return read_peers(r, rank, self, step);
  }
  if (step->kind == TU_RECV) {
    if (!take_word(r, "from")) return expected(r, "'from RANK'");
    if ((err = read_peers(r, rank, self, step)) != TUTTI_OK) return err;
  }
  if (step->kind == TU_RECV_REDUCE || step->kind == TU_REDUCE)
    if ((err = read_operands(r, rank, self, step)) != TUTTI_OK) return err;
  if (!take_word(r, "into")) return expected(r, "'into SPAN'");
  return read_span(r, &step->target);
}

static tutti_err read_step(struct reader *r, struct tu_rank_plan *rank, uint32_t self) {
  char what[64];
  snprintf(what, sizeof what, "'%u:', the step's number", rank->step_count);
  struct tu_scan before = r->scan;
  uint32_t number;
  if (!tu_scan_uint(&r->scan, &number) || number != rank->step_count) {
    r->scan = before;
    return expected(r, what);
  }
  if (!tu_scan_literal(&r->scan, ":")) return expected(r, "':'");
  struct tu_step step = {0};
  while (step.kind < KINDS && !take_word(r, kind_names[step.kind])) step.kind++;
  if (step.kind == KINDS) return expected(r, "send, recv, recv_reduce, copy or reduce");
  tutti_err err = read_action(r, rank, self, &step);
  if (err != TUTTI_OK) return err;
  step.tree = step.operand_count > 0 && take_word(r, "tree");
  step.final = take_word(r, "final");
  if (take_word(r, "lane")) {
    uint32_t lane;
    before = r->scan;
    if (!tu_scan_uint(&r->scan, &lane) || lane >= TU_LANES_MAX) {
      r->scan = before;
      return expected(r, "a lane below 8");
    }
    step.lane = (uint8_t)lane;
  }
  if (take_word(r, "after") && (err = read_afters(r, rank, &step)) != TUTTI_OK) return err;
  if ((err = read_line_end(r)) != TUTTI_OK) return err;
  rank->steps = tu_arena_grow(&r->plan->arena, rank->steps, rank->step_count, &r->step_capacity, sizeof *rank->steps);
  rank->steps[rank->step_count++] = step;
  return TUTTI_OK;
}

static tutti_err read_rank(struct reader *r) {
  struct tu_plan *plan = r->plan;
  uint32_t self = plan->rank_count, number;
  tutti_err err = read_number_line(r, "rank", self, self, &number);
  if (err != TUTTI_OK) return err;
  plan->rank = tu_arena_grow(&plan->arena, plan->rank, plan->rank_count, &r->rank_capacity, sizeof *plan->rank);
  struct tu_rank_plan *rank = &plan->rank[plan->rank_count++];
  r->step_capacity = r->peer_capacity = r->operand_capacity = r->after_capacity = r->tmp_capacity = 0;
  while (!tu_scan_at_end(&r->scan)) {
    struct tu_scan line = r->scan;
    if (take_word(r, "rank")) {
      r->scan = line;
      break;
    }
    if (rank->step_count == 0 && rank->tmp_count == 0 && take_word(r, "tmp")) err = read_tmp(r, rank, self);
    else err = read_step(r, rank, self);
    if (err != TUTTI_OK) return err;
  }
  return TUTTI_OK;
}

static tutti_err read_plan(void *argument, struct tu_error *error) {
  struct reader *r = argument;
  r->error = error;
  r->plan = tu_plan_create();
  tutti_err err = read_header(r);
  while (err == TUTTI_OK && r->plan->rank_count < r->plan->ranks) err = read_rank(r);
  if (err == TUTTI_OK && !tu_scan_at_end(&r->scan)) err = expected(r, "the end of the text after the last rank");
  return err;
}

tutti_err tu_plan_read(const char *data, size_t bytes, const char *name, struct tu_plan **plan,
                       struct tu_error *error) {
  struct reader r = {.scan = {.at = data, .end = data + bytes, .line = 1, .name = name},
                     .tmp_left = tu_min(TMP_FREE + bytes * TMP_PER_BYTE, CHUNKS_MAX)};
  tutti_err err = tu_arena_build(read_plan, &r, name ? name : "a plan", error);
  if (err == TUTTI_OK) *plan = r.plan;
  else tu_plan_destroy(r.plan);
  return err;
}
