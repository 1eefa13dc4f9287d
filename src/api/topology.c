/* topology.c: public functions that describe clusters and chips. */
#include <tutti/topology.h>

#include <stdlib.h>

#include "base/text.h"
#include "comm/failure.h"
#include "topology/cluster.h"
#include "topology/soc.h"

struct tutti_cluster {
  struct tu_cluster *cluster;
  /* [chips]: for each chip, the nearest node that a host has mapped (mmio), and the number of hops to that node */
  uint32_t *mmio, *hops;
  uint32_t reach[]; /* memory for the arrays mmio and hops */
};

struct tutti_soc {
  struct tu_soc *soc;
};

tutti_err tutti_cluster_load(const char *what, const char *reserve, tutti_cluster **cluster) {
  struct tu_error error;
  struct tu_cluster *loaded = NULL;
  if (!what || !cluster) return tu_refuse_null("tutti_cluster_load", what ? "cluster" : "what");
  *cluster = NULL;
  tutti_err err = tu_cluster_load(what, &loaded, &error);
  if (err == TUTTI_OK) err = tu_cluster_reserve(loaded, reserve, &error);
  if (err != TUTTI_OK) {
    tu_cluster_destroy(loaded);
    return tu_thread_error(&error);
  }
  size_t chips = loaded->chip_count;
  tutti_cluster *c = tu_try_allocate(1, sizeof *c + 2 * chips * sizeof *c->reach);
  if (c) c->mmio = c->reach, c->hops = c->reach + chips;
  if (!c || !tu_cluster_reach(loaded, c->mmio, c->hops)) {
    tu_fail_memory(&error, 2 * chips * sizeof *c->reach, "paths from hosts to the %zu chips of %s", chips, what);
    tu_cluster_destroy(loaded);
    free(c);
    return tu_thread_error(&error);
  }
  c->cluster = loaded;
  *cluster = c;
  return TUTTI_OK;
}

void tutti_cluster_free(tutti_cluster *cluster) {
  if (!cluster) return;
  tu_cluster_destroy(cluster->cluster);
  free(cluster);
}

uint32_t tutti_cluster_chips(const tutti_cluster *cluster) { return cluster ? cluster->cluster->chip_count : 0; }

uint32_t tutti_cluster_chip_id(const tutti_cluster *cluster, uint32_t chip) {
  return cluster && chip < cluster->cluster->chip_count ? cluster->cluster->nodes[chip].id : UINT32_MAX;
}

static tutti_err refuse_chip(const tutti_cluster *cluster, uint32_t chip, uint32_t below) {
  struct tu_error error;
  if (!cluster) tu_fail(&error, TUTTI_ERR_ARGUMENT, "cluster is NULL");
  else
    tu_fail(&error, TUTTI_ERR_ARGUMENT, "%s: expected a chip from 0 to %u, found %u", cluster->cluster->name, below - 1,
            chip);
  return tu_thread_error(&error);
}

tutti_err tutti_cluster_channels(const tutti_cluster *cluster, uint32_t chip, uint32_t channels[], uint32_t max,
                                 uint32_t *count) {
  struct tu_error error;
  if (!cluster || chip >= cluster->cluster->chip_count) return refuse_chip(cluster, chip, tutti_cluster_chips(cluster));
  if (!count || (!channels && max > 0)) {
    tu_fail(&error, TUTTI_ERR_ARGUMENT,
            "tutti_cluster_channels: count or channels is NULL; expected an array of %u channels", max);
    return tu_thread_error(&error);
  }
  const struct tu_cluster *c = cluster->cluster;
  *count = 0;
  for (uint32_t p = c->port_first[chip]; p < c->port_first[chip + 1]; p++) {
    if (c->links[c->ports[p].link].reserved) continue;
    if (*count < max) channels[*count] = c->ports[p].channel;
    ++*count;
  }
  return TUTTI_OK;
}

tutti_err tutti_cluster_far_end(const tutti_cluster *cluster, tutti_link_end near, tutti_link_end *far) {
  struct tu_error error;
  if (!cluster || near.chip >= cluster->cluster->node_count)
    return refuse_chip(cluster, near.chip, cluster ? cluster->cluster->node_count : 0);
  const struct tu_cluster *c = cluster->cluster;
  const struct tu_cluster_link_end end = {near.chip, near.channel};
  uint32_t link = tu_cluster_link_at(c, end);
  if (link == TU_NONE || !far) {
    tu_fail(&error, TUTTI_ERR_ARGUMENT,
            "tutti_cluster_far_end: channel %u of chip %u of %s has no link, or far is NULL", near.channel, near.chip,
            c->name);
    return tu_thread_error(&error);
  }
  struct tu_cluster_link_end other = tu_link_far(&c->links[link], end);
  *far = (tutti_link_end){other.node, other.channel};
  return TUTTI_OK;
}

bool tutti_cluster_has_mmio(const tutti_cluster *cluster, uint32_t chip) {
  return cluster && chip < cluster->cluster->node_count && cluster->cluster->nodes[chip].mmio;
}

tutti_err tutti_cluster_reach(const tutti_cluster *cluster, uint32_t chip, uint32_t *mmio, uint32_t *hops) {
  struct tu_error error;
  if (!cluster || chip >= cluster->cluster->chip_count) return refuse_chip(cluster, chip, tutti_cluster_chips(cluster));
  if (cluster->hops[chip] == TU_NONE) {
    tu_fail(&error, TUTTI_ERR_UNSUPPORTED,
            "chip %u of %s cannot be reached from any chip that a host accesses directly (mmio)", chip,
            cluster->cluster->name);
    return tu_thread_error(&error);
  }
  if (mmio) *mmio = cluster->mmio[chip];
  if (hops) *hops = cluster->hops[chip];
  return TUTTI_OK;
}

tutti_err tutti_soc_load(const char *path, tutti_soc **soc) {
  struct tu_error error;
  char *data;
  size_t bytes;
  if (!path || !soc) return tu_refuse_null("tutti_soc_load", path ? "soc" : "path");
  *soc = NULL;
  tutti_err err = tu_read_file(path, &data, &bytes, &error);
  if (err != TUTTI_OK) return tu_thread_error(&error);
  struct tu_soc *read;
  err = tu_soc_read(data, bytes, path, &read, &error);
  free(data);
  if (err != TUTTI_OK) return tu_thread_error(&error);
  *soc = tu_try_allocate(1, sizeof **soc);
  if (!*soc) {
    tu_soc_destroy(read);
    tu_fail_memory(&error, sizeof **soc, "%s", path);
    return tu_thread_error(&error);
  }
  (*soc)->soc = read;
  return TUTTI_OK;
}

void tutti_soc_free(tutti_soc *soc) {
  if (!soc) return;
  tu_soc_destroy(soc->soc);
  free(soc);
}

uint32_t tutti_soc_channels(const tutti_soc *soc) { return soc ? soc->soc->channel_count : 0; }

tutti_err tutti_soc_core(const tutti_soc *soc, uint32_t channel, tutti_core *core) {
  struct tu_error error;
  if (!soc || !core || channel >= soc->soc->channel_count) {
    tu_fail(&error, TUTTI_ERR_ARGUMENT,
            "tutti_soc_core: soc or core is NULL, or channel is unknown; expected a channel below %u, found %u",
            tutti_soc_channels(soc), channel);
    return tu_thread_error(&error);
  }
  *core = (tutti_core){soc->soc->channels[channel].x, soc->soc->channels[channel].y};
  return TUTTI_OK;
}
