/* topology.h: the chips of a cluster, the links between their channels, and the way from a host to a chip.
 *
 * Chips are numbered from 0, in ascending order of their ids in the file. Numbers from tutti_cluster_chips() on are
 * nodes that only forward data: gateways between a host and chips, and switches.
 *
 * Functions that fail return TUTTI_ERR_ARGUMENT, unless other errors are named; the message is at
 * tutti_error_message(NULL). A cluster does not change after it was loaded, so any number of threads may query it at a
 * time. */
#ifndef TUTTI_TOPOLOGY_H
#define TUTTI_TOPOLOGY_H

#include <tutti/tutti.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tutti_cluster tutti_cluster;

/* One end of a link: a channel of a chip, or of another node (a gateway or switch). */
typedef struct tutti_link_end {
  uint32_t chip;
  uint32_t channel;
} tutti_link_end;

/* Loads a cluster and sets *cluster, which the caller frees. `what` is one of
 *   a preset     n300, t3000, galaxy, galaxy-torus
 *   a generator  ring:8, line:4, mesh:4x8, torus:4x4x4, fat-tree:4x2, hosts:4x8
 *   a path       of a cluster description or a mesh graph descriptor; see tutti-topo(1)
 * `reserve` names the links that must not be used: "none", "dispatch", or a list of link ends by chip id and channel,
 * such as "0:8,3:9". For each chip that no host can access by mmio, "dispatch" reserves one link to each neighbour that
 * a host can access. NULL: the links that the preset reserves; none if `what` is not a preset. Errors:
 * TUTTI_ERR_ARGUMENT (unknown name, malformed file, no such link), TUTTI_ERR_SYSTEM (the file cannot be read),
 * TUTTI_ERR_MEMORY. Local; any thread. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_cluster_load(const char *what, const char *reserve, tutti_cluster **cluster);
/* Frees a cluster. NULL is accepted. Local; no other thread may use the cluster. */
TUTTI_API void tutti_cluster_free(tutti_cluster *cluster);

/* Returns the number of chips; 0 if cluster is NULL. Local; any thread, as are all functions that take a const
 * cluster. */
TUTTI_API uint32_t tutti_cluster_chips(const tutti_cluster *cluster);
/* Returns a chip's id in the file; UINT32_MAX if there is no such chip. */
TUTTI_API uint32_t tutti_cluster_chip_id(const tutti_cluster *cluster, uint32_t chip);
/* Sets *count to the number of a chip's channels that are linked and not reserved, and stores the first `max` of these
 * channels in channels[], in ascending order. channels may be NULL if max is 0. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_cluster_channels(const tutti_cluster *cluster, uint32_t chip,
                                                         uint32_t channels[], uint32_t max, uint32_t *count);
/* Sets *far to the other end of the link at `near`, whether or not the link is reserved. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_cluster_far_end(const tutti_cluster *cluster, tutti_link_end near,
                                                        tutti_link_end *far);
/* Returns true if a host has mapped the chip's memory (mmio). */
TUTTI_API bool tutti_cluster_has_mmio(const tutti_cluster *cluster, uint32_t chip);
/* Finds the way from a host to a chip. Sets *mmio to the nearest chip or gateway that a host can access (mmio); if
 * several are equally near, the one with the lowest number. Sets *hops to the number of links from there to the chip; 0
 * if the chip itself has mmio. Either pointer may be NULL. Errors: TUTTI_ERR_ARGUMENT (no such chip),
 * TUTTI_ERR_UNSUPPORTED (according to the file, no host reaches the chip). */
TUTTI_API TUTTI_CHECKED tutti_err tutti_cluster_reach(const tutti_cluster *cluster, uint32_t chip, uint32_t *mmio,
                                                      uint32_t *hops);

/* ---- cores of a chip ---- */

typedef struct tutti_soc tutti_soc;

/* Coordinates of a core on the chip's own network. */
typedef struct tutti_core {
  uint32_t x, y;
} tutti_core;

/* Reads the description of a kind of chip, a YAML file, and sets *soc, which the caller frees. Errors:
 * TUTTI_ERR_ARGUMENT (malformed file), TUTTI_ERR_SYSTEM (the file cannot be read), TUTTI_ERR_MEMORY. Local; any
 * thread. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_soc_load(const char *path, tutti_soc **soc);
/* Frees the description of a chip. NULL is accepted. Local; no other thread may use the description. */
TUTTI_API void tutti_soc_free(tutti_soc *soc);
/* Returns the number of channels of the chip; 0 if soc is NULL. Local; any thread. */
TUTTI_API uint32_t tutti_soc_channels(const tutti_soc *soc);
/* Sets *core to the core at which a channel ends. Error: TUTTI_ERR_ARGUMENT (no such channel). Local; any thread. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_soc_core(const tutti_soc *soc, uint32_t channel, tutti_core *core);

#ifdef __cplusplus
}
#endif
#endif
