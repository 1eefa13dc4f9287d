/* draw_html.c: prints a plan as one self-contained page: the picture, the value of every chunk after every round, and a
 * script. The build turns the template page.html into a string; the functions here fill its gaps. */
#include <stdlib.h>

#include "draw/draw_internal.h"
#include "draw/draw_page.h"
#include "draw/draw_window.h"

extern const char tu_draw_page[]; /* template of the page; CMake makes this string from the file page.html */

/* The distinct values of chunks in the plan. The number of a value is its index in `values`. */
struct catalogue {
  struct tu_draw_value *values;
  uint32_t count, capacity;
};

static int compare_values(const void *left, const void *right) {
  const struct tu_draw_value *a = left, *b = right;
  if (a->chunk != b->chunk) return a->chunk < b->chunk ? -1 : 1;
  return a->ranks < b->ranks ? -1 : a->ranks > b->ranks;
}

static void note_value(struct catalogue *c, struct tu_draw_value value) {
  if (!value.ranks) return;
  c->values = tu_grow(c->values, c->count, &c->capacity, sizeof *c->values);
  c->values[c->count++] = value;
}

static void collect(struct catalogue *c, const struct tu_drawing *d, const struct tu_draw_values *v) {
  for (uint32_t r = 0; r < d->plan->ranks; r++) {
    uint32_t cells = tu_draw_cells(d->plan, r), outs = tu_plan_chunks(d->plan, r, TU_OUT);
    for (uint32_t i = 0; i < cells; i++) note_value(c, tu_draw_initial(d->plan, r, i));
    for (uint32_t i = 0; i < outs; i++) note_value(c, tu_draw_promised(d->plan, r, i));
  }
  for (uint32_t i = 0; i < v->write_count; i++) note_value(c, v->writes[i].value);
  for (uint32_t i = 0; i < v->sent_first[tu_drawing_steps(d)]; i++) note_value(c, v->sent[i]);
  if (c->values) qsort(c->values, c->count, sizeof *c->values, compare_values);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < c->count; i++)
    if (kept == 0 || compare_values(&c->values[kept - 1], &c->values[i]) != 0) c->values[kept++] = c->values[i];
  c->count = kept;
}

/* Returns the number of a value (its index in the catalogue); -1: the chunk is empty. */
static int32_t number_of(const struct catalogue *c, struct tu_draw_value value) {
  if (!value.ranks || !c->values) return -1;
  const struct tu_draw_value *found = bsearch(&value, c->values, c->count, sizeof value, compare_values);
  tu_assert(found);
  return (int32_t)(found - c->values);
}

/* ---- the data of the script ------------------------------------------------------------------------------------- */

static void print_values(const struct catalogue *c, const struct tu_plan *plan, struct tu_text *text) {
  tu_text_print(text, "\"values\": [");
  for (uint32_t i = 0; i < c->count; i++) {
    struct tu_draw_value value = c->values[i];
    tu_text_print(text, "%s\n{\"chunk\": %u, \"key\": %u, \"label\": \"", i ? "," : "", value.chunk,
                  tu_draw_key(plan, value));
    tu_draw_label(plan, &value, 1, text);
    tu_text_print(text, "\", \"text\": \"");
    tu_draw_say(plan, value, text);
    tu_text_print(text, "\", \"ranks\": [");
    const char *comma = "";
    for (uint32_t rank = 0; rank < plan->ranks; rank++) {
      if (!(value.ranks >> rank & 1)) continue;
      tu_text_print(text, "%s%u", comma, rank);
      comma = ",";
    }
    tu_text_print(text, "]}");
  }
  tu_text_print(text, "],\n");
}

static void print_cells(const struct tu_plan *plan, uint32_t rank, enum tu_buffer buffer, struct tu_text *text) {
  uint32_t chunks = tu_plan_chunks(plan, rank, buffer);
  for (uint32_t i = 0; i < chunks; i++) tu_text_print(text, i ? ",%u" : "%u", tu_plan_cell(plan, rank, buffer, i));
}

static void print_memory(const struct catalogue *c, const struct tu_plan *plan, struct tu_text *text) {
  tu_text_print(text, "\"memory\": [");
  for (uint32_t r = 0; r < plan->ranks; r++) {
    uint32_t outs = tu_plan_chunks(plan, r, TU_OUT), cells = tu_draw_cells(plan, r);
    tu_text_print(text, r ? ",\n{\"out\": [" : "\n{\"out\": [");
    print_cells(plan, r, TU_OUT, text);
    tu_text_print(text, "], \"tmp\": [");
    print_cells(plan, r, TU_TMP, text);
    tu_text_print(text, "], \"promised\": [");
    for (uint32_t i = 0; i < outs; i++)
      tu_text_print(text, i ? ",%d" : "%d", (int)number_of(c, tu_draw_promised(plan, r, i)));
    tu_text_print(text, "], \"cells\": [");
    for (uint32_t i = 0; i < cells; i++)
      tu_text_print(text, i ? ",%d" : "%d", (int)number_of(c, tu_draw_initial(plan, r, i)));
    tu_text_print(text, "]}");
  }
  tu_text_print(text, "],\n");
}

static void print_events(const struct catalogue *c, const struct tu_drawing *d, const struct tu_draw_values *v,
                         struct tu_text *text) {
  tu_text_print(text, "\"writes\": [");
  for (uint32_t i = 0; i < v->write_count; i++) {
    const struct tu_draw_write *w = &v->writes[i];
    tu_text_print(text, "%s[%u,%u,%u,%d]", i ? "," : "", w->round, w->rank, w->cell, (int)number_of(c, w->value));
  }
  tu_text_print(text, "],\n\"messages\": [");
  for (uint32_t m = 0; m < d->message_count; m++) {
    uint32_t count;
    struct tu_draw_value *values = tu_draw_carried(d, v, m, &count);
    tu_text_print(text, m ? ",[" : "[");
    for (uint32_t i = 0; i < count; i++) tu_text_print(text, i ? ",%d" : "%d", (int)number_of(c, values[i]));
    tu_text_print(text, "]");
    free(values);
  }
  tu_text_print(text, "],\n");
}

static void print_words(const struct tu_plan *plan, struct tu_text *text) {
  if (tu_collectives[plan->collective].promise == TU_NOTHING) {
    tu_text_print(
        text,
        "\"heading\": \"Known arrivals\",\n\"reading\": \"A bar has one segment per rank: it is coloured if the rank "
        "is known to have arrived. A bold frame: all ranks have arrived.\",\n\"hint\": \"Rest on a field, or move "
        "to it with Tab, to read which arrivals its rank knows and to see which messages announced them.\"");
    return;
  }
  tu_text_print(
      text,
      "\"heading\": \"Contents of the chunks\",\n\"reading\": \"A bar has one segment per rank: it is coloured if %s. "
      "A bold frame: the chunk holds its final value.\",\n\"hint\": \"Rest on a chunk, or move to it with Tab, "
      "to read which contributions it holds and to see which messages carried them.\"",
      tu_reduces(plan->collective) ? "the chunk contains its contribution" : "the chunk comes from it");
}

static void print_data(const struct tu_drawing *d, const struct tu_draw_values *v, struct tu_text *text) {
  const struct tu_plan *plan = d->plan;
  struct catalogue c = {0};
  collect(&c, d, v);
  /* A plan with only local steps has no rounds, but its page still shows one step of time. */
  uint32_t steps = d->rounds > 0 ? d->rounds : tu_drawing_steps(d) > 0;
  tu_text_print(text, "{\"ranks\": %u, \"steps\": %u,\n", plan->ranks, steps);
  print_values(&c, plan, text);
  print_memory(&c, plan, text);
  print_events(&c, d, v, text);
  print_words(plan, text);
  tu_text_print(text, "}\n");
  free(c.values);
}

/* ---- the page --------------------------------------------------------------------------------------------------- */

static void print_page(const struct tu_draw *what, const struct tu_drawing *d, struct tu_text *text) {
  struct tu_draw_values v;
  tu_draw_values_init(&v, d);
  const char *rest = tu_draw_page_up_to(tu_draw_page, "<!--picture-->", text);
  tu_draw_picture(what, d, &v, text);
  rest = tu_draw_page_up_to(rest, "<!--data-->", text);
  print_data(d, &v, text);
  rest = tu_draw_page_up_to(rest, "<!--clock-->", text);
  tu_text_print(text, "%s%s", tu_draw_clock, rest);
  tu_draw_values_fini(&v);
}

void tu_draw_html(const struct tu_draw *what, struct tu_text *text) {
  struct tu_drawing d;
  struct tu_text name = {0};
  tu_drawing_init(&d, what->plan);
  d.column_of = what->column_of;
  tu_text_print(&name, "%s.%s, %u ranks", tu_collectives[what->plan->collective].name, what->plan->algorithm,
                what->plan->ranks);
  tu_draw_page_head(name.chars, text);
  if (what->plan->ranks <= TU_DRAW_RANKS_MAX) print_page(what, &d, text);
  else tu_draw_window_html(what, &d, text);
  tu_text_fini(&name);
  tu_drawing_fini(&d);
}
