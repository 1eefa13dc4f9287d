/* info.h: functions of `tutti info` that have their own files. */
#ifndef CLI_INFO_H
#define CLI_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INFO_SIZE_CHARS = 32 };
/* Writes a size in the largest unit in which it is an integer, for example "64 KiB". */
void info_size(size_t bytes, char text[INFO_SIZE_CHARS]);

/* The distance between the first two CPUs that this process may use, measured with cache lines. */
struct info_distance {
  uint32_t cpus[2];
  uint32_t line_ns; /* time in which a cache line gets from one CPU to the other, in ns */
  bool far;         /* true: a channel between these CPUs treats them as far apart (see mover/channel.h) */
};
/* Measures the distance between two CPUs, in a few milliseconds. Returns false if there is only one CPU or if the
 * measurement failed. */
bool info_distance(struct info_distance *d);

/* The options of `tutti info --reshard`; NULL: option not given. */
struct info_reshard {
  const char *from, *to, *mesh, *shape, *type;
  bool json;
};
/* Prints the steps that convert a tensor from one distribution to another; returns the exit status. */
int info_reshard(const struct info_reshard *asked);

#endif
