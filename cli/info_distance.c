/* info_distance.c: measures how long a cache line takes from one CPU to another, and how long it takes to overwrite lines that
 * the other has read. Two threads send lines to each other, over channels like those between two ranks. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "cli/info.h"
#include "mover/mover.h"

enum { ROUNDS = 20000, LOOKS_MAX = 1 << 24, FILLS = 101 };

/* One of the two threads that send a cache line to each other. */
struct end {
  uint32_t rank, cpu;
  struct tu_transport *transport;
  uint64_t ns, fill_ns;
  bool far, good;
};

/* Lines that rank 1 reads and rank 0 overwrites. */
static _Alignas(TU_LINE_BYTES) unsigned char lines[TU_STREAM_BYTES];

/* Sets *cpu to the n-th CPU (counted from 0) that this process may use; returns false if there are fewer CPUs. */
static bool find_cpu(uint32_t n, uint32_t *cpu) {
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return false;
  for (uint32_t i = 0; i < CPU_SETSIZE; i++)
    if (CPU_ISSET(i, &mask) && n-- == 0) {
      *cpu = i;
      return true;
    }
  return false;
}

/* Polls until the next cache line arrives, and returns its credit, so that the sender can send again. Returns false if
 * no line has arrived after LOOKS_MAX polls. */
static bool take(struct tu_receiver *r) {
  for (uint32_t looks = 0; looks < LOOKS_MAX; looks++) {
    if (!tu_receiver_line(r)) continue;
    tu_receiver_release(r);
    return true;
  }
  return false;
}

/* Sends one line and takes one, rank 0 first. */
static bool exchange(struct end *e, struct tu_sender *s, struct tu_receiver *r) {
  if (e->rank == 1 && !take(r)) return false;
  if (!tu_sender_ready(s)) return false;
  tu_sender_commit(s, 0, 0, 0, TU_IN_SEGMENT);
  return e->rank == 1 || take(r);
}

static int ascending(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* Sets e->fill_ns on rank 0: the median. */
static bool measure_fills(struct end *e, struct tu_sender *s, struct tu_receiver *r) {
  uint64_t times[FILLS];
  for (uint32_t i = 0; i < FILLS; i++) {
    if (e->rank == 1)
      for (size_t at = 0; at < sizeof lines; at += TU_LINE_BYTES) (void)*(volatile unsigned char *)(lines + at);
    if (!exchange(e, s, r)) return false;
    if (e->rank == 0) times[i] = tu_fills_time(lines);
  }
  if (e->rank == 1) return true;
  qsort(times, FILLS, sizeof times[0], ascending);
  e->fill_ns = times[FILLS / 2];
  return true;
}

/* Thread function of both ends. The two threads act as ranks 0 and 1, and send a cache line to and fro ROUNDS times. */
static void *play(void *argument) {
  struct end *e = argument;
  static const uint32_t members[] = {0, 1};
  const struct tu_channel_shape shape = {.credits = 8,
                                         .slot_bytes = 64,
                                         .one_way_slot_bytes = 64,
                                         .ring_bytes = 128,
                                         .cast_slot_bytes = 64,
                                         .cast_ring_bytes = 128};
  struct tu_error error;
  struct tu_mover *mover;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(e->cpu, &mask);
  e->good = sched_setaffinity(0, sizeof mask, &mask) == 0 &&
            tu_mover_create(e->transport, members, 2, e->rank, TU_WORLD_ID, shape, &mover, &error) == TUTTI_OK;
  if (!e->good) return NULL;
  struct tu_sender *s = NULL;
  struct tu_receiver *r = NULL;
  for (uint32_t looks = 0; looks < LOOKS_MAX && !tu_mover_ready(mover); looks++) sched_yield();
  if (tu_mover_ready(mover)) s = tu_mover_sender(mover, 1 - e->rank, 0, &error);
  if (s) r = tu_mover_receiver(mover, 1 - e->rank, 0);
  e->good = r != NULL;
  for (uint32_t looks = 0; looks < LOOKS_MAX && e->good && !tu_mover_attach(mover, r); looks++) sched_yield();
  e->good = e->good && r->lines;
  uint64_t start = tu_clock_ns();
  for (uint32_t i = 0; i < ROUNDS && e->good; i++) e->good = exchange(e, s, r);
  e->ns = (tu_clock_ns() - start) / (2 * ROUNDS);
  e->far = e->good && r->far;
  e->good = e->good && measure_fills(e, s, r);
  tu_mover_destroy(mover, false);
  return NULL;
}

bool info_distance(struct info_distance *d) {
  struct tu_transport *endpoints[2];
  struct tu_error error;
  struct end ends[2] = {{.rank = 0}, {.rank = 1}};
  if (!find_cpu(0, &ends[0].cpu) || !find_cpu(1, &ends[1].cpu)) return false;
  if (tu_loop_create(2, 1 << 20, endpoints, &error) != TUTTI_OK) return false;
  pthread_t threads[2];
  bool started[2];
  for (int i = 0; i < 2; i++) {
    ends[i].transport = endpoints[i];
    started[i] = pthread_create(&threads[i], NULL, play, &ends[i]) == 0;
  }
  for (int i = 0; i < 2; i++)
    if (started[i]) pthread_join(threads[i], NULL);
  for (int i = 0; i < 2; i++) endpoints[i]->ops->close(endpoints[i]);
  *d = (struct info_distance){
      {ends[0].cpu, ends[1].cpu}, (uint32_t)ends[0].ns, (uint32_t)ends[0].fill_ns, ends[0].far || ends[1].far};
  return started[0] && started[1] && ends[0].good && ends[1].good;
}
