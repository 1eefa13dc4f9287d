/* events.c: a binary heap of future events, ordered by time. */
#include "sim/events.h"

void tu_events_put(struct tu_events *events, struct tu_event event) {
  events->heap = tu_grow(events->heap, events->count, &events->capacity, sizeof *events->heap);
  struct tu_event *heap = events->heap;
  uint32_t at = events->count++;
  for (; at > 0 && heap[(at - 1) / 2].time > event.time; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
  heap[at] = event;
}

struct tu_event tu_events_take(struct tu_events *events) {
  tu_assert(events->count > 0);
  struct tu_event *heap = events->heap, next = heap[0], moved = heap[--events->count];
  uint32_t at = 0;
  for (;;) {
    uint32_t child = 2 * at + 1;
    if (child >= events->count) break;
    if (child + 1 < events->count && heap[child + 1].time < heap[child].time) child++;
    if (heap[child].time >= moved.time) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = moved;
  return next;
}
