/* fabric.c: the fabric of the simulated world: the fake provider of libfabric, whose endpoints belong to the ranks. A call
 * of it takes time like a call of the system, and other ranks may run before it. */
#include <string.h>

#include "tests/world/inside.h"

static struct endpoint {
  unsigned char name[FAKE_FABRIC_NAME_BYTES];
  bool open;
} endpoints[WORLD_RANKS_MAX];

/* A rank opens its endpoint in one step, so that a rank that dies has an endpoint with a name, or none. */
static void enter(void) {
  if (endpoints[world.current].open) world_system_call();
}

const struct tu_fabric_library *world_fabric(void) { return &fake_fabric; }

void world_name_endpoint(const void *name, size_t bytes) {
  struct endpoint *e = &endpoints[world.current];
  e->open = bytes == sizeof e->name;
  if (e->open) memcpy(e->name, name, bytes);
  else world_fail("the name of an endpoint has %zu bytes", bytes);
}

void world_fabric_begin(void) {
  struct fake_fabric_traits traits = world.program->fabric;
  memset(endpoints, 0, sizeof endpoints);
  if (!world.program->fabric_hosts) return;
  traits.enters = enter;
  traits.descriptor_open = world_wait_open;
  traits.descriptor_set = world_wait_set;
  traits.descriptor_close = world_wait_close;
  fake_fabric_begin(&traits);
}

void world_fabric_end_rank(uint32_t rank, bool in_order) {
  struct endpoint *e = &endpoints[rank];
  if (e->open && !in_order) fake_fabric_kill(e->name, sizeof e->name);
  e->open = false;
}

void world_fabric_end(void) {
  if (!world.program->fabric_hosts) return;
  for (uint32_t r = 0; r < world.program->ranks; r++) world_fabric_end_rank(r, false);
  const uint32_t violations = fake_fabric_end();
  if (violations) world_fail("the fake fabric counts %u violations", violations);
}
