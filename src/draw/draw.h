/* draw.h: prints a plan as a picture (SVG), as a page that steps through time (HTML), or as data (JSON).
 * The functions have no side effect: they only append to a text. Their time is linear in the number of steps, messages
 * and chunks, apart from sorting. */
#ifndef TU_DRAW_H
#define TU_DRAW_H

#include "base/text.h"
#include "plan/plan.h"

/* Maximum number of ranks in a picture; for more ranks, a line of text replaces the picture. The page of a plan of more
 * ranks draws a window of them. */
#define TU_DRAW_RANKS_MAX 64u

struct tu_draw {
  const struct tu_plan *plan; /* the steps of all ranks; the caller has checked that the plan is correct (tu_check) */
  const char *summary;        /* one line of text about the algorithm; NULL: the picture has no such line */
  /* [ranks]: column of the picture in which each rank stands, counted from the left; NULL: columns in rank order */
  const uint32_t *column_of;
};

void tu_draw_svg(const struct tu_draw *what, struct tu_text *text);
void tu_draw_html(const struct tu_draw *what, struct tu_text *text);
/* Appends the plan as fields of a JSON object, without the braces around them; tutti-plan(1) describes them. */
void tu_draw_json(const struct tu_draw *what, struct tu_text *text);

#endif
