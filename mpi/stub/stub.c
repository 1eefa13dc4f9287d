/* stub.c: libtutti_mpi.so, which is preloaded. It needs no MPI, so that it may also be preloaded into a shell or a launcher.
 * It defines the functions of all doors, each as a jump through a slot. The first call of one of them looks which MPI the
 * process has, loads the door for it, and sets all slots: to the door's functions, or, without a door, to those of the
 * MPI. Cost: one jump a call. A process that calls no function of MPI loads nothing. */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jumps.h"

/* names.h is made by the build: a line NAME(function) for each function that a door exports. */
#define NAME(function) TM_JUMP(function, __COUNTER__)
#include "names.h"
#undef NAME

#define NAME(function) #function,
static const char *const names[] = {
#include "names.h"
};
#undef NAME
enum { NAMES = sizeof names / sizeof names[0] };

/* [NAMES] where the functions lead; at first to tm_bind, with their number. */
extern void *tm_slots[] __attribute__((visibility("hidden")));

static void say(const char *what, const char *detail) { fprintf(stderr, "tutti-mpi: %s%s\n", what, detail); }

/* Functions of a program that its MPI does not have cannot be called: its linker would not have found them. */
static void missing(void) {
  say("a function was called that this MPI does not have", "");
  abort();
}

/* ---- what is loaded ---- */

/* Objects of the process, without the program and this library. */
struct objects {
  uint32_t count;
  void *handles[1024];
  void *mpi; /* the MPI's library; NULL: none */
};

static int add_object(struct dl_phdr_info *info, size_t size, void *context) {
  struct objects *o = context;
  (void)size;
  const char *base = strrchr(info->dlpi_name, '/');
  base = base ? base + 1 : info->dlpi_name;
  if (!*base || strncmp(base, "libtutti_mpi", 12) == 0 || o->count == sizeof o->handles / sizeof o->handles[0])
    return 0;
  void *handle = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
  if (!handle) return 0;
  o->handles[o->count++] = handle;
  if (!o->mpi && (strncmp(base, "libmpi.so", 9) == 0 || strncmp(base, "libmpich.so", 11) == 0)) o->mpi = handle;
  return 0;
}

static void *find(const struct objects *o, const char *name) {
  for (uint32_t i = 0; i < o->count; i++) {
    void *function = dlsym(o->handles[i], name);
    if (function) return function;
  }
  return NULL;
}

/* Returns the name of the door for this MPI; NULL: there is none. */
static const char *door_of(void *mpi) {
  char version[8192] = ""; /* MPI_MAX_LIBRARY_VERSION_STRING of MPICH */
  int length;
  union { /* C has no conversion from a pointer to data into one to a function. */
    void *data;
    int (*call)(char *version, int *length);
  } ask = {.data = mpi ? dlsym(mpi, "PMPI_Get_library_version") : NULL};
  if (!ask.data || ask.call(version, &length) != 0) return NULL;
  if (strncmp(version, "Open MPI", 8) == 0) return "openmpi";
  if (strncmp(version, "MPICH", 5) == 0) return "mpich";
  say("no door for this MPI; expected Open MPI or MPICH, found ", version);
  return NULL;
}

/* Loads the door from the folder of this library. */
static void *load_door(const char *name) {
  Dl_info here;
  char path[PATH_MAX];
  if (!name || !dladdr((void *)tm_slots, &here)) return NULL;
  const char *slash = strrchr(here.dli_fname, '/');
  const int folder = slash ? (int)(slash - here.dli_fname) + 1 : 0;
  if (snprintf(path, sizeof path, "%.*slibtutti_mpi_%s.so", folder, here.dli_fname, name) >= (int)sizeof path)
    return NULL;
  void *door = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!door) say("all calls are left to the MPI: ", dlerror());
  return door;
}

/* ---- slots ---- */

static void set_slots(void) {
  static struct objects objects;
  dl_iterate_phdr(add_object, &objects);
  void *door = load_door(door_of(objects.mpi));
  for (int i = 0; i < NAMES; i++) {
    void *function = door ? dlsym(door, names[i]) : NULL;
    if (!function) function = find(&objects, names[i]);
    if (!function) {
      union {
        void (*call)(void);
        void *data;
      } none = {missing};
      function = none.data;
    }
    __atomic_store_n(&tm_slots[i], function, __ATOMIC_RELEASE);
  }
}

/* Called by tm_bind. Returns where function number i leads. */
__attribute__((visibility("hidden"), used)) void *tm_resolve(size_t i);
void *tm_resolve(size_t i) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, set_slots);
  return __atomic_load_n(&tm_slots[i], __ATOMIC_ACQUIRE);
}
