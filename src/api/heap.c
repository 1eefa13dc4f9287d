/* heap.c: shared memory for the user's buffers: allocates a buffer in this rank's slice (its share of the memory),
 * or moves a buffer there. */
#include <unistd.h>

#include "comm/failure.h"
#include "transport/suspects.h"

static tutti_err refuse(const char *call, const void *memory, const char *why) {
  struct tu_error error;
  tu_fail(&error, TUTTI_ERR_ARGUMENT, "%s: %s (memory %p)", call, why, memory);
  return tu_thread_error(&error);
}

/* In a child of fork(), sets the thread's error and returns true, because the memory belongs to the parent process. Any
 * thread may call this function. */
static bool is_child(const tutti_comm *comm, const char *call) {
  struct tu_error error;
  return tu_refuse_child(comm->process, call, &error) != TUTTI_OK && tu_thread_error(&error) != TUTTI_OK;
}

tutti_err tutti_alloc(tutti_comm *comm, size_t bytes, void **memory) {
  struct tu_error error;
  uint64_t offset;
  if (!comm || !memory) return tu_refuse_null("tutti_alloc", comm ? "memory" : "comm");
  if (is_child(comm, "tutti_alloc")) return TUTTI_ERR_ARGUMENT;
  struct tu_transport *t = comm->transport;
  /* After a failure, other ranks may still write into memory that the program has freed, so such memory is held back.
   * Release it here, if no rank can write into it any more. */
  tu_suspects_look(t);
  *memory = tu_transport_acquire(t, bytes, &offset, &error);
  if (!*memory) {
    (void)tu_fail_in("tutti_alloc", &error);
    return tu_thread_error(&error);
  }
  bool handed = tu_transport_hand_over(t, offset, true);
  tu_assert(handed);
  tu_transport_populate(t, offset, bytes, true);
  return TUTTI_OK;
}

tutti_err tutti_free(tutti_comm *comm, void *memory) {
  if (!memory) return TUTTI_OK;
  if (!comm) return tu_refuse_null("tutti_free", "comm");
  if (is_child(comm, "tutti_free")) return TUTTI_ERR_ARGUMENT;
  struct tu_transport *t = comm->transport;
  uint64_t offset = tu_transport_offset(t, memory);
  if (offset == 0 || tu_transport_at(t, offset) != memory || !tu_transport_hand_over(t, offset, false))
    return refuse("tutti_free", memory,
                  "expected the beginning of an allocation that tutti_alloc has returned on this rank");
  tu_suspects_look(t);
  bool given_back = tu_transport_give_back(t, offset);
  tu_assert(given_back);
  return TUTTI_OK;
}

tutti_err tutti_register(tutti_comm *comm, void *memory, size_t bytes) {
  struct tu_error error;
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  if (!comm || !memory) return tu_refuse_null("tutti_register", comm ? "memory" : "comm");
  if (bytes == 0) return refuse("tutti_register", memory, "bytes is 0");
  if (is_child(comm, "tutti_register")) return TUTTI_ERR_ARGUMENT;
  if (((uintptr_t)memory | bytes) % page != 0) {
    tu_fail(&error, TUTTI_ERR_ARGUMENT,
            "tutti_register: %zu bytes at %p are not whole pages of %zu bytes; allocate the memory with aligned_alloc",
            bytes, memory, page);
    return tu_thread_error(&error);
  }
  if (tu_transport_shares(comm->transport, memory, bytes))
    return refuse("tutti_register", memory, "part of the memory is already shared or registered");
  tutti_err err = tu_transport_register(comm->transport, memory, bytes, &error);
  if (err == TUTTI_OK) return TUTTI_OK;
  (void)tu_fail_in("tutti_register", &error);
  return tu_thread_error(&error);
}

tutti_err tutti_deregister(tutti_comm *comm, void *memory) {
  struct tu_error error;
  if (!comm || !memory) return tu_refuse_null("tutti_deregister", comm ? "memory" : "comm");
  if (is_child(comm, "tutti_deregister")) return TUTTI_ERR_ARGUMENT;
  tu_suspects_look(comm->transport);
  tutti_err err = tu_transport_deregister(comm->transport, memory, &error);
  if (err == TUTTI_OK) return TUTTI_OK;
  (void)tu_fail_in("tutti_deregister", &error);
  return tu_thread_error(&error);
}
