/* draw_window.c: prints a plan of many ranks as a page, whose script draws a window of ranks and rounds. The page has all
 * messages, but not one by one: a run is a sequence of messages of one round that differ by constant steps, such as
 * "from every rank to the next one". So the page of a ring of 1,024 ranks with 2 million messages has 200 kB. Time and
 * memory are linear in the number of messages and chunks, apart from sorting. */
#include "draw/draw_window.h"

#include <stdlib.h>

#include "draw/draw_page.h"
#include "plan/plan_text.h"

extern const char tu_draw_window_page[]; /* template of the page; CMake makes this string from the file window.html */

/* ---- messages --------------------------------------------------------------------------------------------------- */

/* A message as the page describes it. All fields after `chunk` are equal in a run. */
struct note {
  uint32_t sent;  /* round */
  uint32_t layer; /* ordinal of the message among those that the rank sends in the round */
  uint32_t from, to, chunk;
  uint32_t modulo; /* number of chunks of the buffer */
  uint32_t late;   /* rounds between send and receive */
  uint32_t lane, buffer, chunks, parts;
  uint32_t reduced; /* 1: the receiver reduces the data */
  uint32_t send;    /* number of the first send step, which orders the messages of a rank */
};

static int compare_numbers(uint32_t a, uint32_t b) { return a < b ? -1 : a > b; }

/* Orders messages by round and sender; messages of the same sender in the order of the plan. */
static int compare_by_sender(const void *left, const void *right) {
  const struct note *a = left, *b = right;
  if (a->sent != b->sent) return compare_numbers(a->sent, b->sent);
  if (a->from != b->from) return compare_numbers(a->from, b->from);
  if (a->lane != b->lane) return compare_numbers(a->lane, b->lane);
  return a->send != b->send ? compare_numbers(a->send, b->send) : compare_numbers(a->to, b->to);
}

static int compare_by_layer(const void *left, const void *right) {
  const struct note *a = left, *b = right;
  if (a->sent != b->sent) return compare_numbers(a->sent, b->sent);
  return a->layer != b->layer ? compare_numbers(a->layer, b->layer) : compare_numbers(a->from, b->from);
}

static struct note note_of(const struct tu_drawing *d, const struct tu_draw_message *m) {
  const struct tu_draw_part *part = &d->parts[m->part_first];
  struct tu_span span = tu_drawing_step(d, part->send)->source;
  bool reduced = false;
  for (uint32_t i = 0; i < m->part_count; i++) reduced |= tu_drawing_step(d, part[i].recv)->kind == TU_RECV_REDUCE;
  return (struct note){.sent = m->sent,
                       .from = part->from,
                       .to = part->to,
                       .chunk = span.first,
                       .modulo = tu_plan_chunks(d->plan, part->from, (enum tu_buffer)span.buffer),
                       .late = m->taken - m->sent,
                       .lane = part->lane,
                       .buffer = span.buffer,
                       .chunks = span.count,
                       .parts = m->part_count,
                       .reduced = reduced,
                       .send = part->send};
}

static struct note *list_notes(const struct tu_drawing *d) {
  struct note *notes = tu_allocate(d->message_count, sizeof *notes);
  for (uint32_t m = 0; m < d->message_count; m++) notes[m] = note_of(d, &d->messages[m]);
  if (d->message_count > 1) qsort(notes, d->message_count, sizeof *notes, compare_by_sender);
  for (uint32_t m = 1; m < d->message_count; m++)
    if (notes[m].sent == notes[m - 1].sent && notes[m].from == notes[m - 1].from)
      notes[m].layer = notes[m - 1].layer + 1;
  if (d->message_count > 1) qsort(notes, d->message_count, sizeof *notes, compare_by_layer);
  return notes;
}

/* ---- runs ------------------------------------------------------------------------------------------------------- */

/* `count` messages: number i is from rank first.from + i * from, to rank (first.to + i * to) modulo the number of ranks,
 * and begins with chunk (first.chunk + i * chunk) modulo first.modulo. */
struct run {
  struct note first;
  uint32_t count, from, to, chunk;
};

static uint32_t ahead(uint32_t a, uint32_t b, uint32_t modulo) { return (b % modulo + modulo - a % modulo) % modulo; }

static bool same_kind(const struct note *a, const struct note *b) {
  return a->sent == b->sent && a->layer == b->layer && a->modulo == b->modulo && a->late == b->late &&
         a->lane == b->lane && a->buffer == b->buffer && a->chunks == b->chunks && a->parts == b->parts &&
         a->reduced == b->reduced;
}

/* Adds the message after `last` to the run if it continues the run; returns whether it does. The second message of a run
 * fixes the constant steps. */
static bool extend(struct run *run, const struct note *last, const struct note *note, uint32_t ranks) {
  if (!same_kind(&run->first, note)) return false;
  uint32_t from = note->from - last->from, to = ahead(last->to, note->to, ranks);
  uint32_t chunk = ahead(last->chunk, note->chunk, (uint32_t)tu_max(note->modulo, 1));
  if (run->count > 1 && (from != run->from || to != run->to || chunk != run->chunk)) return false;
  run->from = from;
  run->to = to;
  run->chunk = chunk;
  run->count++;
  return true;
}

static void print_run(const struct run *run, bool comma, struct tu_text *text) {
  const struct note *n = &run->first;
  tu_text_print(text, "%s[%u,%u,%u,%u,%u,%u,%u,%u,%u,%u,%u,%u,%u,%u]", comma ? "," : "", run->count, n->from, run->from,
                n->to, run->to, n->chunk, run->chunk, n->modulo, n->late, n->lane, n->buffer, n->chunks, n->parts,
                n->reduced);
}

static void print_messages(const struct tu_drawing *d, struct tu_text *text) {
  struct note *notes = list_notes(d);
  uint32_t i = 0, latest = 0;
  tu_text_print(text, "\"rounds\": [");
  for (uint32_t round = 1; round <= d->rounds; round++) {
    tu_text_print(text, round > 1 ? ",\n[" : "\n[");
    for (bool comma = false; i < d->message_count && notes[i].sent == round; comma = true) {
      struct run run = {.first = notes[i], .count = 1};
      latest = (uint32_t)tu_max(latest, notes[i].late);
      for (i++; i < d->message_count && extend(&run, &notes[i - 1], &notes[i], d->plan->ranks);) i++;
      print_run(&run, comma, text);
    }
    tu_text_print(text, "]");
  }
  tu_text_print(text, "],\n\"late\": %u,\n", latest);
  free(notes);
}

/* ---- results: after which round the output chunks of a rank have their final values ----------------------------- */

/* `chunks` output chunks of rank `rank` are written for the last time in round `round`. The plan is correct, so they have
 * their final values then. Chunks that no step writes are right from the start. */
struct result {
  uint32_t round, rank, chunks;
};

struct results {
  struct result *all;
  uint32_t count, capacity;
};

static int compare_results(const void *left, const void *right) {
  const struct result *a = left, *b = right;
  return a->round != b->round ? compare_numbers(a->round, b->round) : compare_numbers(a->rank, b->rank);
}

static int compare_rounds(const void *left, const void *right) {
  return compare_numbers(*(const uint32_t *)left, *(const uint32_t *)right);
}

/* Stores in `last` the round in which each cell of a rank is written for the last time. In a barrier, which writes
 * nothing, a rank has its result when all its steps have run. */
static void find_last_writes(const struct tu_drawing *d, uint32_t rank, uint32_t *last, uint32_t cells) {
  bool barrier = tu_collectives[d->plan->collective].promise == TU_NOTHING;
  for (uint32_t s = d->step_base[rank]; s < d->step_base[rank + 1]; s++) {
    const struct tu_step *step = tu_drawing_step(d, s);
    if (step->kind == TU_SEND && !barrier) continue;
    uint32_t first = 0, count = cells;
    if (!barrier) {
      first = tu_plan_cell(d->plan, rank, (enum tu_buffer)step->target.buffer, step->target.first);
      count = step->target.count;
    }
    for (uint32_t i = 0; i < count; i++) last[first + i] = (uint32_t)tu_max(last[first + i], d->round[s]);
  }
}

static void list_results(const struct tu_drawing *d, uint32_t rank, struct results *r) {
  uint32_t outs = tu_plan_chunks(d->plan, rank, TU_OUT), cells = tu_draw_cells(d->plan, rank);
  if (outs == 0) return;
  uint32_t *last = tu_allocate(cells, sizeof *last);
  find_last_writes(d, rank, last, cells);
  uint32_t *out = last + tu_plan_cell(d->plan, rank, TU_OUT, 0);
  qsort(out, outs, sizeof *out, compare_rounds);
  for (uint32_t i = 0, end; i < outs; i = end) {
    for (end = i + 1; end < outs && out[end] == out[i];) end++;
    r->all = tu_grow(r->all, r->count, &r->capacity, sizeof *r->all);
    r->all[r->count++] = (struct result){out[i], rank, end - i};
  }
  free(last);
}

/* Prints the results of each round as runs: number of ranks, first rank, distance between ranks, chunks per rank. */
static void print_results(const struct tu_drawing *d, struct tu_text *text) {
  struct results r = {0};
  for (uint32_t rank = 0; rank < d->plan->ranks; rank++) list_results(d, rank, &r);
  if (r.count > 1) qsort(r.all, r.count, sizeof *r.all, compare_results);
  uint32_t i = 0;
  tu_text_print(text, "\"results\": [");
  for (uint32_t round = 0; round <= d->rounds; round++) {
    tu_text_print(text, round > 0 ? ",\n[" : "\n[");
    for (bool comma = false; i < r.count && r.all[i].round == round; comma = true) {
      uint32_t first = i++, apart = 1;
      for (; i < r.count && r.all[i].round == round && r.all[i].chunks == r.all[first].chunks; i++) {
        uint32_t distance = r.all[i].rank - r.all[i - 1].rank;
        if (i == first + 1) apart = distance;
        if (distance != apart) break;
      }
      tu_text_print(text, "%s[%u,%u,%u,%u]", comma ? "," : "", i - first, r.all[first].rank, apart,
                    r.all[first].chunks);
    }
    tu_text_print(text, "]");
  }
  tu_text_print(text, "],\n");
  free(r.all);
}

/* ---- the page --------------------------------------------------------------------------------------------------- */

/* Prints the numbers of output chunks as runs: number of ranks, chunks per rank. */
static void print_chunks(const struct tu_plan *plan, struct tu_text *text) {
  tu_text_print(text, "\"chunks\": [");
  for (uint32_t rank = 0, end; rank < plan->ranks; rank = end) {
    uint32_t chunks = tu_plan_chunks(plan, rank, TU_OUT);
    for (end = rank + 1; end < plan->ranks && tu_plan_chunks(plan, end, TU_OUT) == chunks;) end++;
    tu_text_print(text, "%s[%u,%u]", rank ? "," : "", end - rank, chunks);
  }
  tu_text_print(text, "],\n");
}

static void print_data(const struct tu_draw *what, const struct tu_drawing *d, struct tu_text *text) {
  const struct tu_plan *plan = d->plan;
  bool barrier = tu_collectives[plan->collective].promise == TU_NOTHING;
  tu_text_print(text, "{\"ranks\": %u, \"barrier\": %s, \"buffers\": [\"%s\",\"%s\",\"%s\"],\n\"columns\": [",
                plan->ranks, barrier ? "true" : "false", tu_buffer_name(TU_IN), tu_buffer_name(TU_OUT),
                tu_buffer_name(TU_TMP));
  for (uint32_t rank = 0; rank < plan->ranks && what->column_of; rank++)
    tu_text_print(text, rank ? ",%u" : "%u", what->column_of[rank]);
  tu_text_print(text, "],\n");
  print_messages(d, text);
  print_results(d, text);
  print_chunks(plan, text);
  tu_text_print(text, "\"steps\": %u}\n", d->rounds > 0 ? d->rounds : tu_drawing_steps(d) > 0);
}

static void print_words(const struct tu_draw *what, const struct tu_drawing *d, struct tu_text *text) {
  tu_text_print(text, "<h1>%s.", tu_collectives[d->plan->collective].name);
  tu_draw_escape(d->plan->algorithm, text);
  tu_text_print(text, "</h1>\n");
  if (what->summary) {
    tu_text_print(text, "<p>");
    tu_draw_escape(what->summary, text);
    tu_text_print(text, "</p>\n");
  }
  tu_text_print(text, "<p>");
  tu_draw_summary(d, text);
  tu_text_print(text, "</p>\n");
}

void tu_draw_window_html(const struct tu_draw *what, const struct tu_drawing *d, struct tu_text *text) {
  const char *rest = tu_draw_page_up_to(tu_draw_window_page, "<!--words-->", text);
  print_words(what, d, text);
  rest = tu_draw_page_up_to(rest, "<!--style-->", text);
  tu_text_print(text, "%s", tu_draw_style);
  tu_draw_palette(2, text);
  rest = tu_draw_page_up_to(rest, "<!--data-->", text);
  print_data(what, d, text);
  rest = tu_draw_page_up_to(rest, "<!--clock-->", text);
  tu_text_print(text, "%s%s", tu_draw_clock, rest);
}
