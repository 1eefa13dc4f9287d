/* info.h: pieces of `tutti info`. */
#ifndef CLI_INFO_H
#define CLI_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "64 KiB" where it is a whole number of them. */
enum { INFO_SIZE_CHARS = 32 };
void info_size(size_t bytes, char text[INFO_SIZE_CHARS]);

/* Of the first two CPUs that the process may use. */
struct info_distance {
  uint32_t cpus[2];
  uint32_t line_ns; /* of a cache line, one way */
  bool far;         /* what channels make of it; see mover/channel.h */
};
/* Takes a few milliseconds; false if there are no two CPUs, or it did not work. */
bool info_distance(struct info_distance *d);

/* The steps of a resharding. What was not said is NULL. */
struct info_reshard {
  const char *from, *to, *mesh, *shape, *type;
  bool json;
};
/* Prints; returns the exit code. */
int info_reshard(const struct info_reshard *asked);

#endif
