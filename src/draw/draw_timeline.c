#include "draw/draw_timeline.h"
void tu_draw_timeline_trace(const struct tu_draw_timeline *what, struct tu_text *text) {
  (void)what, tu_text_print(text, "[]\n");
}
void tu_draw_timeline_html(const struct tu_draw_timeline *what, struct tu_text *text) {
  (void)what, tu_text_print(text, "\n");
}
