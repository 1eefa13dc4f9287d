/* shrink.c: makes a failing program smaller, so that a person can read it: fewer faults, acts and ranks. */
#include <string.h>

#include "tests/world/inside.h"

/* Returns true if the act leaves a request open. */
static bool opens(const struct world_act *a) {
  return (a->kind == WORLD_CALL || a->kind == WORLD_EXCHANGE) && a->form == WORLD_LATER;
}

/* Returns true if each request that the program starts is finished later: buffers of open requests must not be freed. */
static bool is_valid(const struct world_program *p) {
  for (uint32_t i = 0; i < p->acts; i++) {
    uint32_t end = i + 1;
    while (end < p->acts && (p->act[end].kind != WORLD_FINISH || p->act[end].request != p->act[i].request)) end++;
    if (opens(&p->act[i]) && end == p->acts) return false;
  }
  return true;
}

static bool fails(const struct world_program *p) {
  if (!is_valid(p)) return false;
  world_perform(p);
  return world.failed;
}

static void remove_fault(struct world_program *p, uint32_t fault) {
  memmove(&p->fault[fault], &p->fault[fault + 1], (--p->faults - fault) * sizeof p->fault[0]);
}

/* Removes acts. Faults of later acts stay with them; ranks skip acts on communicators that are no longer made. */
static void remove_acts(struct world_program *p, uint32_t first, uint32_t count) {
  memmove(&p->act[first], &p->act[first + count], (p->acts - first - count) * sizeof p->act[0]);
  p->acts -= count;
  for (uint32_t i = p->faults; i-- > 0;) {
    struct world_fault *f = &p->fault[i];
    const uint64_t unit = f->mishap == WORLD_REFUSED && f->timed ? WORLD_ACT_ALLOCATIONS : 1;
    if ((!world_is_at_act(f->mishap) && unit == 1) || f->at < first * unit) continue;
    if (f->at < (first + count) * unit) remove_fault(p, i);
    else f->at -= count * unit;
  }
}

static bool keep_if_fails(struct world_program *p, const struct world_program *smaller) {
  if (!fails(smaller)) return false;
  *p = *smaller;
  return true;
}

/* Removes the fabric, or what is special about it. */
static bool shrink_fabric(struct world_program *p) {
  struct world_program smaller = *p;
  if (!p->fabric_hosts) return false;
  smaller.fabric_hosts = 0;
  if (keep_if_fails(p, &smaller)) return true;
  bool shrunk = false;
  const struct fake_fabric_traits plain = {.seed = p->fabric.seed, .allowed = p->fabric.allowed};
  smaller = *p;
  smaller.fabric = plain;
  if (memcmp(&smaller.fabric, &p->fabric, sizeof plain) != 0 && keep_if_fails(p, &smaller)) return true;
  uint32_t *const numbers[] = {&smaller.fabric.late,           &smaller.fabric.connecting,
                               &smaller.fabric.busy_per_1000,  &smaller.fabric.errors_per_1000,
                               &smaller.fabric.operations_max, &smaller.fabric.receives_max,
                               &smaller.fabric.regions_max};
  bool *const flags[] = {&smaller.fabric.no_descriptor, &smaller.fabric.arms, &smaller.fabric.shuffles,
                         &smaller.fabric.loses_on_close};
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    smaller = *p;
    if (*numbers[i] == 0) continue;
    *numbers[i] = 0;
    shrunk |= keep_if_fails(p, &smaller);
  }
  for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
    smaller = *p;
    if (!*flags[i]) continue;
    *flags[i] = false;
    shrunk |= keep_if_fails(p, &smaller);
  }
  return shrunk;
}

static bool shrink_once(struct world_program *p) {
  bool shrunk = false;
  struct world_program smaller;
  for (uint32_t i = p->faults; i-- > 0;) {
    smaller = *p;
    remove_fault(&smaller, i);
    shrunk |= keep_if_fails(p, &smaller);
  }
  for (uint32_t count = p->acts / 2 + 1; count > 0; count /= 2)
    for (uint32_t first = p->acts; first >= count; first -= first > p->acts ? first - p->acts : 1) {
      if (first > p->acts || p->acts == 1) continue;
      smaller = *p;
      remove_acts(&smaller, first - count, count);
      shrunk |= keep_if_fails(p, &smaller);
    }
  smaller = *p;
  memset(smaller.host, 0, sizeof smaller.host);
  if (memcmp(smaller.host, p->host, sizeof p->host) != 0) shrunk |= keep_if_fails(p, &smaller);
  shrunk |= shrink_fabric(p);
  while (p->ranks > 2) {
    smaller = *p;
    smaller.ranks--;
    for (uint32_t i = smaller.faults; i-- > 0;)
      if (smaller.fault[i].rank == smaller.ranks) remove_fault(&smaller, i);
    if (!keep_if_fails(p, &smaller)) break;
    shrunk = true;
  }
  return shrunk;
}

void world_shrink(struct world_program *p) {
  while (shrink_once(p)) continue;
  (void)fails(p);
}
