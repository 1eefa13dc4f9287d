/* draw_html.c: one page, without a network: the picture, what every chunk holds after every round, and a script.
 * The page itself is page.html, which the build makes a string of; here its gaps are filled. */
#include <stdlib.h>
#include <string.h>

#include "draw/draw_parts.h"

extern const char tu_draw_page[]; /* made by CMake */

/* All different values that occur, each once: a value's number is its place. */
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

/* -1: nothing */
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
        "\"heading\": \"Who knows of whom\",\n\"reading\": \"A bar has a place for each rank: coloured, it is "
        "known to have come. A bold frame: all have.\",\n\"hint\": \"Rest on a field, or move to it with Tab, "
        "to read of whom its rank knows and to see which messages brought word.\"");
    return;
  }
  tu_text_print(
      text,
      "\"heading\": \"What the chunks hold\",\n\"reading\": \"A bar has a place for each rank: coloured, %s. "
      "A bold frame: all that the collective promises.\",\n\"hint\": \"Rest on a chunk, or move to it with Tab, "
      "to read whose contributions it holds and to see which messages carried them.\"",
      tu_reduces(plan->collective) ? "its contribution is in" : "the chunk is from there");
}

static void print_data(const struct tu_drawing *d, const struct tu_draw_values *v, struct tu_text *text) {
  const struct tu_plan *plan = d->plan;
  struct catalogue c = {0};
  collect(&c, d, v);
  /* Local steps alone take a step of time as well. */
  uint32_t steps = d->rounds > 0 ? d->rounds : tu_drawing_steps(d) > 0, keys = tu_draw_keys(plan);
  tu_text_print(text, "{\"ranks\": %u, \"steps\": %u, \"colours\": [", plan->ranks, steps);
  for (uint32_t i = 0; i < keys; i++) tu_text_print(text, i ? ",\"%s\"" : "\"%s\"", tu_draw_colour(i, keys).chars);
  tu_text_print(text, "],\n");
  print_values(&c, plan, text);
  print_memory(&c, plan, text);
  print_events(&c, d, v, text);
  print_words(plan, text);
  tu_text_print(text, "}\n");
  free(c.values);
}

/* ---- the page --------------------------------------------------------------------------------------------------- */

/* Prints the page up to a gap and returns what follows it. */
static const char *print_up_to(const char *page, const char *gap, struct tu_text *text) {
  const char *found = strstr(page, gap);
  tu_assert(found);
  tu_text_print(text, "%.*s", (int)(found - page), page);
  return found + strlen(gap);
}

void tu_draw_html(const struct tu_draw *what, struct tu_text *text) {
  struct tu_drawing d;
  struct tu_draw_values v;
  tu_drawing_init(&d, what->plan);
  d.column_of = what->column_of;
  bool drawn = what->plan->ranks <= TU_DRAW_RANKS_MAX;
  if (drawn) tu_draw_values_init(&v, &d);
  const char *rest = print_up_to(tu_draw_page, "<!--name-->", text);
  tu_text_print(text, "%s.", tu_collectives[what->plan->collective].name);
  tu_draw_escape(what->plan->algorithm, text);
  tu_text_print(text, ", %u ranks", what->plan->ranks);
  if (drawn) {
    rest = print_up_to(rest, "<!--picture-->", text);
    tu_draw_picture(what, &d, &v, text);
    rest = print_up_to(rest, "<!--data-->", text);
    print_data(&d, &v, text);
    tu_text_print(text, "%s", rest);
    tu_draw_values_fini(&v);
  } else {
    tu_text_print(text, "</title></head><body>\n");
    tu_draw_picture(what, &d, NULL, text);
    tu_text_print(text, "</body></html>\n");
  }
  tu_drawing_fini(&d);
}
