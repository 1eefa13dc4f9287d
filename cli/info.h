/* info.h: pieces of `tutti info`. */
#ifndef CLI_INFO_H
#define CLI_INFO_H

#include <stdbool.h>
#include <stdint.h>

/* Of the first two CPUs that the process may use. */
struct info_distance {
  uint32_t cpus[2];
  uint32_t line_ns; /* of a cache line, one way */
  bool far;         /* what channels make of it; see mover/channel.h */
};
/* Takes a few milliseconds; false if there are no two CPUs, or it did not work. */
bool info_distance(struct info_distance *d);

#endif
