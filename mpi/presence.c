/* presence.c: finds out whether every rank has a door. A rank without one does not take part in an exchange of the doors, so
 * this must be known before the first exchange. Each door leaves a word with the launcher before PMPI_Init, which is a
 * fence: afterwards all ranks have left theirs. The launcher of Open MPI keeps words by PMIx, that of MPICH by PMI-1
 * (src/pmi/src/pmi_v1.c of MPICH). If there is no such launcher, all ranks count as having a door. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "door.h"

#define WORD "tutti-mpi"

#if TM_OPEN_MPI

/* The part of the ABI of libpmix.so.2 (PMIx 2 to 5) that is used here. */
struct process {
  char space[256];
  uint32_t rank;
};
struct value {
  uint16_t type;
  union {
    bool flag;
    uint32_t number;
    void *largest[3];
  } data;
};
struct info {
  char key[512];
  uint32_t flags;
  struct value value;
};
enum { TYPE_BOOL = 1, TYPE_UINT32 = 14, SCOPE_GLOBAL = 3 };

static struct {
  int (*init)(struct process *me, void *info, size_t count);
  int (*finalize)(const void *info, size_t count);
  int (*put)(uint8_t scope, const char key[], struct value *value);
  int (*commit)(void);
  int (*get)(const struct process *from, const char key[], const struct info *info, size_t count, struct value **value);
} pmix;
static struct process me;
static bool said;

static bool load(void) {
  static const char *const names[] = {"PMIx_Init", "PMIx_Finalize", "PMIx_Put", "PMIx_Commit", "PMIx_Get"};
  enum { NAMES = sizeof names / sizeof names[0] };
  void *found[NAMES], *library = getenv("PMIX_RANK") ? dlopen("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL) : NULL;
  _Static_assert(sizeof found == sizeof pmix, "one function for each name, in order");
  for (int i = 0; i < NAMES; i++)
    if (!library || !(found[i] = dlsym(library, names[i]))) return false;
  memcpy(&pmix, found, sizeof pmix);
  return true;
}

void tm_presence_say(void) {
  struct value here = {.type = TYPE_UINT32, .data.number = 1};
  if (!load() || pmix.init(&me, NULL, 0) != 0) return;
  said = pmix.put(SCOPE_GLOBAL, WORD, &here) == 0 && pmix.commit() == 0;
  if (!said) pmix.finalize(NULL, 0);
}

int tm_presence_missing(int ranks) {
  const struct info at_once = {.key = "pmix.immediate", .value = {.type = TYPE_BOOL, .data.flag = true}};
  int missing = -1;
  for (int r = 0; said && r < ranks && missing < 0; r++) {
    struct process other = me;
    struct value *word = NULL;
    other.rank = (uint32_t)r;
    if (pmix.get(&other, WORD, &at_once, 1, &word) != 0) missing = r;
    free(word);
  }
  if (said) pmix.finalize(NULL, 0);
  said = false;
  return missing;
}

#else

enum { LINE = 4096 };
static int descriptor = -1;
static char space[LINE]; /* name of the job's words */

/* Sends a request, and reads the answer, byte by byte: MPICH reads from the same descriptor. Returns false if the answer
 * is another one, or an error. */
static bool ask(const char *request, const char *answer, char *line) {
  const size_t bytes = strlen(request);
  if (send(descriptor, request, bytes, MSG_NOSIGNAL) != (ssize_t)bytes) return false;
  for (size_t i = 0; i + 1 < LINE; i++) {
    if (recv(descriptor, &line[i], 1, 0) != 1) return false;
    if (line[i] != '\n') continue;
    line[i] = '\0';
    const char *rc = strstr(line, " rc=");
    return strncmp(line, answer, strlen(answer)) == 0 && (!rc || rc[4] == '0');
  }
  return false;
}

void tm_presence_say(void) {
  char line[LINE], request[LINE + 128];
  const char *number = getenv("PMI_FD"), *rank = getenv("PMI_RANK");
  if (!number || !rank) return;
  descriptor = atoi(number);
  bool good = ask("cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=response_to_init", line) &&
              ask("cmd=get_my_kvsname\n", "cmd=my_kvsname", line);
  const char *name = good ? strstr(line, "kvsname=") : NULL;
  if (name) snprintf(space, sizeof space, "%.*s", (int)strcspn(name + 8, " "), name + 8);
  snprintf(request, sizeof request, "cmd=put kvsname=%s key=" WORD "-%s value=1\n", space, rank);
  if (!*space || !ask(request, "cmd=put_result", line)) descriptor = -1;
}

int tm_presence_missing(int ranks) {
  char line[LINE], request[LINE + 128];
  for (int r = 0; descriptor >= 0 && r < ranks; r++) {
    snprintf(request, sizeof request, "cmd=get kvsname=%s key=" WORD "-%d\n", space, r);
    if (!ask(request, "cmd=get_result", line)) return r;
  }
  return -1;
}

#endif
