/* draw_layout.c: computes the positions of bands, arrows and labels in the picture of a plan. */
#include "draw/draw_layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double tu_draw_text_width(const char *chars, double font_size) {
  uint32_t letters = 0;
  /* counts characters, not bytes: the continuation bytes of UTF-8 are skipped */
  for (; *chars; chars++) letters += (*chars & 0xc0) != 0x80;
  return letters * font_size * 0.66;
}

/* ---- arrows ----------------------------------------------------------------------------------------------------- */

struct sorted {
  uint32_t message, sent, send, to;
  uint8_t lane;
};

static int compare_sorted(const void *left, const void *right) {
  const struct sorted *a = left, *b = right;
  if (a->sent != b->sent) return a->sent < b->sent ? -1 : 1;
  if (a->lane != b->lane) return a->lane < b->lane ? -1 : 1;
  if (a->send != b->send) return a->send < b->send ? -1 : 1;
  return a->to < b->to ? -1 : a->to > b->to;
}

static void list_arrows(struct tu_draw_layout *l) {
  const struct tu_drawing *d = l->d;
  struct sorted *sorted = tu_allocate(d->message_count, sizeof *sorted);
  for (uint32_t m = 0; m < d->message_count; m++) {
    const struct tu_draw_part *p = &d->parts[d->messages[m].part_first];
    sorted[m] = (struct sorted){m, d->messages[m].sent, p->send, p->to, p->lane};
  }
  if (d->message_count > 1) qsort(sorted, d->message_count, sizeof *sorted, compare_sorted);
  l->arrows = tu_allocate(d->message_count, sizeof *l->arrows);
  for (uint32_t i = 0; i < d->message_count; i++) {
    const struct tu_draw_part *p = &d->parts[d->messages[sorted[i].message].part_first];
    l->arrows[i].message = sorted[i].message;
    l->arrows[i].columns = (int32_t)tu_draw_column(l, p->to) - (int32_t)tu_draw_column(l, p->from);
    l->bands[sorted[i].sent].messages++;
  }
  free(sorted);
}

/* Returns how many columns an arrow goes to the right if the columns form a ring, in which the first column follows the
 * last one. There are two ways around the ring, and the shorter one is returned. Negative: the arrow goes to the
 * left. */
static int32_t around(const struct tu_draw_layout *l, const struct tu_draw_arrow *a) {
  int32_t ranks = (int32_t)l->d->plan->ranks, ahead = (a->columns + ranks) % ranks;
  return ahead <= ranks / 2 ? ahead : ahead - ranks;
}

/* Decides which of the arrows `first` to `end` - 1, all of one round and lane, leave the picture at one edge and
 * continue at the other. This is done if every rank sends one message over the same distance around the ring of ranks.
 * Otherwise some of these arrows would cross the whole picture. */
static void wrap_shifts(struct tu_draw_layout *l, uint32_t first, uint32_t end) {
  uint32_t ranks = l->d->plan->ranks;
  uint32_t *shifts = tu_allocate(ranks + 1, sizeof *shifts);
  for (int pass = 0; pass < 2; pass++) {
    for (uint32_t i = first; i < end; i++) {
      struct tu_draw_arrow *a = &l->arrows[i];
      const struct tu_draw_message *m = &l->d->messages[a->message];
      int32_t shift = around(l, a);
      uint32_t index = (uint32_t)((shift + (int32_t)ranks) % (int32_t)ranks);
      bool alone = tu_drawing_step(l->d, tu_draw_first_part(l, a)->send)->peer_count == 1 && m->sent == m->taken;
      if (pass == 0) shifts[index] += alone;
      if (pass == 0 || !alone || shifts[index] != ranks || 2 * index == ranks || shift == a->columns) continue;
      a->columns = shift;
      a->wraps = true;
      l->bands[m->sent].wraps = true;
    }
  }
  free(shifts);
}

static bool same_turn(const struct tu_draw_layout *l, uint32_t a, uint32_t b) {
  return l->d->messages[l->arrows[a].message].sent == l->d->messages[l->arrows[b].message].sent &&
         tu_draw_first_part(l, &l->arrows[a])->lane == tu_draw_first_part(l, &l->arrows[b])->lane;
}

static void bend_arrows(struct tu_draw_layout *l) {
  for (uint32_t first = 0, end; first < l->d->message_count; first = end) {
    for (end = first + 1; end < l->d->message_count && same_turn(l, first, end);) end++;
    wrap_shifts(l, first, end);
  }
  for (uint32_t i = 0; i < l->d->message_count; i++) {
    const struct tu_draw_message *m = &l->d->messages[l->arrows[i].message];
    struct tu_draw_band *band = &l->bands[m->sent];
    if (m->sent == m->taken) band->reach = (uint32_t)tu_max(band->reach, (uint32_t)abs(l->arrows[i].columns));
  }
}

/* ---- labels ----------------------------------------------------------------------------------------------------- */

enum { LABEL_FONT = 11, LABEL_GAP = 12, LABEL_ROOM = 16 };

static void name_arrows(struct tu_draw_layout *l) {
  uint32_t last_send = UINT32_MAX, last_sent = 0;
  for (uint32_t i = 0; i < l->d->message_count; i++) {
    struct tu_draw_arrow *a = &l->arrows[i];
    uint32_t send = tu_draw_first_part(l, a)->send, sent = l->d->messages[a->message].sent, count;
    struct tu_draw_value *values = tu_draw_carried(l->d, l->v, a->message, &count);
    a->key = tu_draw_key(l->d->plan, values[0]);
    for (uint32_t k = 1; k < count; k++)
      if (tu_draw_key(l->d->plan, values[k]) != a->key) a->key = TU_DRAW_MIXED;
    if (send != last_send || sent != last_sent) {
      struct tu_text label = {0};
      tu_draw_label(l->d->plan, values, count, &label);
      bool fans = tu_drawing_step(l->d, send)->peer_count > 1;
      a->side = fans || a->columns > 0 ? TU_RIGHT : TU_LEFT;
      snprintf(a->label, sizeof a->label, "%s", label.length < sizeof a->label ? label.chars : "...");
      a->label_width = tu_draw_text_width(a->label, LABEL_FONT);
      tu_text_fini(&label);
    }
    last_send = send;
    last_sent = sent;
    free(values);
  }
}

/* Places the labels of one round in rows, separately for each side of each rank. `first` is the index of the round's
 * first arrow. Stores the width of the widest label on each side of each rank in `widths`. Returns the index after the
 * round's last arrow. */
static uint32_t measure_labels(struct tu_draw_layout *l, uint32_t first, double *widths) {
  uint32_t ranks = l->d->plan->ranks, i = first, sent = l->d->messages[l->arrows[first].message].sent;
  uint32_t *rows = tu_allocate((size_t)ranks * 2, sizeof *rows);
  memset(widths, 0, (size_t)ranks * 2 * sizeof *widths);
  for (; i < l->d->message_count && l->d->messages[l->arrows[i].message].sent == sent; i++) {
    struct tu_draw_arrow *a = &l->arrows[i];
    if (!a->label[0]) continue;
    uint32_t at = tu_draw_first_part(l, a)->from * 2 + a->side;
    a->label_row = rows[at]++;
    if (a->label_width > widths[at]) widths[at] = a->label_width;
    l->bands[sent].label_rows = (uint32_t)tu_max(l->bands[sent].label_rows, rows[at]);
  }
  free(rows);
  return i;
}

/* Returns the total width of the labels that stand between the vertical lines of `rank` and `rank` + 1. */
static double between(const struct tu_draw_layout *l, const double *widths, uint32_t rank) {
  double right = widths[rank * 2 + 1], left = rank + 1 < l->d->plan->ranks ? widths[rank * 2 + 2] : 0;
  return right + left;
}

/* Lays out the labels of one round, whose arrows are `first` to `end` - 1. Between two neighbouring ranks, labels of
 * arrows to the right stand beside labels of arrows to the left. If they do not fit between some two ranks, all labels
 * of arrows to the left of this round are moved above the others. */
static void lay_labels(struct tu_draw_layout *l, uint32_t first, uint32_t end, const double *widths) {
  bool high = false;
  uint32_t rows = 0, above = 0;
  for (uint32_t r = 0; r < l->d->plan->ranks; r++) high |= between(l, widths, r) + LABEL_ROOM > l->column;
  for (uint32_t i = first; high && i < end; i++) {
    const struct tu_draw_arrow *a = &l->arrows[i];
    if (a->label[0] && a->side == TU_RIGHT) above = (uint32_t)tu_max(above, a->label_row + 1);
  }
  for (uint32_t i = first; i < end; i++) {
    struct tu_draw_arrow *a = &l->arrows[i];
    if (!a->label[0]) continue;
    if (a->side == TU_LEFT) a->label_row += above;
    a->label_fits = a->label_width + LABEL_ROOM / 2.0 <= l->column;
    if (a->label_fits) rows = (uint32_t)tu_max(rows, a->label_row + 1);
    else l->labels_missing = true;
  }
  l->bands[l->d->messages[l->arrows[first].message].sent].label_rows = rows;
}

/* Chooses the distance between the vertical lines of the ranks: wide enough for the labels, within limits that depend
 * on the number of ranks. */
static void choose_column(struct tu_draw_layout *l) {
  static const struct {
    uint32_t ranks;
    double low, high;
  } rooms[] = {{4, 72, 128}, {8, 56, 104}, {16, 46, 76}, {32, 30, 44}, {TU_DRAW_RANKS_MAX, 22, 28}};
  uint32_t ranks = l->d->plan->ranks, room = 0;
  while (rooms[room].ranks < ranks) room++;
  double *widths = tu_allocate((size_t)ranks * 2, sizeof *widths), need = rooms[room].low;
  for (uint32_t first = 0; first < l->d->message_count;) {
    first = measure_labels(l, first, widths);
    for (uint32_t r = 0; r < ranks; r++)
      if (between(l, widths, r) + LABEL_ROOM > need) need = between(l, widths, r) + LABEL_ROOM;
  }
  l->column = need < rooms[room].high ? need : rooms[room].high;
  for (uint32_t first = 0, end; first < l->d->message_count; first = end) {
    end = measure_labels(l, first, widths);
    lay_labels(l, first, end, widths);
  }
  free(widths);
}

/* ---- bands ------------------------------------------------------------------------------------------------------ */

static void note_marks(struct tu_draw_layout *l) {
  for (uint32_t s = 0; s < tu_drawing_steps(l->d); s++) {
    uint8_t kind = tu_drawing_step(l->d, s)->kind;
    if (kind == TU_COPY || kind == TU_REDUCE) l->bands[l->d->round[s]].has_marks = true;
  }
}

static void stack_bands(struct tu_draw_layout *l) {
  enum {
    MARKS = 18,
    GAP = 12,
    HEIGHT_MIN = 38,
    HEIGHT_MAX = 110,
    HEIGHT_PER_COLUMN = 9,
    HEAD_HEIGHT = 24,
    DENSE = 512
  };
  double y = l->head + HEAD_HEIGHT;
  l->bands[0].from = l->bands[0].top = l->bands[0].bottom = y;
  y += (l->bands[0].has_marks ? MARKS : 0) + GAP / 2;
  for (uint32_t r = 1; r <= l->d->rounds; r++) {
    struct tu_draw_band *band = &l->bands[r];
    band->from = y;
    band->top = y + GAP / 2 + band->label_rows * LABEL_GAP;
    double height = HEIGHT_MIN + HEIGHT_PER_COLUMN * (band->reach ? band->reach - 1 : 0);
    if (height > HEIGHT_MAX) height = HEIGHT_MAX;
    band->dense = band->messages > DENSE;
    /* If a round has many arrows, they are steep and need a higher band. A dense band is lower, because it shows one
     * line of text instead of arrows. */
    if (band->messages > l->d->plan->ranks * 3) height *= band->dense ? 0.6 : 1.7;
    band->bottom = band->top + height;
    y = band->bottom + GAP + (band->has_marks ? MARKS : 0);
  }
  l->foot = y + GAP / 2;
  l->height = l->foot + HEAD_HEIGHT + 20;
}

void tu_draw_layout_init(struct tu_draw_layout *l, const struct tu_drawing *d, const struct tu_draw_values *v,
                         double head, double width) {
  *l = (struct tu_draw_layout){.d = d, .v = v, .head = head};
  l->bands = tu_allocate((size_t)d->rounds + 1, sizeof *l->bands);
  list_arrows(l);
  bend_arrows(l);
  name_arrows(l);
  choose_column(l);
  note_marks(l);
  stack_bands(l);
  enum { GUTTER = 56, MARGIN = 24 };
  double needed = GUTTER + l->column * d->plan->ranks + MARGIN;
  l->left = GUTTER + l->column / 2;
  l->width = needed > width ? needed : width;
}

void tu_draw_layout_fini(struct tu_draw_layout *l) {
  free(l->arrows);
  free(l->bands);
}
