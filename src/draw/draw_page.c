/* draw_page.c: the parts that all pages share. The build turns head.html into a string; it contains the styles of all
 * pages, so that a colour is written in one place. */
#include "draw/draw_page.h"

#include <string.h>

#include "draw/draw_internal.h"

extern const char tu_draw_head[]; /* CMake makes this string from the file head.html */

const char *tu_draw_page_up_to(const char *template, const char *gap, struct tu_text *text) {
  const char *found = strstr(template, gap);
  tu_assert(found);
  tu_text_print(text, "%.*s", (int)(found - template), template);
  return found + strlen(gap);
}

void tu_draw_page_head(const char *name, struct tu_text *text) {
  const char *rest = tu_draw_page_up_to(tu_draw_head, "<!--name-->", text);
  tu_draw_escape(name, text);
  tu_text_print(text, "%s", rest);
}
