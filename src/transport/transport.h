/* transport.h: on what wire? What an endpoint offers to the mover: memory that peers can reach, a bell to wake a sleeping
 * rank, the knowledge whether a rank still lives, and which ranks of the job are to be reached by a wire instead (wire.h).
 *
 * Both transports (loop: ranks in one process; shm: processes of one host) share memory: one segment, a slice
 * of it to each rank. A rank allocates in its own slice only, so no lock is shared between processes, and a rank that dies
 * takes nothing with it. A *place* is an offset in the segment: the same number on every rank. */
#ifndef TU_TRANSPORT_H
#define TU_TRANSPORT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"
#include "transport/life.h"
#include "transport/waits.h"

struct tu_transport;
struct tu_hosts;
struct tu_suspect;

struct tu_transport_ops {
  const char *name;
  /* Does that rank still live? May make a system call; any thread, any time after create. */
  bool (*alive)(struct tu_transport *t, uint32_t rank);
  /* Gives the pages of a released range back to the system; their content is lost. */
  void (*discard)(struct tu_transport *t, uint64_t place, size_t bytes);
  /* Has pages of a range there, or (not `fresh`) mapped here, now instead of one by one when they are touched; fresh ones are
   * large if the system has any. May be NULL. */
  void (*populate)(struct tu_transport *t, uint64_t place, size_t bytes, bool fresh);
  /* Maps a range (place != 0), or memory of this process alone (place == 0), where other memory has been mapped.
   * NULL: all ranks are in this process. */
  bool (*map_over)(struct tu_transport *t, void *memory, uint64_t place, size_t bytes);
  /* Ends this rank's endpoint and frees t. The memory of other ranks stays. */
  void (*close)(struct tu_transport *t);
};

/* Where a rank sleeps. Whoever has published something for the rank rings if somebody sleeps there. */
struct tu_bell {
  _Alignas(TU_LINE_BYTES) _Atomic uint32_t sleepers;
  _Alignas(TU_LINE_BYTES) _Atomic uint32_t rings;
};

#define TU_MISSED 8u

/* The head of a rank's slice. */
struct tu_slice_head {
  struct tu_bell bell;
  _Alignas(TU_LINE_BYTES) _Atomic uint32_t present; /* the rank has come; from now on alive() speaks */
  _Atomic uint32_t gone;                            /* loop: the rank was killed */
  _Atomic uint32_t no_barrier;                      /* cannot take part in membarrier: everybody must fence */
  _Atomic uint32_t rests;                           /* its thread that waits has yielded, or sleeps */
  struct tu_life life;                              /* it is there when the rank is present */
  bool closes;           /* shm: likewise; its lock may go while it lives: when it closes a descriptor of the memory */
  _Atomic int memory_fd; /* shm: by which it has the memory open; -1: by none */
  _Alignas(TU_LINE_BYTES) _Atomic uint64_t worked_ns; /* its thread that waits, at long stretches between two rests */
  _Atomic uint64_t busy_until; /* so long it takes for granted that other programs want its core */
  struct tu_waits_note waits[TU_WAITS_THREADS];
  /* The rank has closed its endpoint before there was a communicator, for this reason. */
  _Atomic uint32_t gave_up;
  struct tu_error reason;
  /* Pages of the blocks of communicators that this rank leads: a list (mover/control.h). */
  _Atomic uint32_t blocks_version, blocks;
  /* Sessions of communicators whose other ranks may wait for this one, which has none of them: the last ones. */
  _Atomic uint64_t missed[TU_MISSED];
  _Atomic uint32_t missed_codes[TU_MISSED]; /* and why: enum tutti_err */
  _Atomic uint32_t misses;
  _Atomic uint64_t word; /* of locality/, while the job begins */
};

/* A stretch of this rank's slice. It is in use, or free, or rests: it was released a short time ago, still has its pages, and is
 * what the next request for so many bytes gets. */
struct tu_range {
  struct tu_range *before, *next; /* by place */
  struct tu_range *chain;         /* the next one of its list: in use by place, at rest by length, or free */
  uint64_t place;
  size_t bytes;
  bool used;
  bool rests;
  bool users; /* given to the user, who may give it back */
  bool held;  /* given back, but others may still write there */
};

/* The user's own memory that was moved into this rank's slice. */
struct tu_registered {
  struct tu_registered *_Atomic next;
  unsigned char *_Atomic memory;
  _Atomic size_t bytes;
  _Atomic uint64_t place;
};

#define TU_RANGE_LISTS 1024u                 /* of ranges in use; a power of two */
#define TU_REST_LISTS 64u                    /* of ranges at rest: one for each power of two bytes */
#define TU_REST_BYTES_MAX ((size_t)16 << 20) /* what a rank keeps at rest; beyond it pages go back to the system */

struct tu_transport {
  const struct tu_transport_ops *ops;
  uint32_t rank, ranks;   /* of the segment */
  struct tu_hosts *hosts; /* NULL: its ranks are all those of the job */
  unsigned char *base;    /* of the segment, here */
  size_t slice_bytes;
  uint32_t share;         /* ranks that share a CPU, at most; 0: not known */
  _Atomic uint32_t users; /* communicators; the last one closes */
  _Atomic bool fence;     /* ring with a full fence; else the sleeper makes one on all CPUs (membarrier) */
  struct tu_waits_owners waits;
  struct tu_suspect *_Atomic suspects; /* ranks that may still write here: suspects.h */
  /* The allocator of this rank's slice. */
  pthread_mutex_t lock;
  struct tu_range *ranges; /* all, by place */
  struct tu_range *free_ranges;
  struct tu_range *used_ranges[TU_RANGE_LISTS];
  struct tu_range *resting_ranges[TU_REST_LISTS];
  size_t free_bytes; /* of the slice, resting ones too */
  size_t resting_bytes;
  /* Other threads look through the registered ones meanwhile: nothing of it is freed before the end, but it is used again. The
   * version is odd while something changes. */
  struct tu_registered *_Atomic registered;
  struct tu_registered *retired;
  _Atomic uint32_t registered_version;
};

/* ---- ranks of the job ---- */

#define TU_REMOTE UINT32_MAX

/* Of a job whose ranks run on several hosts, as one of its processes sees it. */
struct tu_hosts {
  uint32_t rank, ranks; /* of the job */
  uint32_t *locals;     /* [ranks]: ranks of this host's segment, or TU_REMOTE */
  int *bells;           /* eventfds of the segment's ranks */
  int sleep;            /* an epoll of this rank's own, and of the wire */
  _Atomic bool watched; /* a thread sleeps in it */
  void (*close)(struct tu_hosts *hosts);
  void (*cut)(struct tu_hosts *hosts); /* for tests: as if this process had been killed */
};

/* The rank of the segment that is that rank of the job; TU_REMOTE: it runs on another host. */
static inline uint32_t tu_transport_local(const struct tu_transport *t, uint32_t rank) {
  return t->hosts ? t->hosts->locals[rank] : rank;
}
static inline uint32_t tu_transport_job_rank(const struct tu_transport *t) {
  return t->hosts ? t->hosts->rank : t->rank;
}
static inline uint32_t tu_transport_job_ranks(const struct tu_transport *t) {
  return t->hosts ? t->hosts->ranks : t->ranks;
}

/* ---- memory ---- */

#define TU_LARGE_PAGE ((size_t)2 << 20)

#define TU_PLACE_ALIGN 4096u
/* Of a slice's head; behind it begins what is acquired. */
#define TU_HEAD_BYTES ((uint64_t)4096)

/* Common part of create and close; for implementations. False without memory: then there is nothing to finish. */
bool tu_transport_init(struct tu_transport *t, const struct tu_transport_ops *ops, uint32_t rank, uint32_t ranks,
                       void *base, size_t slice_bytes);
void tu_transport_fini(struct tu_transport *t);

/* Memory in this rank's slice, not cleared; NULL and MEMORY if the slice is full. Aligned to 4096, and to 2 MiB (where large
 * pages begin) if it is as long as that. */
void *tu_transport_acquire(struct tu_transport *t, size_t bytes, uint64_t *place, struct tu_error *error);
/* What was acquired there becomes the user's, or is not any more; false: it was so already, or there is nothing. */
bool tu_transport_hand_over(struct tu_transport *t, uint64_t place, bool to_user);
/* The whole of what was acquired there; false: nothing was. It rests, with its pages, or they go back to the system. */
bool tu_transport_release(struct tu_transport *t, uint64_t place);
/* The same of what other ranks know of; while there are suspects it is held, until tu_transport_release_held. */
bool tu_transport_give_back(struct tu_transport *t, uint64_t place);
void tu_transport_release_held(struct tu_transport *t);
/* What rests goes back to the system. */
void tu_transport_trim(struct tu_transport *t);
/* Bytes of this rank's slice that are not acquired. */
size_t tu_transport_free_bytes(struct tu_transport *t);

static inline void tu_transport_populate(struct tu_transport *t, uint64_t place, size_t bytes, bool fresh) {
  if (t->ops->populate) t->ops->populate(t, place, bytes, fresh);
}

/* The user's memory, of whole pages, becomes a part of this rank's slice, at the same address and with the same content.
 * Nobody else may use it meanwhile. Errors: MEMORY, SYSTEM; the memory is as it was. */
tutti_err tu_transport_register(struct tu_transport *t, void *memory, size_t bytes, struct tu_error *error);
/* ... and the process's own again, with its content. ARGUMENT if it is not registered. */
tutti_err tu_transport_deregister(struct tu_transport *t, void *memory, struct tu_error *error);

static inline void *tu_transport_at(const struct tu_transport *t, uint64_t place) { return t->base + place; }
/* Is any part of it in memory that all ranks map, or registered? */
bool tu_transport_shares(struct tu_transport *t, const void *memory, size_t bytes);
/* The place of so many bytes in the memory that all ranks map; 0 if they are not in there, or not in one piece: a buffer may
 * begin in registered memory and go on beyond it. */
uint64_t tu_transport_registered(struct tu_transport *t, const void *memory, size_t bytes);
static inline uint64_t tu_transport_place_of(struct tu_transport *t, const void *memory, size_t bytes) {
  uint64_t place = (uint64_t)((uintptr_t)memory - (uintptr_t)t->base);
  if (place < t->slice_bytes * t->ranks) return place;
  return atomic_load_explicit(&t->registered, memory_order_relaxed) ? tu_transport_registered(t, memory, bytes) : 0;
}
/* May all ranks reach it? It must lie within one piece of what this rank's user was given or has registered. *place: where; 0:
 * at its own address, for all ranks are in this process. */
bool tu_transport_offers(struct tu_transport *t, const void *memory, size_t bytes, uint64_t *place);
/* The place of an address. */
static inline uint64_t tu_transport_place(struct tu_transport *t, const void *address) {
  return tu_transport_place_of(t, address, 1);
}
static inline struct tu_slice_head *tu_transport_head(const struct tu_transport *t, uint32_t rank) {
  return (struct tu_slice_head *)(void *)(t->base + rank * t->slice_bytes);
}
/* To be called once all ranks are present: from now on they ring without a fence if all can do with membarrier. */
void tu_transport_settle(struct tu_transport *t);
bool tu_transport_alive(struct tu_transport *t, uint32_t rank);
/* To be called before an endpoint is closed that has not come to a communicator: or the others would take it for dead. */
void tu_transport_give_up(struct tu_transport *t, const struct tu_error *reason);
/* Has that rank given up? Then *error is its reason. */
bool tu_transport_gave_up(const struct tu_transport *t, uint32_t rank, struct tu_error *error);

/* ---- bells ----
 * Sleeper: token = tu_bell_arm; look once more; if nothing came, tu_bell_sleep(token); tu_bell_disarm.
 * Ringer: publish; tu_bell_ring. Either the second look sees what was published, or the ringer sees the sleeper:
 * both sides have a full fence between their store and their load (the ringer's may be made by the sleeper's membarrier). */
uint32_t tu_bell_arm(struct tu_transport *t);
void tu_bell_sleep(struct tu_transport *t, uint32_t token, int timeout_ms);
void tu_bell_disarm(struct tu_transport *t);
void tu_bell_wake(struct tu_transport *t, uint32_t rank); /* rings in any case */

static inline void tu_bell_ring(struct tu_transport *t, uint32_t rank) {
  struct tu_bell *bell = &tu_transport_head(t, rank)->bell;
#ifdef __SANITIZE_THREAD__
  if (atomic_fetch_add(&bell->sleepers, 0) != 0) tu_bell_wake(t, rank); /* the sanitizer knows no fences */
#else
  if (atomic_load_explicit(&t->fence, memory_order_relaxed)) atomic_thread_fence(memory_order_seq_cst);
  else atomic_signal_fence(memory_order_seq_cst);
  if (atomic_load_explicit(&bell->sleepers, memory_order_relaxed) != 0) tu_bell_wake(t, rank);
#endif
}

/* ---- implementations ---- */

/* `ranks` endpoints in this process over memory of their own. endpoints[rank] is to be closed by whoever plays that rank;
 * the last one frees the memory. slice_bytes 0: a default. */
tutti_err tu_loop_create(uint32_t ranks, size_t slice_bytes, struct tu_transport *endpoints[], struct tu_error *error);
/* For tests: the rank is dead from now on, as if its process had been killed. */
void tu_loop_kill(struct tu_transport *t);

/* This process as `rank` of the ranks that share the memory behind memory_fd, which it then owns. */
tutti_err tu_shm_create(uint32_t rank, uint32_t ranks, int memory_fd, size_t slice_bytes, struct tu_transport **t,
                        struct tu_error *error);
/* Collective: this process as a rank of the job, whose processes have met. Errors are the same on all ranks: UNSUPPORTED if
 * they are on several hosts, or why one could not make, take or map the memory. */
struct tu_job;
tutti_err tu_shm_join(struct tu_job *job, struct tu_transport **t, struct tu_error *error);

#endif
