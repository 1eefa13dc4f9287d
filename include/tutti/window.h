/* window.h: one-sided calls: a rank reads and writes the memory of other ranks, which take no part in the call.
 *
 * A window has one part per rank of a communicator. A part is memory of its rank that all ranks of the communicator may
 * read and write. Calls name memory in a window by its address in this process (tutti_window_address). An address that
 * lies in no window is refused. One-sided calls do not wait for other ranks; only tutti_signal_wait does. The program
 * must synchronize, by signals or a barrier: data must be complete before it is read, and must not be overwritten while
 * it is still needed.
 *
 * Errors: TUTTI_ERR_ARGUMENT, unless a comment names others; the window stays usable. tutti_error_message(NULL) returns
 * the message. Once the communicator has failed, calls on its windows return its verdict (its first failure).
 *
 * Who may call: all functions are local (tutti/tutti.h), except tutti_window_create and tutti_window_free, which are
 * collective.
 *
 * Threads: tutti_put, tutti_get, tutti_put_add, tutti_signal_set, tutti_signal_add, tutti_signal_test,
 * tutti_window_address and tutti_window_bytes may be called by any number of threads at once. All other calls on the
 * windows of one communicator may be made by only one thread at a time. The same holds for all calls on one session and
 * its events. However, tutti_window_create, tutti_window_free and tutti_signal_wait are calls on the communicator: if a
 * second thread makes one, it waits for its turn (tutti/tutti.h). */
#ifndef TUTTI_WINDOW_H
#define TUTTI_WINDOW_H

#include <tutti/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tutti_window tutti_window;

/* Collective: creates a window. This rank's part has `bytes` bytes; the ranks may give different numbers. `memory` is
 * this rank's part, which must lie within one allocation of tutti_alloc or one registration of tutti_register. This
 * memory must stay allocated or registered until the window is freed, and must not be part of another window. If
 * `memory` is NULL, the library allocates the memory, as tutti_alloc does, and clears it. The caller frees the window
 * with tutti_window_free. Errors: TUTTI_ERR_ARGUMENT, TUTTI_ERR_MEMORY, TUTTI_ERR_SYSTEM.
 * If the call fails on one rank, it fails on all, with the message of that rank. Any thread. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_window_create(tutti_comm *comm, void *memory, size_t bytes,
                                                      tutti_window **window);
/* Collective: waits for all ranks and frees the window, and the memory that the window allocated. Must be called before
 * tutti_comm_free. If the communicator has failed, the call does not wait and returns the verdict (the first failure).
 * The window is freed in every case. NULL is accepted. No other thread may use the window. */
TUTTI_API tutti_err tutti_window_free(tutti_window *window);
/* Returns the address, in this process, of the part of `rank`; tutti_window_bytes returns the size of the part. The
 * results are NULL and 0 if there is no such rank. If the rank runs on another host, the address only names its memory in
 * calls; a load or a store there ends the program (SIGSEGV). Local; any thread. The memory belongs to the window; other
 * threads must not free the window meanwhile. */
TUTTI_API void *tutti_window_address(const tutti_window *window, uint32_t rank);
TUTTI_API size_t tutti_window_bytes(const tutti_window *window, uint32_t rank);
/* Sets *memory to the address at which this process may load from the part of `rank` and store to it. Errors:
 * TUTTI_ERR_ARGUMENT; TUTTI_ERR_UNSUPPORTED if the rank runs on another host (*memory is then NULL). Local; any thread. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_window_memory(const tutti_window *window, uint32_t rank, void **memory);

/* ---- events ---- */

/* An event: it is completed when a one-sided call is complete. The zero value is a completed event. Waiting for an
 * event also waits for all earlier events of its session. A program may wait for an event more than once. */
typedef struct tutti_event {
  uint64_t session, number;
} tutti_event;

/* The events of a call. The call first waits for the events in `after`. The call sets *event to zero (a completed
 * event), because the call is complete when it returns; `event` may be NULL. If the pointer to this struct is NULL, the
 * call waits for no event and returns none. */
typedef struct tutti_events {
  const tutti_event *after;
  uint32_t after_count;
  tutti_event *event;
} tutti_events;

/* Waits until the event is completed. Local; the thread that uses the session. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_event_wait(tutti_event event);

/* ---- staging ---- */

/* Memory of this rank through which the data of a call passes: one or two tiles. A tile moves over the rows and columns
 * of the last two dimensions, one matrix after the other, and all data is copied through it. With two tiles, the load
 * of the next part overlaps the store of the previous one. Data that fits into a tile as a whole is copied in one step.
 * If tiles[0] is NULL, data is copied directly. The result has the same bits without tiles, with one tile and with two.
 * The caller owns the tiles. They must be aligned to the element size, and must not overlap each other or any data of
 * the call. Block floats can only be copied directly. */
typedef struct tutti_staging {
  void *tiles[2];
  /* fixed_rows: every tile is used with exactly valid_rows rows, so dimension 3 of the data must be a multiple of
   * valid_rows. fixed_cols: every tile is used with exactly valid_cols columns, so dimension 4 must be a multiple of
   * valid_cols. Data that fits the tile as a whole is always accepted. */
  bool fixed_rows, fixed_cols;
  size_t rows, cols;             /* size of a tile in memory: rows x cols elements, row-major */
  size_t valid_rows, valid_cols; /* maximum number of rows and columns of the tile to use; 0: all */
  /* New fields are added at the end, here. */
} tutti_staging;

/* ---- two ranks ---- */

/* Copies `from` to `to`. The `to` of tutti_put, and the `from` of tutti_get, lies in one rank's part of a window; the
 * other tensor lies anywhere. Types and shapes must be equal; layouts may differ. The tensors must not overlap, with
 * one exception: if they consist of the same elements, nothing is copied. Empty tensors are accepted. If `staging` is
 * NULL, data is copied directly. Local: only the rank that copies makes the call. Tensors, staging, tiles and events
 * are used until the return. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_put_sized(const tutti_tensor *from, const tutti_tensor *to,
                                                  const tutti_staging *staging, size_t staging_bytes,
                                                  const tutti_events *events);
TUTTI_CHECKED static inline tutti_err tutti_put(const tutti_tensor *from, const tutti_tensor *to,
                                                const tutti_staging *staging, const tutti_events *events) {
  return tutti_put_sized(from, to, staging, sizeof *staging, events);
}
TUTTI_API TUTTI_CHECKED tutti_err tutti_get_sized(const tutti_tensor *from, const tutti_tensor *to,
                                                  const tutti_staging *staging, size_t staging_bytes,
                                                  const tutti_events *events);
TUTTI_CHECKED static inline tutti_err tutti_get(const tutti_tensor *from, const tutti_tensor *to,
                                                const tutti_staging *staging, const tutti_events *events) {
  return tutti_get_sized(from, to, staging, sizeof *staging, events);
}
/* Adds `from` to `to`, element by element. Each addition is atomic, so several ranks may add to one tensor at once.
 * Types: i32, u32, i64, u64, f32, f64, f16 and bf16. `to` must lie in a window, and be aligned to its element size.
 * Local. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_put_add_sized(const tutti_tensor *from, const tutti_tensor *to,
                                                      const tutti_staging *staging, size_t staging_bytes,
                                                      const tutti_events *events);
TUTTI_CHECKED static inline tutti_err tutti_put_add(const tutti_tensor *from, const tutti_tensor *to,
                                                    const tutti_staging *staging, const tutti_events *events) {
  return tutti_put_add_sized(from, to, staging, sizeof *staging, events);
}

/* A sequence of non-blocking puts and gets, carried out in order. Each put or get is complete at the latest after a
 * wait for its event, or for a later event of the session. Until then the program must not change `from`, read `to` or
 * free the window. Both tensors must be flat (one contiguous run of memory). */
typedef struct tutti_session tutti_session;
/* Creates a session and sets *session. Local; any thread. The caller frees the session with tutti_session_free. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_session_create(tutti_session **session);
/* Waits for the last event of the session and frees the session. NULL is accepted. Local; no other thread may use the
 * session. */
TUTTI_API tutti_err tutti_session_free(tutti_session *session);
/* Start a copy of `from` to `to`, as tutti_put and tutti_get do, and set *event; event may be NULL. Local; one thread
 * at a time for one session. The descriptions of the tensors are copied; the elements must stay until the copy is
 * complete. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_put_start(tutti_session *session, const tutti_tensor *from,
                                                  const tutti_tensor *to, tutti_event *event);
TUTTI_API TUTTI_CHECKED tutti_err tutti_get_start(tutti_session *session, const tutti_tensor *from,
                                                  const tutti_tensor *to, tutti_event *event);

/* ---- signals: i32 in a window ---- */

typedef enum tutti_compare {
  TUTTI_EQ = 0,
  TUTTI_NE = 1,
  TUTTI_GT = 2,
  TUTTI_GE = 3,
  TUTTI_LT = 4,
  TUTTI_LE = 5,
} tutti_compare;

/* Sets a signal to `value`, or adds `value` to it. A signal is an i32 in a window, aligned to 4 bytes; sums wrap
 * around. A rank that has read the new value then also reads all data that this rank wrote before the call. Local. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_signal_set(int32_t *signal, int32_t value, const tutti_events *events);
TUTTI_API TUTTI_CHECKED tutti_err tutti_signal_add(int32_t *signal, int32_t value, const tutti_events *events);
/* tutti_signal_wait waits until, in one pass over the tensor, all signals satisfy the comparison `compare` with
 * `value`. tutti_signal_test makes one pass and sets *all to the result. The tensor is i32, of any layout, in this
 * rank's part of a window. A timeout_ms of 0 means no limit. The message of TUTTI_ERR_TIMEOUT names the first signal
 * that does not satisfy the comparison, and its value. Further errors: TUTTI_ERR_PEER if a rank of the communicator
 * dies during the call, or the verdict (first failure) of the communicator. Local. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_signal_wait(const tutti_tensor *signals, tutti_compare compare, int32_t value,
                                                    int timeout_ms, const tutti_events *events);
TUTTI_API TUTTI_CHECKED tutti_err tutti_signal_test(const tutti_tensor *signals, tutti_compare compare, int32_t value,
                                                    bool *all);

/* ---- collectives that the root alone calls ---- */

/* A group of ranks for the collectives below, which only the root calls. The group has one tensor per rank. The tensors
 * have one shape, one type, and the same strides or layout. They lie in one window, each in the part of a different
 * rank. The ranks are all ranks of the window or some of them, in any order; this order is the order of the group.
 * `root` is the index of the caller in the group. Two roots must not make such calls on one window at the same time if
 * their groups share a rank; the later call returns TUTTI_ERR_ARGUMENT. With tensors of no rows or no columns the calls
 * do nothing.
 *
 * The arguments `to` and `from` below are the root's own memory, in a window or not. `to` and `from` have the type of
 * the group's tensors, and the same shape except for dimension 3. The root's tensor of the group may be exactly the
 * root's block of `to` or `from`; otherwise it must not overlap `to` or `from`. */
typedef struct tutti_onesided_group {
  const tutti_tensor *tensors;
  uint32_t count;
  uint32_t root;
} tutti_onesided_group;

/* Gathers the rows (dimension 3) of all ranks into `to`, in the order of the group. If `to` has more rows, these stay
 * unchanged. In this call and those below, `group` and its array, `to` or `from`, tiles and events are used until the
 * return. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_onesided_gather_sized(const tutti_onesided_group *group, const tutti_tensor *to,
                                                              const tutti_staging *staging, size_t staging_bytes,
                                                              const tutti_events *events);
TUTTI_CHECKED static inline tutti_err tutti_onesided_gather(const tutti_onesided_group *group, const tutti_tensor *to,
                                                            const tutti_staging *staging, const tutti_events *events) {
  return tutti_onesided_gather_sized(group, to, staging, sizeof *staging, events);
}
/* Scatters the rows (dimension 3) of `from` to all ranks, in the order of the group. If `from` has more rows, these are
 * ignored. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_onesided_scatter_sized(const tutti_onesided_group *group,
                                                               const tutti_tensor *from, const tutti_staging *staging,
                                                               size_t staging_bytes, const tutti_events *events);
TUTTI_CHECKED static inline tutti_err tutti_onesided_scatter(const tutti_onesided_group *group,
                                                             const tutti_tensor *from, const tutti_staging *staging,
                                                             const tutti_events *events) {
  return tutti_onesided_scatter_sized(group, from, staging, sizeof *staging, events);
}
/* Copies `from` to the tensors of all ranks, including the root's tensor. If these tensors have more rows (dimension 3)
 * than `from`, the additional rows stay unchanged. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_onesided_broadcast_sized(const tutti_onesided_group *group,
                                                                 const tutti_tensor *from, const tutti_staging *staging,
                                                                 size_t staging_bytes, const tutti_events *events);
TUTTI_CHECKED static inline tutti_err tutti_onesided_broadcast(const tutti_onesided_group *group,
                                                               const tutti_tensor *from, const tutti_staging *staging,
                                                               const tutti_events *events) {
  return tutti_onesided_broadcast_sized(group, from, staging, sizeof *staging, events);
}
/* Reduces the tensors of all ranks into `to`, with op TUTTI_SUM, TUTTI_MIN or TUTTI_MAX: the root's data first, then
 * the other ranks' data in the order of the group, rounded after each operation. If `to` has more rows than the group's
 * tensors, these stay unchanged. `accumulator` is one more tile of the size of the staging tiles; if it is NULL, or
 * without staging, the library uses its own memory. Further error: TUTTI_ERR_MEMORY. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_onesided_reduce_sized(const tutti_onesided_group *group, const tutti_tensor *to,
                                                              tutti_op op, void *accumulator,
                                                              const tutti_staging *staging, size_t staging_bytes,
                                                              const tutti_events *events);
TUTTI_CHECKED static inline tutti_err tutti_onesided_reduce(const tutti_onesided_group *group, const tutti_tensor *to,
                                                            tutti_op op, void *accumulator,
                                                            const tutti_staging *staging, const tutti_events *events) {
  return tutti_onesided_reduce_sized(group, to, op, accumulator, staging, sizeof *staging, events);
}

#ifdef __cplusplus
}
#endif
#endif
