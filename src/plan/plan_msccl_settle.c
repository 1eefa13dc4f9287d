/* plan_msccl_settle.c: checks the tables of an MSCCL algorithm for consistency, and finds what they refer to: the root,
 * the chunks of a block, buffers, waits and the partners of messages. */
#include "plan/plan_msccl_internal.h"

#include <stdio.h>

#define NONE TU_MSCCL_NONE

/* Limits on the chunks of all buffers of a file, and on the chunks that its steps touch. A limit is a fixed number
 * (FREE) plus a number per byte of the file (PER_BYTE), and at most MOST. */
enum { CHUNKS_FREE = 1 << 20, CHUNKS_PER_BYTE = 64, TOUCHES_FREE = 1 << 22, TOUCHES_PER_BYTE = 256, MOST = 1 << 30 };

/* What each type of step does; fields: sends, receives, source, target. The type rrs has a target, too: scratch that
 * settle_step adds. */
const struct tu_msccl_kind tu_msccl_kinds[] = {
    [TU_MSCCL_S] = {true, false, true, false},     [TU_MSCCL_R] = {false, true, false, true},
    [TU_MSCCL_RCS] = {true, true, false, true},    [TU_MSCCL_RRS] = {true, true, true, true},
    [TU_MSCCL_RRC] = {false, true, true, true},    [TU_MSCCL_RRCS] = {true, true, true, true},
    [TU_MSCCL_CPY] = {false, false, true, true},   [TU_MSCCL_RE] = {false, false, true, true},
    [TU_MSCCL_NOP] = {false, false, false, false},
};

tutti_err tu_msccl_fail_at(const struct tu_msccl_convert *c, uint32_t line, const char *format, ...) {
  char text[400];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return tu_fail(c->error, TUTTI_ERR_ARGUMENT, "%s:%u: %s", c->file->file, line, text);
}

/* Finds the root of the collective. If the input is at the root, the root is the only GPU that receives nothing. If the
 * output is at the root, the root is the only GPU that sends nothing. */
tutti_err tu_msccl_find_root(struct tu_msccl_convert *c) {
  const struct tu_msccl *f = c->file;
  const struct tu_collective *collective = &tu_collectives[f->collective];
  if (!collective->rooted) return TUTTI_OK;
  uint32_t roots = 0, first = 0, last = 0;
  for (uint32_t g = 0; g < f->ranks; g++) {
    bool is_root = true;
    for (uint32_t t = 0; t < f->gpus[g].tb_count; t++) {
      const struct tu_msccl_tb *tb = &f->tbs[f->gpus[g].tb_first + t];
      for (uint32_t s = 0; s < tb->step_count; s++) {
        uint8_t type = f->steps[tb->step_first + s].type;
        is_root &= collective->in_at_root ? !tu_msccl_kinds[type].receives : !tu_msccl_kinds[type].sends;
      }
    }
    if (!is_root) continue;
    if (roots++ == 0) first = g;
    last = g;
  }
  c->plan->root = first;
  if (roots == 1) return TUTTI_OK;
  const char *does = collective->in_at_root ? "receives" : "sends";
  if (roots == 0)
    return tu_msccl_fail_at(c, f->line,
                            "<algo>: cannot find the root of %s: expected one gpu that %s nothing, found none",
                            collective->name, does);
  return tu_msccl_fail_at(
      c, f->line,
      "<algo>: cannot find the root of %s: expected one gpu that %s nothing, found %u, among them gpus "
      "%u and %u",
      collective->name, does, roots, first, last);
}

/* Sets the number of chunks per block. If a buffer has one block per GPU and the collective has no root, the attribute
 * nchunksperloop counts the chunks of all blocks. Otherwise it counts the chunks of one block. */
tutti_err tu_msccl_lay_out(struct tu_msccl_convert *c) {
  const struct tu_msccl *f = c->file;
  const struct tu_collective *collective = &tu_collectives[f->collective];
  struct tu_plan *p = c->plan;
  tu_assert(f->ranks > 0);
  bool rows = collective->in == TU_EACH || collective->out == TU_EACH, whole = rows && !collective->rooted;
  uint64_t chunks = 2 * (uint64_t)f->ranks * f->chunks * (rows && !whole ? f->ranks : 1);
  for (uint32_t g = 0; g < f->ranks; g++) chunks += f->gpus[g].chunks[TU_TMP];
  if (chunks > tu_min(CHUNKS_FREE + CHUNKS_PER_BYTE * c->bytes, MOST))
    return tu_msccl_fail_at(c, f->line,
                            "<algo>: the buffers have %llu chunks in total, too many for a file of this length",
                            (unsigned long long)chunks);
  if (whole && f->chunks % f->ranks != 0)
    return tu_msccl_fail_at(c, f->line,
                            "<algo> attribute 'nchunksperloop': expected a multiple of %u, the number of gpus (%s has "
                            "one block per gpu), found '%u'",
                            f->ranks, collective->name, f->chunks);
  p->split = whole ? f->chunks / f->ranks : f->chunks;
  p->equal_blocks = rows;
  return TUTTI_OK;
}

static tutti_err check_pairs(const struct tu_msccl_convert *c, uint32_t tb) {
  const struct tu_msccl *f = c->file;
  const struct tu_msccl_tb *b = &f->tbs[tb];
  for (uint32_t other = f->gpus[b->gpu].tb_first; other < tb; other++) {
    const struct tu_msccl_tb *a = &f->tbs[other];
    bool send = a->send == b->send && b->send != NONE, recv = a->recv == b->recv && b->recv != NONE;
    if (a->lane != b->lane || (!send && !recv)) continue;
    return tu_msccl_fail_at(c, b->line,
                            "<tb>: gpu %u already has a threadblock that %s gpu %u on channel %u, in line %u", b->gpu,
                            send ? "sends to" : "receives from", send ? b->send : b->recv, b->lane, a->line);
  }
  return TUTTI_OK;
}

/* Checks that the span lies in its buffer, both by the size that the file declares and by the size that the collective
 * needs. */
static tutti_err settle_span(const struct tu_msccl_convert *c, uint32_t gpu, uint32_t line, const char *side,
                             struct tu_span *span) {
  static const char letters[] = {[TU_IN] = 'i', [TU_OUT] = 'o', [TU_TMP] = 's'};
  const struct tu_plan *p = c->plan;
  uint32_t declared = c->file->gpus[gpu].chunks[span->buffer], buffer = span->buffer;
  if (span->first == NONE)
    return tu_msccl_fail_at(c, line, "<step> attribute '%soff': expected a chunk number, found '-1'", side);
  if (span->count > declared || span->first > declared - span->count)
    return tu_msccl_fail_at(c, line,
                            "<step> attribute '%soff': expected an offset from which %u chunks fit into the %u chunks "
                            "that gpu %u declares in %c_chunks, found '%u'",
                            side, span->count, declared, gpu, letters[buffer], span->first);
  if (buffer == TU_TMP) return TUTTI_OK;
  uint32_t chunks = tu_plan_chunks(p, gpu, (enum tu_buffer)buffer), other = buffer == TU_IN ? TU_OUT : TU_IN;
  const struct tu_collective *collective = &tu_collectives[p->collective];
  /* In place, the input and the output are one buffer. If this GPU has no buffer of the kind that the file names, the
   * span is taken as a span of the other buffer. */
  if (chunks == 0 && p->in_place && collective->in == collective->out) {
    span->buffer = other;
    chunks = tu_plan_chunks(p, gpu, (enum tu_buffer)other);
  }
  if (chunks == 0)
    return tu_msccl_fail_at(
        c, line, "<step> attribute '%sbuf': expected a buffer that gpu %u has in %s with root %u, found '%c'", side,
        gpu, collective->name, p->root, letters[buffer]);
  if (span->first <= chunks && span->count <= chunks - span->first) return TUTTI_OK;
  return tu_msccl_fail_at(c, line,
                          "<step> attribute '%soff': expected an offset from which %u chunks fit into the %u chunks of "
                          "buffer %c (%s, nchunksperloop %u), found '%u'",
                          side, span->count, chunks, letters[buffer], collective->name, c->file->chunks, span->first);
}

/* Checks that the step to wait for exists. Changes the wait to the first step, from that step on, that signals its end,
 * because an MSCCL wait ends at such a step. */
static tutti_err settle_wait(const struct tu_msccl_convert *c, uint32_t gpu, struct tu_msccl_step *step) {
  const struct tu_msccl *f = c->file;
  if (step->wait_tb == NONE) return TUTTI_OK;
  if (step->wait_tb >= f->gpus[gpu].tb_count)
    return tu_msccl_fail_at(c, step->line,
                            "<step> attribute 'depid': expected one of the %u threadblocks of gpu %u, found '%u'",
                            f->gpus[gpu].tb_count, gpu, step->wait_tb);
  const struct tu_msccl_tb *tb = &f->tbs[f->gpus[gpu].tb_first + step->wait_tb];
  if (step->wait_step >= tb->step_count)
    return tu_msccl_fail_at(c, step->line,
                            "<step> attribute 'deps': expected one of the %u steps of threadblock %u, found '%d'",
                            tb->step_count, step->wait_tb, (int)step->wait_step);
  uint32_t signal = c->next_signal[tb->step_first + step->wait_step];
  if (signal == NONE)
    return tu_msccl_fail_at(c, step->line,
                            "<step>: the step waits for step %u of threadblock %u (depid, deps); expected hasdep=\"1\" "
                            "at that step or a later one, found none: the wait would never end",
                            step->wait_step, step->wait_tb);
  step->wait_step = signal - tb->step_first;
  return TUTTI_OK;
}

static tutti_err settle_step(struct tu_msccl_convert *c, const struct tu_msccl_tb *tb, struct tu_msccl_step *step) {
  struct tu_rank_plan *rank = &c->plan->rank[tb->gpu];
  tutti_err err;
  if (tu_msccl_kinds[step->type].sends && tb->send == NONE)
    return tu_msccl_fail_at(c, step->line,
                            "<step>: the step sends; expected a peer in 'send' of its threadblock, found '-1'");
  if (tu_msccl_kinds[step->type].receives && tb->recv == NONE)
    return tu_msccl_fail_at(c, step->line,
                            "<step>: the step receives; expected a peer in 'recv' of its threadblock, found '-1'");
  if (!tu_reduces(c->file->collective) &&
      (step->type == TU_MSCCL_RE || (tu_msccl_kinds[step->type].receives && tu_msccl_kinds[step->type].source)))
    return tu_msccl_fail_at(c, step->line,
                            "<step> attribute 'type': expected a type that does not reduce, because %s does not reduce",
                            tu_collectives[c->file->collective].name);
  if (tu_msccl_kinds[step->type].source &&
      (err = settle_span(c, tb->gpu, step->line, "src", &step->source)) != TUTTI_OK)
    return err;
  if (step->type == TU_MSCCL_RRS) {
    step->target = (struct tu_span){TU_TMP, rank->tmp_count, step->source.count};
    rank->tmp_count += step->source.count;
  } else if (tu_msccl_kinds[step->type].target) {
    if ((err = settle_span(c, tb->gpu, step->line, "dst", &step->target)) != TUTTI_OK) return err;
  }
  return settle_wait(c, tb->gpu, step);
}

/* Checks the chunks that a gpu declares for its output, unless the output is the input. */
static tutti_err check_output(const struct tu_msccl_convert *c, uint32_t gpu) {
  const uint32_t declared = c->file->gpus[gpu].chunks[TU_OUT], needed = tu_plan_chunks(c->plan, gpu, TU_OUT);
  if (c->plan->in_place || declared == 0 || needed == 0 || declared == needed) return TUTTI_OK;
  return tu_msccl_fail_at(
      c, c->file->gpus[gpu].line,
      "<gpu> attribute 'o_chunks': expected %u, the chunks of the output of gpu %u (%s, nchunksperloop %u), "
      "found '%u'",
      needed, gpu, tu_collectives[c->file->collective].name, c->file->chunks, declared);
}

/* Checks spans and waits, and finds which threadblocks exchange messages. Afterwards every index lies in its array. */
tutti_err tu_msccl_settle(struct tu_msccl_convert *c) {
  struct tu_msccl *f = c->file;
  uint64_t touches = 0;
  tutti_err err;
  for (uint32_t t = f->tb_count; t-- > 0;) {
    uint32_t next = NONE, first = f->tbs[t].step_first;
    for (uint32_t s = first + f->tbs[t].step_count; s-- > first;)
      c->next_signal[s] = next = f->steps[s].signals ? s : next;
  }
  for (uint32_t g = 0; g < f->ranks; g++) {
    c->plan->rank[g].tmp_count = f->gpus[g].chunks[TU_TMP];
    if ((err = check_output(c, g)) != TUTTI_OK) return err;
  }
  for (uint32_t t = 0; t < f->tb_count; t++) {
    const struct tu_msccl_tb *tb = &f->tbs[t];
    if ((err = check_pairs(c, t)) != TUTTI_OK) return err;
    c->tbs[t].partner = NONE;
    for (uint32_t k = 0; tb->recv != NONE && k < f->gpus[tb->recv].tb_count; k++) {
      uint32_t other = f->gpus[tb->recv].tb_first + k;
      if (f->tbs[other].send == tb->gpu && f->tbs[other].lane == tb->lane) c->tbs[t].partner = other;
    }
    for (uint32_t s = tb->step_first; s < tb->step_first + tb->step_count; s++) {
      c->steps[s] = (struct tu_msccl_step_state){.chunks = (uint32_t)touches, .from = NONE, .snapshot = NONE};
      touches += f->steps[s].source.count;
      if (touches > tu_min(TOUCHES_FREE + TOUCHES_PER_BYTE * c->bytes, MOST))
        return tu_msccl_fail_at(c, f->steps[s].line,
                                "<step> attribute 'cnt': this step and the steps before it touch %llu chunks, too many "
                                "for a file of this length",
                                (unsigned long long)touches);
      if ((err = settle_step(c, tb, &f->steps[s])) != TUTTI_OK) return err;
    }
  }
  c->marks = tu_arena_allocate(&c->arena, touches, sizeof *c->marks);
  c->sent = tu_arena_allocate(&c->arena, touches, sizeof *c->sent);
  return TUTTI_OK;
}
