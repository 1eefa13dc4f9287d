/* remote_exposed.c: memory of this rank to which ranks of other hosts have direct access: that of windows, and memory of the
 * program (tutti_alloc, tutti_register). An allocation or a registration is exposed as a whole when a part of it is first
 * lent, and until it is freed. */
#include <stdlib.h>

#include "mover/remote_internal.h"
#include "mover/remote_memory.h"

struct tu_exposed {
  struct tu_exposed *next;
  unsigned char *base;
  size_t bytes;
  bool of_window;
  struct tu_wire_memory memory; /* region NULL: the wire cannot expose it */
};

static struct tu_exposed *expose(struct tu_remote *r, void *base, size_t bytes, bool of_window) {
  struct tu_exposed *x = r->wire->ops->expose ? malloc(sizeof *x) : NULL;
  if (!x) return NULL;
  *x = (struct tu_exposed){.next = r->exposed, .base = base, .bytes = bytes, .of_window = of_window};
  (void)r->wire->ops->expose(r->wire, base, bytes, of_window, &x->memory);
  return r->exposed = x;
}

static void drop(struct tu_remote *r, struct tu_exposed **link, bool in_order) {
  struct tu_exposed *x = *link;
  *link = x->next;
  if (x->memory.region) r->wire->ops->conceal(r->wire, &x->memory, in_order);
  free(x);
}

/* ---- windows ---- */

void tu_memory_expose(struct tu_control *c, void *base, size_t bytes, struct tu_wire_memory *memory) {
  struct tu_remote *r = tu_remote_of(c->transport);
  pthread_mutex_lock(&r->lock);
  const struct tu_exposed *x = expose(r, base, bytes, true);
  *memory = x ? x->memory : (struct tu_wire_memory){0};
  pthread_mutex_unlock(&r->lock);
}

void tu_memory_conceal(struct tu_control *c, struct tu_wire_memory *memory, bool in_order) {
  struct tu_remote *r = tu_remote_of(c->transport);
  pthread_mutex_lock(&r->lock);
  struct tu_exposed **link = &r->exposed;
  while (*link && (*link)->memory.region != memory->region) link = &(*link)->next;
  if (memory->region && *link) drop(r, link, in_order);
  pthread_mutex_unlock(&r->lock);
}

/* ---- memory of the program ---- */

/* A window's exposure does not count: it ends with the window, while a slice may still be lent. */
static struct tu_exposed *find(const struct tu_remote *r, const unsigned char *memory, size_t bytes) {
  for (struct tu_exposed *x = r->exposed; x; x = x->next) {
    const uintptr_t at = (uintptr_t)memory - (uintptr_t)x->base;
    if (!x->of_window && at < x->bytes && bytes <= x->bytes - at) return x;
  }
  return NULL;
}

bool tu_remote_exposed(struct tu_remote *r, const void *memory, size_t bytes, uint64_t *address, uint64_t *key) {
  const struct tu_exposed *x = find(r, memory, bytes);
  void *base;
  size_t whole;
  if (!x && tu_transport_whole(r->transport, memory, bytes, &base, &whole)) x = expose(r, base, whole, false);
  if (!x || !x->memory.region) return false;
  *address = x->memory.address + (uint64_t)((uintptr_t)memory - (uintptr_t)x->base);
  *key = x->memory.key;
  return true;
}

/* No rank reads the memory any more: what was lent of it is returned, or the wire has been told to end all access. */
void tu_remote_forget(struct tu_remote *r, const void *base) {
  for (struct tu_exposed **link = &r->exposed; *link;) {
    if ((*link)->base == base && !(*link)->of_window) drop(r, link, true);
    else link = &(*link)->next;
  }
}

void tu_remote_conceal_all(struct tu_remote *r, bool in_order) {
  while (r->exposed) drop(r, &r->exposed, in_order);
}
