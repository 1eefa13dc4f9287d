/* transport.h: an endpoint of a rank, as the mover (the folder that implements channels) uses it. An endpoint offers
 * memory that peers can reach, a bell that wakes a sleeping rank, and a check whether a rank is alive. An endpoint also
 * states which ranks of the job are reached over a wire instead of shared memory (wire.h).
 *
 * Both transports (loop: ranks in one process; shm: processes of one host) share memory: one segment, with one slice
 * per rank. A rank allocates only in its own slice. So processes share no lock, and a rank that dies leaves the slices
 * of the other ranks intact. An *offset* is counted from the start of the segment; it is the same number on every
 * rank. */
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
  /* Returns true if that rank is alive. May make a system call. Any thread may call it, at any time after create. */
  bool (*alive)(struct tu_transport *t, uint32_t rank);
  /* Gives the pages of a released range of memory back to the system. The content of the pages is lost. */
  void (*discard)(struct tu_transport *t, uint64_t offset, size_t bytes);
  /* Populates a range at once, instead of page by page when the pages are first used. fresh true: creates the pages of
   * the range, as large pages if possible; false: maps existing pages in this process. May be NULL. */
  void (*populate)(struct tu_transport *t, uint64_t offset, size_t bytes, bool fresh);
  /* Maps a range of the segment at `memory`, over the old mapping; offset 0: maps private memory of this process there.
   * Returns false on failure. NULL: all ranks are in this process. */
  bool (*map_over)(struct tu_transport *t, void *memory, uint64_t offset, size_t bytes);
  /* Closes this rank's endpoint and frees t. The memory of other ranks stays valid. */
  void (*close)(struct tu_transport *t);
};

/* The bell of a rank, on which its threads sleep. A peer that has published something for the rank rings the bell if
 * threads sleep there. */
struct tu_bell {
  _Alignas(TU_LINE_BYTES) _Atomic uint32_t sleepers;
  _Alignas(TU_LINE_BYTES) _Atomic uint32_t rings;
  /* In a job of several hosts: */
  _Atomic uint32_t watch; /* enum tu_watch: whether a thread of the rank waits for datagrams */
  /* Address of the rank's socket, a struct sockaddr_un of 8 bytes; set before `watch` changes for the first time. */
  _Alignas(uint64_t) unsigned char address[8];
};

enum tu_watch {
  TU_WATCH_NONE,
  TU_WATCH_WAITS, /* a thread waits on the rank's socket */
  TU_WATCH_CALLED /* a rank sends it the datagram that ends the wait, or has sent it */
};

#define TU_MISSED 8u

#define TU_PLATE_MAGIC UINT64_C(0x6765737474757400)

/* What a process that is no rank needs to read the segment (src/sight). The plate is at the beginning of each slice. */
struct tu_plate {
  _Atomic uint64_t magic; /* TU_PLATE_MAGIC once the other fields are set */
  uint64_t layout;        /* of the structs that such a process reads; it differs if one of their sizes differs */
  uint64_t slice_bytes;
  uint64_t job;         /* the same number on all ranks of a job */
  uint64_t began_ns;    /* start of the job on this host, on tu_clock_ns() */
  uint32_t here;        /* number of ranks of the segment */
  uint32_t rank, ranks; /* number of the rank in the job; ranks of the job */
  uint32_t pid;         /* 0: none yet */
  char host[64];        /* of the rank, as TUTTI_HOST or the system names it */
};

/* A rank considers how at most this many ranks of its host, itself included, use their CPUs. On a host with more ranks, these
 * are the rank itself and those that follow it in rank order. */
#define TU_SEEN_RANKS 64u

/* The head of a rank's slice (its part of the segment): state that all ranks of the segment can read. */
struct tu_slice_head {
  struct tu_plate plate;
  struct tu_bell bell;
  /* Nonzero once the rank has joined; a rank that has not joined counts as alive. */
  _Alignas(TU_LINE_BYTES) _Atomic uint32_t present;
  _Atomic uint32_t gone; /* nonzero: the rank has closed its endpoint; for the loop transport also: it was killed */
  /* Nonzero: the rank cannot use membarrier; then all ranks must use a fence when they ring a bell. */
  _Atomic uint32_t no_barrier;
  _Atomic uint32_t rests; /* nonzero: the rank's waiting thread rests now: it has yielded its core, or sleeps */
  struct tu_life life;    /* identity of the process; valid once `present` is set */
  /* for the shm transport; true: the rank's file lock is dropped when the rank closes any descriptor of the memory,
   * although the rank lives. Valid once `present` is set. */
  bool closes;
  _Atomic int memory_fd; /* for the shm transport: the rank's descriptor of the memory; -1: none */
  /* Total time that the rank's waiting thread has worked, in ns: it was awake between two rests (a yield or a sleep),
   * and did not only poll. Only long stretches are counted. */
  _Alignas(TU_LINE_BYTES) _Atomic uint64_t worked_ns;
  _Atomic uint64_t busy_until; /* time until which the rank assumes that other programs want busy_cpu, in ns */
  /* where the rank's waiting thread ran at the time cpu_at (ns), for comm/places.h; CPU numbers plus 1, 0: not known */
  _Atomic uint64_t cpu_at;
  _Atomic uint32_t cpu, busy_cpu;
  _Atomic uint64_t allowed; /* hash of the set of CPUs on which that thread may run; 0: not known */
  /* Written by the first rank, which deals the CPUs of this set to all ranks if these share CPUs (comm/places.h). place: number
   * in the set of the rank's CPU, plus 1; 0: none yet. seen_ns: worked_ns at the last deal. recent_ns: what the rank has
   * worked lately. Of the first rank only: dealt_at: time of the last deal. lately_ns: the time in which ranks have worked
   * recent_ns. */
  _Atomic uint32_t place;
  _Atomic uint64_t seen_ns, recent_ns, dealt_at, lately_ns;
  struct tu_waits_note waits[TU_WAITS_THREADS];
  /* Nonzero: the rank has closed its endpoint before it had a communicator. `reason` contains the reason. */
  _Atomic uint32_t gave_up;
  struct tu_error reason;
  /* List of the shared blocks of the communicators that this rank leads (mover/control.h). `blocks` is the page number,
   * in this slice, of the first block; 0: the list is empty. The version is odd while the list changes. */
  _Atomic uint32_t blocks_version, blocks;
  /* Ids of the communicators that this rank failed to create most recently. Other ranks of these communicators may
   * still wait for it. */
  _Atomic uint64_t missed[TU_MISSED];
  _Atomic uint32_t missed_codes[TU_MISSED]; /* reason for each entry of `missed`: enum tutti_err */
  _Atomic uint32_t misses;
  _Atomic uint32_t
      reported;          /* on the first rank of a host: 1: a rank of the host has reported a hang (sight/report.h) */
  _Atomic uint64_t word; /* scratch word that all ranks can read; the folder locality uses it while the job starts */
  /* For the shm transport (peer_memory.h). mark: what lies at the address mark_at of the rank's process, valid once `present`
   * is set; 0: nothing. reads_peers: nonzero: the rank reads the memory of the processes of all other ranks. */
  uint64_t mark, mark_at;
  _Atomic uint32_t reads_peers;
  _Atomic uint32_t fills_fast; /* of the first rank only, for all ranks: see struct tu_fills (mover/channel.h) */
};

/* A range of this rank's slice. A range is in use, free or resting. A resting range was released a short time ago,
 * still has its pages, and is given to the next request for as many bytes. */
struct tu_range {
  struct tu_range *before, *next; /* neighbours, by offset */
  struct tu_range *chain; /* next range of the same list: ranges in use, resting (released) ranges, or free ranges */
  uint64_t offset;
  size_t bytes;
  bool used;
  bool rests;
  bool users; /* true: owned by the user, who may give the range back */
  bool held;  /* true: given back by the user, but not reusable, because other ranks may still write into the range */
};

/* Memory of the user that was moved into this rank's slice, so that other ranks can reach it. */
struct tu_registered {
  struct tu_registered *_Atomic next;
  unsigned char *_Atomic memory;
  _Atomic size_t bytes;
  _Atomic uint64_t offset;
};

/* number of lists over which ranges in use are distributed by their offset; a power of two */
#define TU_RANGE_LISTS 1024u
/* Number of lists of resting ranges (released, with their pages): one list per power of two of bytes. */
#define TU_REST_LISTS 64u
/* Maximum bytes of a rank's resting ranges (released, with their pages). Pages above this limit go back to the
 * system. */
#define TU_REST_BYTES_MAX ((size_t)16 << 20)

struct tu_transport {
  const struct tu_transport_ops *ops;
  uint32_t rank, ranks;   /* this rank's number and the number of ranks, in the segment */
  struct tu_hosts *hosts; /* state for a job of several hosts; NULL: all ranks of the job are in the segment */
  unsigned char *base;    /* address of the segment in this process */
  size_t slice_bytes;
  uint32_t share;          /* maximum number of ranks per CPU; 0: unknown */
  tutti_parallel parallel; /* the program's means to share out work; threads = 0: none */
  tutti_foreign foreign;   /* another library that waiting threads advance; progress = NULL: none */
  _Atomic uint32_t users;  /* number of communicators that use the endpoint; the last one closes it */
  /* Whether this rank must execute a full fence when it rings a bell. false: no fence is needed, because the rank that
   * goes to sleep executes a fence on all CPUs (membarrier). */
  _Atomic bool fence;
  _Atomic bool
      asked_peers; /* this rank has tried whether it can read the memory of the others' processes (peer_memory.h) */
  struct tu_waits_owners waits;
  /* The progress thread (call/progress.h). waiting: number of threads of the program that wait for requests here. served:
   * the thread serves this endpoint, from the start of its world to the end; advanced: it advances requests, too;
   * served_next: the next endpoint that it serves. */
  _Atomic uint32_t waiting;
  _Atomic bool served;
  _Atomic uint32_t windows; /* number of windows with ranks on other hosts */
  bool advanced;
  struct tu_transport *served_next;
  struct tu_suspect *_Atomic suspects; /* ranks that may still write into this rank's memory (suspects.h) */
  /* Allocator of this rank's slice (its part of the segment), protected by `lock`. */
  pthread_mutex_t lock;
  struct tu_range *ranges; /* all ranges, ordered by offset */
  struct tu_range *free_ranges;
  struct tu_range *used_ranges[TU_RANGE_LISTS];
  struct tu_range *resting_ranges[TU_REST_LISTS];
  size_t free_bytes; /* bytes of the slice that are not in use; includes resting ranges (released, with their pages) */
  size_t resting_bytes;
  /* List of the user's registered memory. Other threads read the list without the lock, so entries are freed only when
   * the endpoint closes. Until then, removed entries are kept in `retired` for reuse. The version is odd while the list
   * changes. */
  struct tu_registered *_Atomic registered;
  struct tu_registered *retired;
  _Atomic uint32_t registered_version;
};

/* ---- ranks of the job ---- */

#define TU_REMOTE UINT32_MAX

/* A job whose ranks run on several hosts, as one of its processes sees it. */
struct tu_hosts {
  uint32_t rank, ranks;    /* this rank's number and the number of ranks, in the job */
  uint32_t *locals;        /* [ranks]: each rank's number in this host's segment, or TU_REMOTE */
  int bell_fd;             /* datagram socket that wakes the thread of this rank that waits on it (bell.c); owned */
  int wire_fd;             /* descriptor of the wire, on which that thread waits, too */
  _Atomic uint32_t losses; /* number of connections to other hosts that have ended */
  void (*close)(struct tu_hosts *hosts);
  /* Called before the user's memory that begins there is freed or deregistered: ranks of other hosts reach it no more. */
  void (*forget)(struct tu_hosts *hosts, const void *base);
  void (*cut)(struct tu_hosts *hosts); /* for tests: acts as if this process had been killed */
};

/* Returns the number in the segment of a rank of the job; TU_REMOTE: the rank runs on another host. */
static inline uint32_t tu_transport_local(const struct tu_transport *t, uint32_t rank) {
  return t->hosts ? t->hosts->locals[rank] : rank;
}
static inline uint32_t tu_transport_job_rank(const struct tu_transport *t) {
  return t->hosts ? t->hosts->rank : t->rank;
}
static inline uint32_t tu_transport_job_ranks(const struct tu_transport *t) {
  return t->hosts ? t->hosts->ranks : t->ranks;
}

/* Returns the number of connections to other hosts that have ended. */
static inline uint32_t tu_transport_losses(const struct tu_transport *t) {
  return t->hosts ? atomic_load_explicit(&t->hosts->losses, memory_order_relaxed) : 0;
}

/* ---- memory ---- */

#define TU_LARGE_PAGE ((size_t)2 << 20)

#define TU_OFFSET_ALIGN 4096u
/* Bytes of the head of a slice. The memory that the rank allocates lies behind the head. */
#define TU_HEAD_BYTES ((uint64_t)4096)

/* Initializes the part of an endpoint that all transports share. Returns false if out of memory; then tu_transport_fini
 * must not be called. */
bool tu_transport_init(struct tu_transport *t, const struct tu_transport_ops *ops, uint32_t rank, uint32_t ranks,
                       void *base, size_t slice_bytes);
void tu_transport_fini(struct tu_transport *t);

/* Allocates memory in this rank's slice; its content is undefined. Aligned to 4096 bytes, or to 2 MiB (a large page)
 * if it has at least 2 MiB. Returns NULL and sets TUTTI_ERR_MEMORY if the slice is full. */
void *tu_transport_acquire(struct tu_transport *t, size_t bytes, uint64_t *offset, struct tu_error *error);
/* Makes the user the owner of the range at `offset`, or ends this ownership. Returns false if that was done already, or
 * if there is no such range. */
bool tu_transport_hand_over(struct tu_transport *t, uint64_t offset, bool to_user);
/* Releases the whole range at `offset`. The range then rests (keeps its pages for the next request of its size). If too
 * many bytes rest already, its pages go back to the system instead. Returns false if there is no such range. */
bool tu_transport_release(struct tu_transport *t, uint64_t offset);
/* Releases a range that other ranks can reach. While there are suspects (ranks that may still write into it), the range
 * is held until tu_transport_release_held. */
bool tu_transport_give_back(struct tu_transport *t, uint64_t offset);
void tu_transport_release_held(struct tu_transport *t);
/* Gives the pages of all resting ranges (released ranges that kept their pages) back to the system. */
void tu_transport_trim(struct tu_transport *t);
/* Returns the bytes of this rank's slice that are not in use. */
size_t tu_transport_free_bytes(struct tu_transport *t);

static inline void tu_transport_populate(struct tu_transport *t, uint64_t offset, size_t bytes, bool fresh) {
  if (t->ops->populate) t->ops->populate(t, offset, bytes, fresh);
}

/* Moves the user's memory (whole pages) into this rank's slice, with the same address and content. No other thread
 * may use the memory during the call. Errors: TUTTI_ERR_MEMORY, TUTTI_ERR_SYSTEM; the memory is then unchanged. */
tutti_err tu_transport_register(struct tu_transport *t, void *memory, size_t bytes, struct tu_error *error);
/* Makes registered memory private to the process again, with its content. TUTTI_ERR_ARGUMENT if it is not
 * registered. */
tutti_err tu_transport_deregister(struct tu_transport *t, void *memory, struct tu_error *error);

static inline void *tu_transport_at(const struct tu_transport *t, uint64_t offset) { return t->base + offset; }
/* Returns true if any part of the memory is registered, or in the segment. */
bool tu_transport_shares(struct tu_transport *t, const void *memory, size_t bytes);
/* Returns the offset in the segment of `bytes` bytes of registered memory. Returns 0 if they do not lie within one
 * registration, for example if a buffer begins in registered memory and ends outside of it. */
uint64_t tu_transport_registered(struct tu_transport *t, const void *memory, size_t bytes);
static inline uint64_t tu_transport_offset_of(struct tu_transport *t, const void *memory, size_t bytes) {
  uint64_t offset = (uint64_t)((uintptr_t)memory - (uintptr_t)t->base);
  if (offset < t->slice_bytes * t->ranks) return offset;
  return atomic_load_explicit(&t->registered, memory_order_relaxed) ? tu_transport_registered(t, memory, bytes) : 0;
}
/* Returns true if all ranks can reach the memory. The memory must then lie within one allocation or registration of
 * this rank's user. *offset becomes the offset of the memory; 0: all ranks are in this process and use the address. */
bool tu_transport_offers(struct tu_transport *t, const void *memory, size_t bytes, uint64_t *offset);
/* Finds the allocation or registration of this rank's user in which the memory lies. Returns false if it lies in none. */
bool tu_transport_whole(struct tu_transport *t, const void *memory, size_t bytes, void **base, size_t *whole);
/* Returns the offset in the segment of an address; 0: the address is not in shared memory. */
static inline uint64_t tu_transport_offset(struct tu_transport *t, const void *address) {
  return tu_transport_offset_of(t, address, 1);
}
static inline struct tu_slice_head *tu_transport_head(const struct tu_transport *t, uint32_t rank) {
  return (struct tu_slice_head *)(void *)(t->base + rank * t->slice_bytes);
}
/* Called once all ranks have joined. If all ranks can use membarrier, this rank rings bells without a fence from then
 * on. */
void tu_transport_settle(struct tu_transport *t);
/* Returns true if that rank of the segment lives, or has not joined yet. */
static inline bool tu_transport_alive(struct tu_transport *t, uint32_t rank) {
  return rank == t->rank || !atomic_load(&tu_transport_head(t, rank)->present) || t->ops->alive(t, rank);
}
/* Publishes why this rank closes its endpoint before it has a communicator. Without this reason the other ranks would
 * count this rank as dead. */
void tu_transport_give_up(struct tu_transport *t, const struct tu_error *reason);
/* Returns true if that rank has given up (closed its endpoint before it had a communicator); *error is then the
 * reason. */
bool tu_transport_gave_up(const struct tu_transport *t, uint32_t rank, struct tu_error *error);

/* ---- bells ----
 * The rank that sleeps: token = tu_bell_arm(); check once more for new data; if there is none, tu_bell_sleep(token);
 * tu_bell_disarm(). The rank that wakes it: publish the data; tu_bell_ring().
 * Either the sleeper's second check sees the data, or the other rank sees the sleeper: both have a full fence between
 * their store and their load. The sleeper's membarrier may serve as the other rank's fence. */
/* Registers this process for membarrier, which tu_bell_arm uses. Returns false if the kernel does not support it. In a
 * process with several threads, the first call waits until the kernel has switched threads on all CPUs: 10 ms on a
 * quiet machine, up to 2 s if ten busy processes share two CPUs. Later calls do not wait. */
bool tu_bell_register(void);
/* For a job of several hosts: makes the socket of this rank's bell. Returns -1 on failure; *error is then the reason. */
int tu_bell_open(struct tu_transport *t, struct tu_error *error);
uint32_t tu_bell_arm(struct tu_transport *t);
void tu_bell_sleep(struct tu_transport *t, uint32_t token, int timeout_ms);
void tu_bell_disarm(struct tu_transport *t);
void tu_bell_wake(struct tu_transport *t, uint32_t rank); /* rings the bell even if no thread sleeps */

static inline void tu_bell_ring(struct tu_transport *t, uint32_t rank) {
  struct tu_bell *bell = &tu_transport_head(t, rank)->bell;
#ifdef __SANITIZE_THREAD__
  /* The thread sanitizer does not support fences. So read the number of sleepers by an atomic read-modify-write. */
  if (atomic_fetch_add(&bell->sleepers, 0) != 0) tu_bell_wake(t, rank);
#else
  if (atomic_load_explicit(&t->fence, memory_order_relaxed)) atomic_thread_fence(memory_order_seq_cst);
  else atomic_signal_fence(memory_order_seq_cst);
  if (atomic_load_explicit(&bell->sleepers, memory_order_relaxed) != 0) tu_bell_wake(t, rank);
#endif
}

/* ---- implementations ---- */

/* Creates the endpoints of `ranks` ranks in this process, over private memory. Each endpoint is closed separately, and
 * the last close frees the memory. slice_bytes 0: the default. */
tutti_err tu_loop_create(uint32_t ranks, size_t slice_bytes, struct tu_transport *endpoints[], struct tu_error *error);
/* For tests: marks the rank as dead, as if its process had been killed. */
void tu_loop_kill(struct tu_transport *t);

/* Creates the endpoint of this process: rank `rank` of the ranks that share the memory behind memory_fd. On success
 * the endpoint owns memory_fd. */
tutti_err tu_shm_create(uint32_t rank, uint32_t ranks, int memory_fd, size_t slice_bytes, struct tu_transport **t,
                        struct tu_error *error);
struct tu_job;
/* Collective: makes this process a rank of its host's segment. tu_job_meet must have succeeded. All ranks return the same
 * error: the reason why one rank could not create, get or map the memory. */
tutti_err tu_shm_join(struct tu_job *job, struct tu_transport **t, struct tu_error *error);

#endif
