/* cpus_quota.c: reads the CPU quota of this process's cgroups, versions 1 and 2. A file that cannot be read means no
 * limit. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "locality/cpus.h"

enum { FOLDER_BYTES = 2 * PATH_MAX };

/* A cgroup hierarchy that this process belongs to. */
struct hierarchy {
  bool v2;                    /* true: cgroup version 2; false: version 1, with controller "cpu" */
  char group[PATH_MAX];       /* path of the process's cgroup within the hierarchy */
  char mount_root[PATH_MAX];  /* the cgroup whose directory is mounted at mount_point */
  char mount_point[PATH_MAX]; /* directory where the hierarchy is mounted */
};

static bool has_word(const char *list, const char *word) {
  size_t length = strlen(word);
  for (const char *at = list; (at = strstr(at, word)) != NULL; at += length) {
    char before = at == list ? ',' : at[-1], after = at[length];
    if (before == ',' && (after == ',' || after == '\0' || after == '\n')) return true;
  }
  return false;
}

static FILE *open_below(const char *root, const char *path) {
  char full[FOLDER_BYTES + PATH_MAX];
  if (snprintf(full, sizeof full, "%s%s", root, path) >= (int)sizeof full) return NULL;
  return fopen(full, "re");
}

/* Finds the process's cgroup in /proc/self/cgroup. Its lines are "id:controllers:path"; version 2 has id 0 and no
 * controllers. */
static bool find_group(const char *root, struct hierarchy *h) {
  FILE *file = open_below(root, "/proc/self/cgroup");
  if (!file) return false;
  char line[PATH_MAX + 256];
  bool found = false;
  while (!found && fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path) continue;
    *path++ = '\0';
    controllers++;
    found = h->v2 ? strncmp(line, "0:", 2) == 0 && *controllers == '\0' : has_word(controllers, "cpu");
    if (found) snprintf(h->group, sizeof h->group, "%.*s", PATH_MAX - 1, path);
  }
  fclose(file);
  return found;
}

/* Finds the mount of the hierarchy in /proc/self/mountinfo. Its lines are: id parent device ROOT POINT options
 * [tags...] - TYPE source SUPER-OPTIONS. */
static bool find_mount(const char *root, struct hierarchy *h) {
  FILE *file = open_below(root, "/proc/self/mountinfo");
  if (!file) return false;
  char line[3 * PATH_MAX];
  bool found = false;
  while (!found && fgets(line, sizeof line, file)) {
    char type[32], options[512];
    const char *rest = strstr(line, " - ");
    if (!rest || sscanf(rest + 3, "%31s %*s %511s", type, options) != 2) continue;
    bool wanted = h->v2 ? strcmp(type, "cgroup2") == 0 : strcmp(type, "cgroup") == 0 && has_word(options, "cpu");
    found = wanted && sscanf(line, "%*s %*s %*s %4095s %4095s", h->mount_root, h->mount_point) == 2;
  }
  fclose(file);
  return found;
}

/* Returns the quota of one cgroup in whole CPUs, rounded up; UINT32_MAX: no limit. */
static uint32_t group_quota(const char *root, bool v2, const char *folder) {
  char path[FOLDER_BYTES + 32];
  int64_t quota = -1, period = -1;
  snprintf(path, sizeof path, "%s/%s", folder, v2 ? "cpu.max" : "cpu.cfs_quota_us");
  FILE *file = open_below(root, path);
  if (!file) return UINT32_MAX;
  /* Without a limit, the file contains "max 100000" in version 2 of cgroups and -1 in version 1. In both cases `quota`
   * becomes negative. */
  if (fscanf(file, "%" SCNd64, &quota) != 1) quota = -1;
  if (v2 && fscanf(file, "%" SCNd64, &period) != 1) period = -1;
  fclose(file);
  if (!v2) {
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    file = open_below(root, path);
    if (file && fscanf(file, "%" SCNd64, &period) != 1) period = -1;
    if (file) fclose(file);
  }
  if (quota <= 0 || period <= 0) return UINT32_MAX;
  int64_t cpus = quota / period + (quota % period != 0);
  return cpus < UINT32_MAX ? (uint32_t)cpus : UINT32_MAX;
}

/* Returns the smallest CPU quota among the process's cgroup and those above it, up to the mount point. */
static uint32_t hierarchy_quota(const char *root, bool v2) {
  struct hierarchy h = {.v2 = v2};
  if (!find_group(root, &h) || !find_mount(root, &h)) return UINT32_MAX;
  /* In a container only the part of the hierarchy below mount_root is mounted. If the process's cgroup lies outside of
   * this part, the quota of mount_point itself is the only one that can be read. */
  size_t root_length = strcmp(h.mount_root, "/") == 0 ? 0 : strlen(h.mount_root);
  const char *inner = "";
  if (strncmp(h.group, h.mount_root, root_length) == 0) {
    char next = h.group[root_length];
    if (next == '/' || next == '\0') inner = h.group + root_length;
  }

  char folder[FOLDER_BYTES];
  snprintf(folder, sizeof folder, "%s%s", h.mount_point, inner);
  size_t stop = strlen(h.mount_point);
  uint32_t least = UINT32_MAX;
  for (;;) {
    uint32_t quota = group_quota(root, v2, folder);
    if (quota < least) least = quota;
    char *slash = strrchr(folder, '/');
    if (strlen(folder) <= stop || !slash || (size_t)(slash - folder) < stop) return least;
    *slash = '\0';
  }
}

uint32_t tu_cpus_quota(const char *root) {
  return (uint32_t)tu_min(hierarchy_quota(root, true), hierarchy_quota(root, false));
}
