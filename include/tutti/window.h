/* window.h: one-sided calls: a rank reads and writes memory of others, who do nothing.
 *
 * A window is memory of each rank of a communicator that all of them may reach. Its parts are named by their
 * addresses in this process (tutti_window_address); an address that lies in no window is refused. Nothing here waits
 * for the other side, but for the signals that a program waits for itself: it is the program's part to say, by
 * signals or a barrier, when data is there and when it may be overwritten.
 *
 * Errors are ARGUMENT unless something else is said; the sentence is at tutti_error_message(NULL), and the window
 * stays usable. Once the communicator has failed, its windows return the verdict.
 *
 * put, get, put_add, signal_set, signal_add and signal_test may be called by any number of threads at once; all else
 * on windows of one communicator, and a session with its events, by one at a time. Of these, creating and freeing a window
 * and signal_wait are calls on the communicator: a second thread waits for its turn there (tutti/tutti.h). */
#ifndef TUTTI_WINDOW_H
#define TUTTI_WINDOW_H

#include <tutti/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tutti_window tutti_window;

/* Collective: `bytes` of this rank's memory (the ranks may differ) become its part of a new window. memory: NULL (it
 * is allocated, as by tutti_alloc, and cleared), or memory of tutti_alloc, or registered (tutti_register), in one
 * piece; it stays so until the window is freed, and is in no other window. Errors: ARGUMENT, MEMORY; if it fails on
 * one rank, it fails on all, and all get that rank's sentence. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_window_create(tutti_comm *comm, void *memory, size_t bytes,
                                                      tutti_window **window);
/* Collective; waits for all ranks, and comes before tutti_comm_free. Memory that the window allocated is gone.
 * Returns the verdict if the communicator has failed; then it does not wait. The window is gone in every case. NULL
 * is accepted. */
TUTTI_API tutti_err tutti_window_free(tutti_window *window);
/* Where that rank's part begins in this process; NULL if there is no such rank. And how long it is. */
TUTTI_API void *tutti_window_address(const tutti_window *window, uint32_t rank);
TUTTI_API size_t tutti_window_bytes(const tutti_window *window, uint32_t rank);

/* ---- events ---- */

/* What a call leaves behind, to be waited for. Zero is one that is over. Waiting for an event waits for all before it
 * in its session, too; it may be waited for again. */
typedef struct tutti_event {
  uint64_t session, number;
} tutti_event;

/* Every call below takes events to wait for first, and returns one: zero, for it is over when the call returns. NULL:
 * none, and nobody asks. */
typedef struct tutti_events {
  const tutti_event *after;
  uint32_t after_count;
  tutti_event *event;
} tutti_events;

TUTTI_API TUTTI_CHECKED tutti_err tutti_event_wait(tutti_event event);

/* ---- staging ---- */

/* How data passes through this rank's own small memory: a tile slides over rows and columns of the last two
 * dimensions, one matrix after the other, and everything goes from there to here through it. With two tiles the load
 * of the next part overlaps the store of the last. What fits a tile as a whole passes at once. tiles[0] == NULL:
 * straight from there to here. Results have the same bits in all three ways. Tiles are the caller's: aligned to their
 * elements, apart from each other and from all data of the call. Block floats go straight only. */
typedef struct tutti_staging {
  void *tiles[2];
  size_t rows, cols;             /* as the tile lies in memory: rows x cols elements, row-major */
  size_t valid_rows, valid_cols; /* so many of them are used, at most; 0: all */
  /* ... and never less: then dimensions 3 and 4 of what passes must be multiples, unless it fits as a whole. */
  bool fixed_rows, fixed_cols;
} tutti_staging;

/* ---- two ranks ---- */

/* to = from. What is put to, or got from, lies in a rank's part of a window, the other anywhere; types and shapes are
 * equal, layouts may differ. They share no elements, or are the same: then nothing happens. staging NULL: straight.
 * Tensors of nothing: nothing happens. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_put(const tutti_tensor *to, const tutti_tensor *from,
                                            const tutti_staging *staging, const tutti_events *events);
TUTTI_API TUTTI_CHECKED tutti_err tutti_get(const tutti_tensor *to, const tutti_tensor *from,
                                            const tutti_staging *staging, const tutti_events *events);
/* to += from, element by element, each atomically: several ranks may add to the same tensor at once. i32, u32, i64,
 * u64, f32, f64, f16 and bf16; `to` is aligned to its elements. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_put_add(const tutti_tensor *to, const tutti_tensor *from,
                                                const tutti_staging *staging, const tutti_events *events);

/* The same, not waited for: begun, and done at the latest when its event, or a later one of the session, has been
 * waited for; until then nobody changes `from` or reads `to`, and the window stays. Flat tensors only (one run of
 * memory). A session keeps the order of its calls. */
typedef struct tutti_session tutti_session;
TUTTI_API TUTTI_CHECKED tutti_err tutti_session_create(tutti_session **session);
/* Waits for its last event. NULL is accepted. */
TUTTI_API tutti_err tutti_session_free(tutti_session *session);
TUTTI_API TUTTI_CHECKED tutti_err tutti_put_start(tutti_session *session, const tutti_tensor *to,
                                                  const tutti_tensor *from, tutti_event *event);
TUTTI_API TUTTI_CHECKED tutti_err tutti_get_start(tutti_session *session, const tutti_tensor *to,
                                                  const tutti_tensor *from, tutti_event *event);

/* ---- signals: i32 in a window ---- */

typedef enum tutti_compare { TUTTI_EQ, TUTTI_NE, TUTTI_GT, TUTTI_GE, TUTTI_LT, TUTTI_LE } tutti_compare;

/* What this rank has written before is seen by whoever has seen the signal. An i32, aligned to 4; sums wrap. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_signal_set(int32_t *signal, int32_t value, const tutti_events *events);
TUTTI_API TUTTI_CHECKED tutti_err tutti_signal_add(int32_t *signal, int32_t value, const tutti_events *events);
/* Until all signals of the tensor (i32, any layout, this rank's part of a window) compare so with `value`, in one
 * pass over them. timeout_ms: 0 or negative: none; TIMEOUT names the first signal that does not, and its value.
 * Errors: also PEER, if a rank of the communicator dies meanwhile, and its verdict. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_signal_wait(const tutti_tensor *signals, tutti_compare compare, int32_t value,
                                                    int timeout_ms, const tutti_events *events);
TUTTI_API TUTTI_CHECKED tutti_err tutti_signal_test(const tutti_tensor *signals, tutti_compare compare, int32_t value,
                                                    bool *all);

/* ---- collectives that the root alone calls ---- */

/* One tensor a rank, of one shape, one type and one set of strides (or one layout), in one window: of all its ranks or
 * of some, in any order, which is the order of the group; root: the caller's place in it. Two roots in such a call on
 * one window at once is an error if their groups share a rank, reported to whoever comes second. Tensors of no rows or
 * no columns: nothing happens.
 *
 * `to` and `from` are the root's own memory, in a window or not, of the same type, and the same shape but for
 * dimension 3. The root's own tensor of the group may be the very part of them that is meant for it; else they are
 * apart. */
typedef struct tutti_group {
  const tutti_tensor *tensors;
  uint32_t count;
  uint32_t root;
} tutti_group;

/* to: rows (dimension 3) of all ranks, one rank's after the other's; if it has more, they stay as they are. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_group_gather(const tutti_group *group, const tutti_tensor *to,
                                                     const tutti_staging *staging, const tutti_events *events);
/* The inverse; rows of `from` beyond what the ranks take do not matter. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_group_scatter(const tutti_group *group, const tutti_tensor *from,
                                                      const tutti_staging *staging, const tutti_events *events);
/* To all ranks, the root too; if their tensors have more rows than `from`, those stay as they are. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_group_broadcast(const tutti_group *group, const tutti_tensor *from,
                                                        const tutti_staging *staging, const tutti_events *events);
/* sum, min or max: the root's own data first, then the others' in the order of the group, rounded after each; if
 * `to` has more rows, they stay as they are. The accumulator is one more tile of the same size; NULL, or without
 * staging: the library's own. Errors: also MEMORY. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_group_reduce(const tutti_group *group, const tutti_tensor *to, tutti_op op,
                                                     void *accumulator, const tutti_staging *staging,
                                                     const tutti_events *events);

#ifdef __cplusplus
}
#endif
#endif
