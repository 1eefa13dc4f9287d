/* units.h: numbers with units, for people: sizes, times and counts. JSON has the numbers as they are (json.h). */
#ifndef CLI_UNITS_H
#define CLI_UNITS_H

#include <stdint.h>

struct units_text {
  char chars[32];
};

/* A size with up to four digits, such as "640 B", "64 KiB" or "1.907 MiB". */
struct units_text units_bytes(double bytes);
/* A time with up to four digits, such as "84.47 us" or "1.5 s". */
struct units_text units_seconds(double seconds);
/* A count with separators, such as "20,694". */
struct units_text units_count(uint64_t count);
/* About how long something takes, for a person who waits: "2.5 s", "34 s", "3 minutes", "26 years". */
struct units_text units_duration(double seconds);

#endif
