/* soc.h: the cores of a chip at which its Ethernet channels end, in the coordinates of the network on chip. */
#ifndef TU_SOC_H
#define TU_SOC_H

#include "base/base.h"

struct tu_core {
  uint32_t x, y;
};

struct tu_soc {
  char arch[24];
  uint32_t width, height; /* number of columns and of rows of the grid of cores */
  uint32_t channel_count;
  struct tu_core *channels; /* [channel_count]: the core at which each Ethernet channel ends */
};

/* Reads the description of a chip's cores from YAML text: the keys 'grid', 'eth' and 'arch_name'. */
tutti_err tu_soc_read(const char *data, size_t bytes, const char *name, struct tu_soc **soc, struct tu_error *error);
void tu_soc_destroy(struct tu_soc *soc);

#endif
