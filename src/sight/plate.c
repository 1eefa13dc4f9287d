/* plate.c: the plate at the beginning of each slice of a segment. */
#include "sight/plate.h"

#include <stdio.h>
#include <unistd.h>

#include "base/env.h"
#include "comm/facts.h"
#include "mover/control.h"

#define LAYOUT_VERSION 1u /* increase it if a field that src/sight reads changes its meaning, but not its place */

uint64_t tu_plate_layout(void) {
  const uint64_t words[] = {
      LAYOUT_VERSION,
      sizeof(struct tu_slice_head),
      sizeof(struct tu_waits_note),
      sizeof(struct tu_block),
      sizeof(struct tu_board),
      offsetof(struct tu_slice_head, present),
      offsetof(struct tu_slice_head, waits),
      offsetof(struct tu_slice_head, blocks_version),
      offsetof(struct tu_board, latest),
      offsetof(struct tu_board, departed),
      offsetof(struct tu_block, verdict),
  };
  return tu_hash(words, sizeof words, 0);
}

void tu_plate_host(char name[64]) {
  const char *host = tu_env("TUTTI_HOST");
  name[0] = name[63] = '\0';
  if (host) snprintf(name, 64, "%s", host);
  else (void)gethostname(name, 63);
}

void tu_plate_write(struct tu_transport *t, uint64_t job, uint32_t rank, uint32_t ranks) {
  struct tu_plate *plate = &tu_transport_head(t, t->rank)->plate;
  plate->layout = tu_plate_layout();
  plate->slice_bytes = t->slice_bytes;
  plate->began_ns = tu_clock_ns();
  plate->job = job;
  plate->here = t->ranks;
  plate->rank = rank;
  plate->ranks = ranks;
  plate->pid = (uint32_t)getpid();
  tu_plate_host(plate->host);
  atomic_store_explicit(&plate->magic, TU_PLATE_MAGIC, memory_order_release);
}
