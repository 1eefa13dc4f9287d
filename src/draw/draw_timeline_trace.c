/* draw_timeline_trace.c: prints a timeline as Chrome-trace JSON ("Trace Event Format"): complete events, in rows
 * (threads) without overlaps, and flow events along the critical path. Times are rounded to nanoseconds and written in
 * microseconds. */
#include <math.h>
#include <stdlib.h>

#include "draw/draw_timeline_internal.h"

enum { RANKS = 1, LINKS, CALLS }; /* process ids in the trace */

struct trace {
  const struct tu_draw_timeline *what;
  struct tu_text *text;
  struct tu_draw_rows rows; /* rows (threads of the trace) of the current rank or port */
  uint32_t first_row;       /* thread id of the first row */
  uint32_t threads;         /* number of threads of the current process so far */
  const char *comma;
  /* [deeds]: position of each deed (message or reduction) on the critical path, counted from 1; 0: not on the path */
  uint32_t *position;
  uint32_t *thread; /* [deeds]: thread id of each deed (message or reduction) in the trace */
};

static double nanoseconds(double seconds) { return nearbyint(seconds * 1e9); }

static void print_comma(struct trace *t) {
  tu_text_print(t->text, "%s\n", t->comma);
  t->comma = ",";
}

static void print_process(struct trace *t, uint32_t process, const char *name) {
  print_comma(t);
  tu_text_print(t->text, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"args\":{\"name\":\"%s\"}},\n", process,
                name);
  tu_text_print(t->text, "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%u,\"args\":{\"sort_index\":%u}}",
                process, process % CALLS); /* calls come first */
  t->threads = 0;
}

static void begin_rows(struct trace *t) {
  t->rows.count = 0;
  t->first_row = t->threads;
}

/* Returns a thread (row of the trace) that is free from `begin` to `end`. A thread is free again at the time when
 * its last event ends. *is_new: true if the thread is new and needs a name. */
static uint32_t take_thread(struct trace *t, double begin, double end, bool *is_new) {
  uint32_t before = t->rows.count, row = tu_draw_rows_take(&t->rows, nanoseconds(begin), nanoseconds(end));
  *is_new = t->rows.count > before;
  if (*is_new) t->threads++;
  return t->first_row + row;
}

/* Prints the beginning of the metadata that name a thread. The caller prints the name and the closing "\"}}". */
static void print_thread(struct trace *t, uint32_t process, uint32_t thread) {
  print_comma(t);
  tu_text_print(t->text,
                "{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":%u,\"tid\":%u,\"args\":{\"sort_index\":%u}},\n",
                process, thread, thread);
  tu_text_print(t->text, "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":\"", process,
                thread);
}

static void print_times(struct trace *t, uint32_t process, uint32_t thread, double begin, double end) {
  double from = nanoseconds(begin), until = nanoseconds(end);
  tu_text_print(t->text, "\"pid\":%u,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f", process, thread, from / 1e3,
                fmax(until - from, 0) / 1e3);
}

/* ---- calls ---- */

static void print_place(const struct trace *t, uint32_t rank) {
  const struct tu_cluster *c = t->what->cluster.cluster;
  tu_text_print(t->text, "rank %u (", rank);
  if (t->what->places) tu_draw_json_part(t->what->places[rank], t->text);
  else tu_text_print(t->text, "chip %s", tu_node_name(c, tu_draw_chip(t->what, rank)).chars);
  tu_text_print(t->text, ")");
}

/* Prints calls, and waits in rows of their own. */
static void print_calls(struct trace *t) {
  const struct tu_timeline *line = t->what->timeline;
  if (line->call_count == 0) return;
  print_process(t, CALLS, "calls");
  for (uint32_t i = 0, next; i < line->call_count; i = next) {
    for (next = i; next < line->call_count && line->calls[next].rank == line->calls[i].rank;) next++;
    for (int waits = 0; waits < 2; waits++) {
      begin_rows(t);
      for (uint32_t k = i; k < next; k++) {
        const struct tu_timed_call *c = &line->calls[k];
        bool is_new;
        if ((c->awaited != TU_NONE) != waits) continue;
        const uint32_t thread = take_thread(t, c->begin, c->end, &is_new);
        if (is_new) {
          print_thread(t, CALLS, thread);
          print_place(t, c->rank);
          tu_text_print(t->text, "%s\"}}", waits ? ": waits" : "");
        }
        print_comma(t);
        tu_text_print(t->text, "{\"ph\":\"X\",\"cat\":\"%s\",\"name\":", waits ? "wait" : "call");
        if (waits) tu_text_print(t->text, "\"waits for %u\"", c->awaited);
        else tu_draw_json_string(c->name, t->text);
        tu_text_print(t->text, ",");
        print_times(t, CALLS, thread, c->begin, c->end);
        tu_text_print(t->text, "}");
      }
    }
  }
}

/* ---- ranks ---- */

static void print_deed(struct trace *t, const struct tu_deed *d, uint32_t thread, uint32_t position) {
  print_comma(t);
  tu_text_print(t->text, "{\"ph\":\"X\",\"name\":\"");
  tu_draw_deed_name(d, t->text);
  tu_text_print(t->text, "\",\"cat\":\"%s%s\",", d->to == TU_NONE ? "reduction" : "message",
                position > 0 ? ",critical" : "");
  print_times(t, RANKS, thread, d->begin, d->end);
  tu_text_print(t->text, ",\"args\":{\"bytes\":%.15g,\"from\":%u", d->bytes, d->rank);
  if (d->to != TU_NONE) tu_text_print(t->text, ",\"to\":%u", d->to);
  tu_text_print(t->text, ",\"begin_s\":%.15g,\"end_s\":%.15g", d->begin, d->end);
  if (position > 0) tu_text_print(t->text, ",\"critical\":%u", position);
  tu_text_print(t->text, position > 0 ? "},\"cname\":\"terrible\"}" : "}}");
}

static void print_ranks(struct trace *t) {
  const struct tu_timeline *line = t->what->timeline;
  uint32_t *order = tu_draw_deed_order(line);
  print_process(t, RANKS, "ranks");
  for (uint32_t i = 0; i < line->deed_count; i++) {
    const struct tu_deed *d = &line->deeds[order[i]], *before = i > 0 ? &line->deeds[order[i - 1]] : NULL;
    if (!before || before->rank != d->rank || (before->to == TU_NONE) != (d->to == TU_NONE)) begin_rows(t);
    bool is_new;
    uint32_t thread = take_thread(t, d->begin, d->end, &is_new);
    if (is_new) {
      print_thread(t, RANKS, thread);
      print_place(t, d->rank);
      if (d->to == TU_NONE) tu_text_print(t->text, line->calls ? ": work" : ": reductions");
      if (t->rows.count > 1) tu_text_print(t->text, " %u", t->rows.count);
      tu_text_print(t->text, "\"}}");
    }
    t->thread[order[i]] = thread;
    print_deed(t, d, thread, t->position[order[i]]);
  }
  free(order);
}

/* Prints a flow arrow from each event of the critical path to the next event. The arrow starts 1 ns before the end of
 * its event, so that viewers attach it to the event. */
static void print_flows(struct trace *t, const uint32_t path[], uint32_t count) {
  const struct tu_deed *deeds = t->what->timeline->deeds;
  for (uint32_t k = 0; k + 1 < count; k++) {
    const struct tu_deed *a = &deeds[path[k]], *b = &deeds[path[k + 1]];
    double from = fmax(nanoseconds(a->begin), nanoseconds(a->end) - 1), to = fmax(nanoseconds(b->begin), from);
    print_comma(t);
    tu_text_print(t->text,
                  "{\"ph\":\"s\",\"name\":\"critical path\",\"cat\":\"critical\",\"id\":%u,\"pid\":%d,\"tid\":%u,"
                  "\"ts\":%.3f},\n",
                  k + 1, RANKS, t->thread[path[k]], from / 1e3);
    tu_text_print(t->text,
                  "{\"ph\":\"f\",\"bp\":\"e\",\"name\":\"critical path\",\"cat\":\"critical\",\"id\":%u,\"pid\":%d,"
                  "\"tid\":%u,\"ts\":%.3f}",
                  k + 1, RANKS, t->thread[path[k + 1]], to / 1e3);
  }
}

/* ---- links ---- */

static void print_links(struct trace *t) {
  const struct tu_timeline *line = t->what->timeline;
  uint32_t *order = tu_draw_crossing_order(line);
  print_process(t, LINKS, "links");
  for (uint32_t i = 0; i < line->crossing_count; i++) {
    const struct tu_crossing *c = &line->crossings[order[i]];
    if (i == 0 || line->crossings[order[i - 1]].port != c->port) begin_rows(t);
    bool is_new;
    uint32_t thread = take_thread(t, c->begin, c->end, &is_new);
    if (is_new) {
      print_thread(t, LINKS, thread);
      tu_draw_port_name(t->what->cluster.cluster, c->port, t->text);
      if (t->rows.count > 1) tu_text_print(t->text, " (%u)", t->rows.count);
      tu_text_print(t->text, "\"}}");
    }
    print_comma(t);
    tu_text_print(t->text, "{\"ph\":\"X\",\"name\":\"%u to %u\",\"cat\":\"crossing\",", c->from, c->to);
    print_times(t, LINKS, thread, c->begin, c->end);
    tu_text_print(t->text, ",\"args\":{\"bytes\":%.15g,\"from\":%u,\"to\":%u}}", c->bytes, c->from, c->to);
  }
  free(order);
}

void tu_draw_timeline_trace(const struct tu_draw_timeline *what, struct tu_text *text) {
  const struct tu_timeline *line = what->timeline;
  struct trace t = {.what = what, .text = text, .comma = ""};
  uint32_t count, *path = tu_draw_critical(line, &count);
  t.position = tu_allocate(line->deed_count, sizeof *t.position);
  t.thread = tu_allocate(line->deed_count, sizeof *t.thread);
  for (uint32_t k = 0; k < count; k++) t.position[path[k]] = k + 1;
  tu_text_print(text, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"title\":");
  tu_draw_json_string(what->cluster.title ? what->cluster.title : what->cluster.cluster->name, text);
  tu_text_print(text, ",\"end_s\":%.15g},\"traceEvents\":[", tu_draw_timeline_end(line));
  print_calls(&t);
  print_ranks(&t);
  print_flows(&t, path, count);
  print_links(&t);
  tu_text_print(text, "\n]}\n");
  free(t.rows.free_at);
  free(t.position);
  free(t.thread);
  free(path);
}
