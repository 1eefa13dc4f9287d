/* info_text.c: formats sizes. */
#include <stdio.h>

#include "cli/info.h"

void info_size(size_t bytes, char text[INFO_SIZE_CHARS]) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
  int unit = 0;
  while (unit < 3 && bytes >= 1024 && bytes % 1024 == 0) bytes /= 1024, unit++;
  snprintf(text, INFO_SIZE_CHARS, "%zu %s", bytes, units[unit]);
}
