/* draw_layout.h: where everything stands in the picture. Private to draw/.
 *
 * Ranks are vertical lines, time goes down. A round is a band: its messages leave at the band's top and arrive at its
 * bottom, so that no two arrows lie on each other; labels stand above the top, beside the line that they leave; marks of
 * local steps below the bottom. */
#ifndef TU_DRAW_LAYOUT_H
#define TU_DRAW_LAYOUT_H

#include "draw/draw_parts.h"

struct tu_draw_band {
  double from; /* y where the band begins, labels included */
  double top, bottom;
  uint32_t messages;
  uint32_t reach; /* how many columns the longest arrow crosses */
  uint32_t label_rows;
  bool has_marks;
  bool wraps;
  bool dense; /* too many arrows to see any: words stand for them */
};

enum tu_draw_side { TU_LEFT, TU_RIGHT };

struct tu_draw_arrow {
  uint32_t message;
  int32_t columns;        /* how far it goes to the right; with `wraps` over the edge */
  bool wraps;             /* leaves at one edge and goes on at the other */
  uint32_t key;           /* its colour, or TU_DRAW_MIXED */
  char label[32];         /* "" if another arrow of the same multicast has it */
  enum tu_draw_side side; /* of the lifeline, on which the label stands */
  bool label_fits;
  double label_width;
  uint32_t label_row;
};
#define TU_DRAW_MIXED UINT32_MAX

struct tu_draw_layout {
  const struct tu_drawing *d;
  const struct tu_draw_values *v;
  struct tu_draw_arrow *arrows; /* [message_count], in order of time */
  struct tu_draw_band *bands;   /* [rounds + 1]; band 0 is what is done before the first message */
  double column, left;          /* distance of the lifelines; x of the first */
  double head, foot;            /* y where the lifelines begin and end */
  double width, height;
  bool labels_missing;
};

/* `head`: where the lifelines are to begin. `width`: how wide the picture is at least. */
void tu_draw_layout_init(struct tu_draw_layout *l, const struct tu_drawing *d, const struct tu_draw_values *v,
                         double head, double width);
void tu_draw_layout_fini(struct tu_draw_layout *l);

static inline uint32_t tu_draw_column(const struct tu_draw_layout *l, uint32_t rank) {
  return l->d->column_of ? l->d->column_of[rank] : rank;
}
static inline double tu_draw_x(const struct tu_draw_layout *l, uint32_t rank) {
  return l->left + l->column * tu_draw_column(l, rank);
}
static inline const struct tu_draw_part *tu_draw_first_part(const struct tu_draw_layout *l,
                                                            const struct tu_draw_arrow *a) {
  return &l->d->parts[l->d->messages[a->message].part_first];
}

/* Width of a text of that many letters, roughly: the font is the reader's. */
double tu_draw_text_width(const char *chars, double font_size);

#endif
