#include "draw/draw_parts.h"
void tu_draw_html(const struct tu_draw *what, struct tu_text *text) { tu_draw_svg(what, text); }
