/* place.c: `place PROGRAM...` runs a program as a rank of `tutti run`, on the host that placement.h gives it. */
#include "placement.h"

int main(int argc, char **argv) {
  const char *rank = getenv("TUTTI_RANK");
  if (argc < 2 || !rank) {
    fprintf(stderr, "usage: tutti run -n N -- place PROGRAM [ARGUMENT...], with TEST_HOSTS\n");
    return 2;
  }
  placement_enter((uint32_t)strtoul(rank, NULL, 10));
  execvp(argv[1], argv + 1);
  fprintf(stderr, "place: %s: %s\n", argv[1], strerror(errno));
  return 127;
}
