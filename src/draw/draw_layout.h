/* draw_layout.h: positions of all elements in the picture of a plan. Private to draw/.
 *
 * Each rank is a vertical line (its lifeline); time runs downwards. A round is a horizontal band. Its messages start at
 * the top of the band and end at the bottom, so that arrows do not overlap. The label of a message stands above the
 * band's top, beside the sender's lifeline. Marks of local steps stand below the band's bottom. */
#ifndef TU_DRAW_LAYOUT_H
#define TU_DRAW_LAYOUT_H

#include "draw/draw_internal.h"

struct tu_draw_band {
  double from; /* y coordinate of the band's upper edge, labels included */
  double top, bottom;
  uint32_t messages;
  uint32_t reach; /* number of columns that the longest arrow crosses */
  uint32_t label_rows;
  bool has_marks;
  bool wraps;
  bool dense; /* too many arrows to draw: one line of text replaces them */
};

enum tu_draw_side { TU_LEFT, TU_RIGHT };

struct tu_draw_arrow {
  uint32_t message;
  /* number of columns from sender to receiver; negative: to the left. If `wraps` is true, counted across the picture's
   * edge */
  int32_t columns;
  bool wraps;             /* the arrow leaves the picture at one edge and continues at the other edge */
  uint32_t key;           /* number of the arrow's colour; TU_DRAW_MIXED: values of several colours */
  char label[32];         /* text beside the arrow; "": another arrow of the same multicast shows the label */
  enum tu_draw_side side; /* side of the sender's vertical line on which the label stands */
  bool label_fits;
  double label_width;
  uint32_t label_row;
};
#define TU_DRAW_MIXED UINT32_MAX

struct tu_draw_layout {
  const struct tu_drawing *d;
  const struct tu_draw_values *v;
  struct tu_draw_arrow *arrows; /* [message_count]: arrows, in order of the round of sending */
  struct tu_draw_band *bands;   /* [rounds + 1]: bands; band 0 contains the local steps before the first message */
  double column, left;          /* distance between the vertical lines of the ranks; x coordinate of the first one */
  double head, foot;            /* y coordinates of the upper and lower ends of the ranks' vertical lines */
  double width, height;
  bool labels_missing;
};

/* Computes all positions in the picture. `head` is the y coordinate at which the ranks' vertical lines begin; `width`
 * is the minimum width of the picture. */
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

/* Estimates the width of a text from its number of letters, because the font depends on the viewer's system. */
double tu_draw_text_width(const char *chars, double font_size);

#endif
