/* draw_page.h: what all pages (HTML) share: the head with the style, and the filling of templates. Private to draw/. */
#ifndef TU_DRAW_PAGE_H
#define TU_DRAW_PAGE_H

#include "base/text.h"

/* Appends the beginning of a page, up to its body. `name` is the title; special characters are escaped. */
void tu_draw_page_head(const char *name, struct tu_text *text);

/* Appends the template up to the text `gap`; returns the template's text after it. */
const char *tu_draw_page_up_to(const char *template, const char *gap, struct tu_text *text);

/* The script of the controls of time and of windows; CMake makes this string from the file clock.js. */
extern const char tu_draw_clock[];

#endif
