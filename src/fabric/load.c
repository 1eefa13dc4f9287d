/* load.c: loads libfabric. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "fabric/fabric.h"

#define LIBRARY "libfabric.so.1"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tu_fabric_library loaded;
static bool is_loaded;

static tutti_err fail_symbol(const char *name, const char *version, struct tu_error *error) {
  return tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                 LIBRARY " has no function %s of version %s: expected libfabric 1.8 or newer", name, version);
}

/* The versions of the symbols say which layout of struct fi_info the functions have. Newer libraries have newer versions,
 * and keep these. */
static tutti_err find(void *handle, struct tu_error *error) {
  static const struct {
    const char *name, *version;
  } symbols[] = {{"fi_getinfo", "FABRIC_1.3"}, {"fi_freeinfo", "FABRIC_1.3"}, {"fi_dupinfo", "FABRIC_1.3"},
                 {"fi_fabric", "FABRIC_1.1"},  {"fi_strerror", "FABRIC_1.0"}, {"fi_version", "FABRIC_1.0"}};
  enum { SYMBOLS = sizeof symbols / sizeof symbols[0] };
  void *found[SYMBOLS];
  _Static_assert(sizeof found == sizeof loaded, "one function for each symbol, in order");
  for (int i = 0; i < SYMBOLS; i++)
    if (!(found[i] = dlvsym(handle, symbols[i].name, symbols[i].version)))
      return fail_symbol(symbols[i].name, symbols[i].version, error);
  memcpy(&loaded, found, sizeof loaded);
  is_loaded = true;
  return TUTTI_OK;
}

/* Libraries that Debian's libfabric needs set handlers of signals when they are loaded (libinfinipath: SIGTERM, SIGSEGV
 * and four others). The program's own handlers are put back. */
static void *load(void) {
  struct sigaction actions[NSIG];
  bool known[NSIG] = {false};
  for (int i = 1; i < NSIG; i++) known[i] = sigaction(i, NULL, &actions[i]) == 0;
  void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
  for (int i = 1; i < NSIG; i++)
    if (known[i]) (void)sigaction(i, &actions[i], NULL);
  return handle;
}

tutti_err tu_fabric_load(const struct tu_fabric_library **library, struct tu_error *error) {
  tutti_err err = TUTTI_OK;
  pthread_mutex_lock(&lock);
  void *handle = is_loaded ? NULL : load();
  if (handle) err = find(handle, error);
  else if (!is_loaded)
    err = tu_fail(error, TUTTI_ERR_ENVIRONMENT, "libfabric cannot be loaded: %.200s. Install it (Debian: libfabric1)",
                  dlerror());
  pthread_mutex_unlock(&lock);
  *library = &loaded;
  return err;
}
