/* units.c: formats sizes, times and counts for people. */
#include "cli/units.h"

#include <stdio.h>
#include <string.h>

struct unit {
  double factor;
  const char *name;
};

/* Writes the value in the last of units[count], whose factors ascend, in which it is at least 1; if there is none, in
 * the first. */
static struct units_text scale(double value, const struct unit *units, int count) {
  struct units_text text;
  int i = 0;
  while (i + 1 < count && value >= units[i + 1].factor) i++;
  value /= units[i].factor;
  snprintf(text.chars, sizeof text.chars, value < 9999.5 ? "%.4g %s" : "%.0f %s", value, units[i].name);
  return text;
}

struct units_text units_bytes(double bytes) {
  static const struct unit units[] = {{1, "B"},        {0x1p10, "KiB"}, {0x1p20, "MiB"},
                                      {0x1p30, "GiB"}, {0x1p40, "TiB"}, {0x1p50, "PiB"}};
  return scale(bytes, units, sizeof units / sizeof units[0]);
}

struct units_text units_seconds(double seconds) {
  static const struct unit units[] = {{1e-9, "ns"}, {1e-6, "us"}, {1e-3, "ms"}, {1, "s"}};
  if (seconds == 0) return (struct units_text){"0 s"};
  return scale(seconds, units, sizeof units / sizeof units[0]);
}

struct units_text units_count(uint64_t count) {
  struct units_text text;
  char digits[24];
  const int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
  char *to = text.chars;
  for (int i = 0; i < length; i++) {
    if (i > 0 && (length - i) % 3 == 0) *to++ = ',';
    *to++ = digits[i];
  }
  *to = '\0';
  return text;
}

struct units_text units_duration(double seconds) {
  static const struct unit units[] = {{31557600, "years"}, {86400, "days"}, {3600, "hours"}, {60, "minutes"}};
  struct units_text text;
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
    if (seconds >= 2 * units[i].factor) {
      snprintf(text.chars, sizeof text.chars, "%.0f %s", seconds / units[i].factor, units[i].name);
      return text;
    }
  snprintf(text.chars, sizeof text.chars, seconds < 9.95 ? "%.2g s" : "%.0f s", seconds);
  return text;
}
