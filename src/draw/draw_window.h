/* draw_window.h: the page of a plan of many ranks, whose script draws a window of ranks and rounds. Private to draw/. */
#ifndef TU_DRAW_WINDOW_H
#define TU_DRAW_WINDOW_H

#include "draw/draw_internal.h"

/* Appends the page, after its head. Takes any number of ranks. */
void tu_draw_window_html(const struct tu_draw *what, const struct tu_drawing *d, struct tu_text *text);

#endif
