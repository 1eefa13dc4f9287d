/* transport_test.c: memory of a slice comes, goes and comes again; who is killed is known; a bell wakes a sleeper; the lock of an
 * ended process is gone. */
#include "transport/transport.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "test.h"

static void memory_comes_and_goes(void) {
  struct tu_transport *t[2];
  struct tu_error error = {0};
  tu_assert(tu_loop_create(2, 1 << 20, t, &error) == TUTTI_OK);
  uint64_t first, second, again;
  CHECK(tu_transport_acquire(t[0], 100, &first, &error) && first == TU_FIRST_PLACE, "rank 0's first place is known");
  CHECK(tu_transport_acquire(t[1], 5000, &second, &error) && second >= (1 << 20), "rank 1 allocates in its own slice");
  CHECK(tu_transport_at(t[0], second) == tu_transport_at(t[1], second), "a place is the same on all ranks");
  CHECK(tu_transport_release(t[1], second), "it was there");
  CHECK(tu_transport_acquire(t[1], 8000, &again, &error) && again == second, "what was released is used again");
  CHECK(!tu_transport_acquire(t[0], 1 << 20, &again, &error), "a slice has an end");
  CHECK(error.code == TUTTI_ERR_MEMORY && strstr(error.text, "TUTTI_SHM_BYTES"), "'%s' says what to do", error.text);
  CHECK(tu_transport_alive(t[0], 1), "rank 1 lives");
  tu_loop_kill(t[1]);
  CHECK(!tu_transport_alive(t[0], 1) && tu_transport_alive(t[0], 0), "rank 1 was killed");
  t[0]->ops->close(t[0]);
  t[1]->ops->close(t[1]);
}

static _Atomic int published;

static void *sleep_until_published(void *endpoint) {
  struct tu_transport *t = endpoint;
  while (!atomic_load(&published)) {
    uint32_t token = tu_bell_arm(t);
    if (!atomic_load(&published)) tu_bell_sleep(t, token, 60000);
    tu_bell_disarm(t);
  }
  return NULL;
}

/* If a ring were lost the sleeper would sleep for a minute, and the test be ended. */
static void a_bell_wakes(void) {
  struct tu_transport *t[2];
  struct tu_error error;
  tu_assert(tu_loop_create(2, 1 << 20, t, &error) == TUTTI_OK);
  for (int fences = 0; fences < 2; fences++) {
    if (!fences) tu_transport_settle(t[0]), tu_transport_settle(t[1]);
    else atomic_store(&t[0]->fence, true);
    for (int i = 0; i < 200; i++) {
      pthread_t sleeper;
      atomic_store(&published, 0);
      tu_assert(pthread_create(&sleeper, NULL, sleep_until_published, t[1]) == 0);
      if (i % 2) usleep((unsigned)i % 50);
      atomic_store_explicit(&published, 1, memory_order_release);
      tu_bell_ring(t[0], 1);
      pthread_join(sleeper, NULL);
    }
  }
  CHECK(atomic_load(&tu_transport_head(t[1], 1)->bell.sleepers) == 0, "nobody sleeps any more");
  t[0]->ops->close(t[0]);
  t[1]->ops->close(t[1]);
}

/* However a process ends, its lock goes. */
static void an_ended_process_is_gone(void) {
  enum { SLICE = 1 << 20 };
  struct tu_error error;
  int fd = memfd_create("test", MFD_CLOEXEC);
  tu_assert(fd >= 0 && ftruncate(fd, 2 * SLICE) == 0);
  int ready[2];
  tu_assert(pipe(ready) == 0);
  pid_t child = fork();
  if (child == 0) {
    struct tu_transport *t;
    if (tu_shm_create(1, 2, fd, SLICE, &t, &error) != TUTTI_OK || write(ready[1], "x", 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  struct tu_transport *t;
  tu_assert(tu_shm_create(0, 2, fd, SLICE, &t, &error) == TUTTI_OK);
  char byte;
  tu_assert(read(ready[0], &byte, 1) == 1);
  CHECK(tu_transport_alive(t, 1), "rank 1 has come and lives");
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  CHECK(!tu_transport_alive(t, 1), "rank 1 was killed");
  t->ops->close(t);
  close(ready[0]);
  close(ready[1]);
}

static const struct test tests[] = {
    {"memory_comes_and_goes", memory_comes_and_goes},
    {"a_bell_wakes", a_bell_wakes},
    {"an_ended_process_is_gone", an_ended_process_is_gone},
};

int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
