/* heap.c: memory that all ranks see, for the user's buffers: out of this rank's slice, or moved into it. */
#include <unistd.h>

#include "api/comm.h"
#include "transport/suspects.h"

static tutti_err refuse(const char *call, const void *memory, const char *why) {
  struct tu_error error;
  tu_fail(&error, TUTTI_ERR_ARGUMENT, "%s: %s (memory %p)", call, why, memory);
  return tu_thread_error(&error);
}

/* What a child would take or give back here is its parent's. Any thread may call. */
static bool is_child(const tutti_comm *comm, const char *call) {
  struct tu_error error;
  return tu_refuse_child(comm->process, call, &error) != TUTTI_OK && tu_thread_error(&error) != TUTTI_OK;
}

tutti_err tutti_alloc(tutti_comm *comm, size_t bytes, void **memory) {
  struct tu_error error;
  uint64_t place;
  if (!comm || !memory) return refuse("tutti_alloc", memory, "a communicator and a place for the memory are needed");
  if (is_child(comm, "tutti_alloc")) return TUTTI_ERR_ARGUMENT;
  struct tu_transport *t = comm->transport;
  tu_suspects_look(t); /* if there are none any more, what was held is free */
  *memory = tu_transport_acquire(t, bytes, &place, &error);
  if (!*memory) return tu_thread_error(&error);
  bool handed = tu_transport_hand_over(t, place, true);
  tu_assert(handed);
  tu_transport_populate(t, place, bytes, true);
  return TUTTI_OK;
}

tutti_err tutti_free(tutti_comm *comm, void *memory) {
  if (!memory) return TUTTI_OK;
  if (!comm) return refuse("tutti_free", memory, "the communicator is NULL");
  if (is_child(comm, "tutti_free")) return TUTTI_ERR_ARGUMENT;
  struct tu_transport *t = comm->transport;
  uint64_t place = tu_transport_place(t, memory);
  if (place == 0 || tu_transport_at(t, place) != memory || !tu_transport_hand_over(t, place, false))
    return refuse("tutti_free", memory, "this is not the beginning of what tutti_alloc gave this rank");
  tu_suspects_look(t);
  bool given_back = tu_transport_give_back(t, place);
  tu_assert(given_back);
  return TUTTI_OK;
}

tutti_err tutti_register(tutti_comm *comm, void *memory, size_t bytes) {
  struct tu_error error;
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  if (!comm || !memory || bytes == 0) return refuse("tutti_register", memory, "a communicator and memory are needed");
  if (is_child(comm, "tutti_register")) return TUTTI_ERR_ARGUMENT;
  if (((uintptr_t)memory | bytes) % page != 0) {
    tu_fail(&error, TUTTI_ERR_ARGUMENT,
            "tutti_register: %zu bytes at %p are not whole pages of %zu bytes; allocate with aligned_alloc", bytes,
            memory, page);
    return tu_thread_error(&error);
  }
  if (tu_transport_shares(comm->transport, memory, bytes))
    return refuse("tutti_register", memory, "some of it is shared already");
  tutti_err err = tu_transport_register(comm->transport, memory, bytes, &error);
  return err == TUTTI_OK ? err : tu_thread_error(&error);
}

tutti_err tutti_deregister(tutti_comm *comm, void *memory) {
  struct tu_error error;
  if (!comm || !memory) return refuse("tutti_deregister", memory, "a communicator and memory are needed");
  if (is_child(comm, "tutti_deregister")) return TUTTI_ERR_ARGUMENT;
  tu_suspects_look(comm->transport);
  tutti_err err = tu_transport_deregister(comm->transport, memory, &error);
  return err == TUTTI_OK ? err : tu_thread_error(&error);
}
