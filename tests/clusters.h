/* clusters.h: helpers of the tests of clusters: clusters by name, random graphs, and real cluster files if they are
 * present. */
#ifndef CLUSTERS_H
#define CLUSTERS_H

#include "base/text.h"
#include "test.h"
#include "topology/cluster.h"

#define CLUSTERS_SHARED SOURCE_DIR "/../shared/clusters/"

/* Loads a cluster and reserves links as `reserve` says; NULL reserves none. Aborts the test on an error. The caller
 * destroys the cluster. */
static inline struct tu_cluster *cluster_reserved(const char *what, const char *reserve) {
  struct tu_cluster *cluster;
  struct tu_error error;
  if (tu_cluster_load(what, &cluster, &error) != TUTTI_OK || tu_cluster_reserve(cluster, reserve, &error) != TUTTI_OK) {
    printf("%s: %s\n", what, error.text);
    abort();
  }
  return cluster;
}
static inline struct tu_cluster *cluster_of(const char *what) { return cluster_reserved(what, NULL); }

/* Files in tests/data are named "own/eight.yaml". Other names are real cluster files in ../shared/clusters. Where that
 * folder is missing, the functions below return false or NULL, and the test counts as skipped. */
static inline bool cluster_is_own(const char *file) { return strncmp(file, "own/", 4) == 0; }
static inline bool cluster_path(const char *file, char path[512]) {
  if (cluster_is_own(file)) snprintf(path, 512, SOURCE_DIR "/tests/data/%s", file + 4);
  else snprintf(path, 512, CLUSTERS_SHARED "%s", file);
  if (cluster_is_own(file) || access(path, R_OK) == 0) return true;
  SKIP("no folder ../shared/clusters");
  return false;
}
static inline struct tu_cluster *cluster_shared(const char *file) {
  char path[512];
  return cluster_path(file, path) ? cluster_of(path) : NULL;
}

/* Returns a cluster in which each of the given pairs of chips is connected by `links` links. */
static inline struct tu_cluster *cluster_of_pairs(uint32_t chips, const uint32_t (*pairs)[2], uint32_t count,
                                                  uint32_t links) {
  struct tu_cluster *cluster = tu_cluster_create("test");
  uint32_t *used = tu_allocate(chips, sizeof *used);
  for (uint32_t i = 0; i < chips; i++) tu_cluster_add(cluster, &(struct tu_node){.id = i});
  for (uint32_t i = 0; i < count * links; i++) {
    uint32_t a = pairs[i / links][0], b = pairs[i / links][1];
    tu_cluster_connect(cluster, (struct tu_cluster_link_end){a, used[a]++}, (struct tu_cluster_link_end){b, used[b]++});
  }
  free(used);
  if (tu_cluster_index(cluster) != TU_NONE) abort();
  return cluster;
}

static inline uint32_t below(uint64_t *seed, uint32_t n) { return (uint32_t)(tu_random(seed) % n); }

/* Returns a random cluster: each pair of chips is connected with a probability of `percent` %, by 1 to links_max
 * links. */
static inline struct tu_cluster *cluster_random(uint64_t *seed, uint32_t chips, uint32_t percent, uint32_t links_max) {
  struct tu_cluster *cluster = tu_cluster_create("random");
  uint32_t *used = tu_allocate(chips, sizeof *used);
  for (uint32_t i = 0; i < chips; i++) tu_cluster_add(cluster, &(struct tu_node){.id = i});
  for (uint32_t a = 0; a < chips; a++)
    for (uint32_t b = a + 1; b < chips; b++) {
      uint32_t links = below(seed, 100) < percent ? 1 + below(seed, links_max) : 0;
      for (uint32_t l = 0; l < links; l++)
        tu_cluster_connect(cluster, (struct tu_cluster_link_end){a, used[a]++},
                           (struct tu_cluster_link_end){b, used[b]++});
    }
  free(used);
  if (tu_cluster_index(cluster) != TU_NONE) abort();
  return cluster;
}

/* Returns the hops between all nodes over usable links, [node_count^2], by the Floyd-Warshall algorithm, which the
 * library does not use. */
static inline uint32_t *cluster_distances(const struct tu_cluster *c) {
  uint32_t n = c->node_count, *d = tu_allocate((size_t)n * n, sizeof *d);
  for (uint32_t i = 0; i < n * n; i++) d[i] = i % (n + 1) == 0 ? 0 : TU_NONE / 4;
  for (uint32_t l = 0; l < c->link_count; l++) {
    uint32_t a = c->links[l].ends[0].node, b = c->links[l].ends[1].node;
    if (!c->links[l].reserved && a != b) d[a * n + b] = d[b * n + a] = 1;
  }
  for (uint32_t k = 0; k < n; k++)
    for (uint32_t i = 0; i < n; i++)
      for (uint32_t j = 0; j < n; j++)
        if (d[i * n + k] + d[k * n + j] < d[i * n + j]) d[i * n + j] = d[i * n + k] + d[k * n + j];
  return d;
}

#endif
