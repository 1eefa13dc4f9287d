/* info_text.c: formats sizes, and texts for JSON. */
#include <stdio.h>

#include "cli/info.h"

void info_size(size_t bytes, char text[INFO_SIZE_CHARS]) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
  int unit = 0;
  while (unit < 3 && bytes >= 1024 && bytes % 1024 == 0) bytes /= 1024, unit++;
  snprintf(text, INFO_SIZE_CHARS, "%zu %s", bytes, units[unit]);
}

void info_json(const char *text) {
  if (!text) {
    fputs("null", stdout);
    return;
  }
  putchar('"');
  for (; *text; text++) {
    const unsigned char c = (unsigned char)*text;
    if (c < ' ') printf("\\u%04x", c);
    else {
      if (c == '"' || c == '\\') putchar('\\');
      putchar(c);
    }
  }
  putchar('"');
}
