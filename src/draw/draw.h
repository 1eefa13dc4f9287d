/* draw.h: shows a plan: as a picture (SVG), as a page on which time can be stepped through (HTML), as data (JSON).
 * Pure: writes into a text. Each is linear in steps, messages and chunks, but for sorting. */
#ifndef TU_DRAW_H
#define TU_DRAW_H

#include "base/text.h"
#include "plan/plan.h"

/* Pictures of more ranks than these are words. */
#define TU_DRAW_RANKS_MAX 64u

struct tu_draw {
  const struct tu_plan *plan; /* with all ranks' steps; one that check/ proves */
  const char *summary;        /* a line about the algorithm, or NULL */
  const uint32_t *column_of;  /* [ranks]: where each rank stands in the picture, from the left; NULL: in their order */
};

void tu_draw_svg(const struct tu_draw *what, struct tu_text *text);
void tu_draw_html(const struct tu_draw *what, struct tu_text *text);
/* The form is described in tutti-plan(1). */
void tu_draw_json(const struct tu_draw *what, struct tu_text *text);

#endif
