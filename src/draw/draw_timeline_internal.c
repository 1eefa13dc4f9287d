/* draw_timeline_internal.c: sorts a timeline by port, by rank and along the critical path, and assigns rows. */
#include "draw/draw_timeline_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double tu_draw_timeline_end(const struct tu_timeline *t) {
  double end = t->end;
  for (uint32_t i = 0; i < t->crossing_count; i++) end = fmax(end, t->crossings[i].end);
  for (uint32_t i = 0; i < t->deed_count; i++) end = fmax(end, t->deeds[i].end);
  for (uint32_t i = 0; i < t->call_count; i++) end = fmax(end, t->calls[i].end);
  tu_assert(isfinite(end));
  return end;
}

/* ---- orders ---- */

static int compare_numbers(uint32_t a, uint32_t b) { return a < b ? -1 : a > b; }
static int compare_times(double a, double b) { return a < b ? -1 : a > b; }

static int compare_crossings(const void *a, const void *b, void *context) {
  const struct tu_crossing *all = context, *x = &all[*(const uint32_t *)a], *y = &all[*(const uint32_t *)b];
  if (x->port != y->port) return compare_numbers(x->port, y->port);
  if (x->begin != y->begin) return compare_times(x->begin, y->begin);
  return compare_numbers(*(const uint32_t *)a, *(const uint32_t *)b);
}

static int compare_deeds(const void *a, const void *b, void *context) {
  const struct tu_deed *all = context, *x = &all[*(const uint32_t *)a], *y = &all[*(const uint32_t *)b];
  if (x->rank != y->rank) return compare_numbers(x->rank, y->rank);
  if ((x->to == TU_NONE) != (y->to == TU_NONE)) return x->to == TU_NONE ? 1 : -1;
  if (x->begin != y->begin) return compare_times(x->begin, y->begin);
  return compare_numbers(*(const uint32_t *)a, *(const uint32_t *)b);
}

static uint32_t *sorted(uint32_t count, int (*compare)(const void *, const void *, void *), void *context) {
  uint32_t *order = tu_allocate(count, sizeof *order);
  for (uint32_t i = 0; i < count; i++) order[i] = i;
  if (count > 1) qsort_r(order, count, sizeof *order, compare, context);
  return order;
}

uint32_t *tu_draw_crossing_order(const struct tu_timeline *t) {
  return sorted(t->crossing_count, compare_crossings, t->crossings);
}

uint32_t *tu_draw_deed_order(const struct tu_timeline *t) { return sorted(t->deed_count, compare_deeds, t->deeds); }

uint32_t *tu_draw_critical(const struct tu_timeline *t, uint32_t *count) {
  *count = 0;
  for (uint32_t d = t->last; d != TU_NONE; d = t->deeds[d].cause) {
    /* a deed (message or reduction) is never its own cause, however indirect, so the chain has at most deed_count
     * members */
    tu_assert(d < t->deed_count && *count < t->deed_count);
    ++*count;
  }
  uint32_t *path = tu_allocate(*count, sizeof *path), left = *count;
  for (uint32_t d = t->last; d != TU_NONE; d = t->deeds[d].cause) path[--left] = d;
  return path;
}

void tu_draw_deed_name(const struct tu_deed *d, struct tu_text *t) {
  switch (d->kind) {
    case TU_DEED_MESSAGE: tu_text_print(t, "to %u", d->to); break;
    case TU_DEED_ROOM: tu_text_print(t, "waits until %u has taken", d->to); break;
    case TU_DEED_REDUCTION: tu_text_print(t, "reduce"); break;
    case TU_DEED_COPY: tu_text_print(t, "copy"); break;
    case TU_DEED_SEND: tu_text_print(t, "send"); break;
    case TU_DEED_TAKE: tu_text_print(t, "take"); break;
    case TU_DEED_OUTSIDE: tu_text_print(t, "outside calls"); break;
    case TU_DEED_PAUSE: tu_text_print(t, "pause"); break;
  }
}

uint32_t tu_draw_rows_take(struct tu_draw_rows *rows, double begin, double end) {
  uint32_t row = 0;
  while (row < rows->count && rows->free_at[row] > begin) row++;
  if (row == rows->count) {
    rows->free_at = tu_grow(rows->free_at, rows->count, &rows->capacity, sizeof *rows->free_at);
    rows->count++;
  }
  rows->free_at[row] = end;
  return row;
}

/* ---- strings ---- */

/* Returns the length in bytes of the UTF-8 character at `c`; 0: invalid UTF-8. */
static uint32_t utf8_bytes(const unsigned char *c) {
  if (c[0] < 0x80) return 1;
  uint32_t more = c[0] >= 0xc2 && c[0] < 0xe0   ? 1
                  : c[0] >= 0xe0 && c[0] < 0xf0 ? 2
                  : c[0] >= 0xf0 && c[0] < 0xf5 ? 3
                                                : 0;
  if (more == 0) return 0;
  for (uint32_t i = 1; i <= more; i++)
    if ((c[i] & 0xc0) != 0x80) return 0;
  bool overlong = (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xf0 && c[1] < 0x90);
  bool surrogate = c[0] == 0xed && c[1] >= 0xa0, beyond = c[0] == 0xf4 && c[1] >= 0x90;
  return overlong || surrogate || beyond ? 0 : more + 1;
}

void tu_draw_json_part(const char *chars, struct tu_text *t) {
  while (*chars) {
    uint32_t bytes = utf8_bytes((const unsigned char *)chars);
    unsigned char c = (unsigned char)*chars;
    if (bytes == 0) tu_text_print(t, "\\ufffd");
    else if (c == '"' || c == '\\') tu_text_print(t, "\\%c", c);
    else if (c < 0x20 || c == '<' || c == '>' || c == '&' || c == 0x7f) tu_text_print(t, "\\u%04x", c);
    else tu_text_print(t, "%.*s", (int)bytes, chars);
    chars += bytes > 0 ? bytes : 1;
  }
}

void tu_draw_json_string(const char *chars, struct tu_text *t) {
  tu_text_print(t, "\"");
  tu_draw_json_part(chars, t);
  tu_text_print(t, "\"");
}

void tu_draw_port_name(const struct tu_cluster *c, uint32_t port, struct tu_text *t) {
  tu_assert(port / 2 < c->link_count);
  const struct tu_cluster_link_end *near = &c->links[port / 2].ends[port % 2],
                                   *far = &c->links[port / 2].ends[1 - port % 2];
  tu_text_print(t, "%s.%u to %s.%u", tu_node_name(c, near->node).chars, near->channel, tu_node_name(c, far->node).chars,
                far->channel);
}
