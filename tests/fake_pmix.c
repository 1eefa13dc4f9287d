/* fake_pmix.c: a library of the name libpmix.so.2 for src/boot/pmix_test.c. The environment variable FAKE_PMIX says what is
 * wrong with it: "fail FUNCTION", "hang FUNCTION", "version", "rank", "type" or "alone"; otherwise it serves a job of
 * FAKE_PMIX_RANKS ranks, whose texts are kept in the file FAKE_PMIX_FILE. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot/pmix_abi.h"

#define EXPORT __attribute__((visibility("default")))
EXPORT const char *PMIx_Get_version(void);
EXPORT const char *PMIx_Error_string(int status);
EXPORT int PMIx_Init(struct tu_pmix_proc *me, void *info, size_t count);
EXPORT int PMIx_Finalize(const void *info, size_t count);
EXPORT int PMIx_Put(uint8_t scope, const char key[], struct tu_pmix_value *value);
EXPORT int PMIx_Commit(void);
EXPORT int PMIx_Fence(const struct tu_pmix_proc procs[], size_t count, const struct tu_pmix_info info[], size_t infos);
EXPORT int PMIx_Get(const struct tu_pmix_proc *proc, const char key[], const void *info, size_t count,
                    struct tu_pmix_value **value);

static int begun; /* calls of PMIx_Init without PMIx_Finalize */

static bool wrong(const char *how, const char *what) {
  char both[64];
  snprintf(both, sizeof both, "%s%s%s", how, *what ? " " : "", what);
  return strcmp(getenv("FAKE_PMIX"), both) == 0;
}

static int act(const char *function) {
  if (wrong("hang", function)) pause();
  if (begun != 1 && strcmp(function, "PMIx_Init") != 0) return -31; /* not begun, or begun twice */
  return wrong("fail", function) ? -50 : 0;
}

const char *PMIx_Get_version(void) { return wrong("version", "") ? "PMIx 1.2.5" : "OpenPMIx 4.2.2 (a fake)"; }
const char *PMIx_Error_string(int status) { return status == -50 ? "FAKE" : "?"; }

int PMIx_Init(struct tu_pmix_proc *me, void *info, size_t count) {
  (void)info, (void)count;
  snprintf(me->nspace, sizeof me->nspace, "job");
  me->rank = (uint32_t)atoi(getenv("PMIX_RANK")) + wrong("rank", "");
  const int status = wrong("alone", "") ? TU_PMIX_UNREACHABLE : act("PMIx_Init");
  begun += status == 0;
  return status;
}

int PMIx_Finalize(const void *info, size_t count) {
  (void)info, (void)count;
  const int status = act("PMIx_Finalize");
  begun--;
  return status;
}

int PMIx_Put(uint8_t scope, const char key[], struct tu_pmix_value *value) {
  if (scope != TU_PMIX_SCOPE_GLOBAL || strcmp(key, "tutti") != 0 || value->type != TU_PMIX_TYPE_STRING) return -27;
  FILE *file = fopen(getenv("FAKE_PMIX_FILE"), "w");
  if (!file) return -1;
  fputs(value->data.string, file);
  fclose(file);
  return act("PMIx_Put");
}

int PMIx_Commit(void) { return act("PMIx_Commit"); }

int PMIx_Fence(const struct tu_pmix_proc procs[], size_t count, const struct tu_pmix_info info[], size_t infos) {
  if (procs || count != 0 || infos != 1 || strcmp(info->key, "pmix.collect") != 0 || !info->value.data.flag) return -27;
  while (access(getenv("FAKE_PMIX_FILE"), R_OK) != 0) usleep(1000);
  return act("PMIx_Fence");
}

int PMIx_Get(const struct tu_pmix_proc *proc, const char key[], const void *info, size_t count,
             struct tu_pmix_value **value) {
  (void)info, (void)count;
  const bool size = strcmp(key, "pmix.job.size") == 0;
  char text[4096] = "";
  FILE *file = size ? NULL : fopen(getenv("FAKE_PMIX_FILE"), "r");
  if (proc->rank != (size ? TU_PMIX_ANY_RANK : 0)) return -27;
  if (file && !fgets(text, sizeof text, file)) text[0] = '\0';
  if (file) fclose(file);
  const int status = act("PMIx_Get");
  if (status != 0) return status;
  *value = calloc(1, sizeof **value);
  (*value)->type = size != wrong("type", "") ? TU_PMIX_TYPE_UINT32 : TU_PMIX_TYPE_STRING;
  if ((*value)->type == TU_PMIX_TYPE_UINT32) (*value)->data.number = (uint32_t)atoi(getenv("FAKE_PMIX_RANKS"));
  else (*value)->data.string = strdup(text);
  return 0;
}
