/* topology.h: which chips a cluster has, which channels of them are linked, and how a host reaches them.
 *
 * Chips are numbered from 0, in ascending order of their ids in the file. Numbers from tutti_cluster_chips() on are nodes that
 * only pass data on: gateways between a host and chips, and switches.
 *
 * Errors are ARGUMENT unless something else is said; the sentence is at tutti_error_message(NULL). A cluster does not change
 * once it is loaded, so several threads may ask at once. */
#ifndef TUTTI_TOPOLOGY_H
#define TUTTI_TOPOLOGY_H

#include <tutti/tutti.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tutti_cluster tutti_cluster;

/* One end of a link. */
typedef struct tutti_link_end {
  uint32_t chip;
  uint32_t channel;
} tutti_link_end;

/* A preset (n300, t3000, galaxy, galaxy-torus), what a generator makes (ring:8, line:4, mesh:4x8, torus:4x4x4, fat-tree:4x2,
 * hosts:4x8), or the path of a cluster description or a mesh graph descriptor; see tutti-topo(1). reserve: which links are
 * not for use: "none", "dispatch" (one of each pair of a chip with mmio and one without), or a list of ends by ids,
 * "0:8,3:9"; NULL: those of the preset, else none. Also SYSTEM. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_cluster_load(const char *what, const char *reserve, tutti_cluster **cluster);
TUTTI_API void tutti_cluster_free(tutti_cluster *cluster); /* NULL is accepted */

TUTTI_API uint32_t tutti_cluster_chips(const tutti_cluster *cluster);
/* Its number in the file; UINT32_MAX if there is no such chip. */
TUTTI_API uint32_t tutti_cluster_chip_id(const tutti_cluster *cluster, uint32_t chip);
/* Channels of a chip that are linked and for use, in ascending order: *count of them, and the first `max` in channels[] (NULL
 * if max is 0). */
TUTTI_API TUTTI_CHECKED tutti_err tutti_cluster_channels(const tutti_cluster *cluster, uint32_t chip,
                                                         uint32_t channels[], uint32_t max, uint32_t *count);
/* The other end of a link, reserved or not. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_cluster_far_end(const tutti_cluster *cluster, tutti_link_end near,
                                                        tutti_link_end *far);
/* Has a host its memory mapped? */
TUTTI_API bool tutti_cluster_has_mmio(const tutti_cluster *cluster, uint32_t chip);
/* By which chip (or gateway) with mmio a host reaches this one: the nearest, of several the lowest; and over how many links, 0 if
 * it has mmio itself. Either result may be NULL. UNSUPPORTED: not at all, as far as the file says. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_cluster_reach(const tutti_cluster *cluster, uint32_t chip, uint32_t *mmio,
                                                      uint32_t *hops);

/* ---- a chip's cores ---- */

typedef struct tutti_soc tutti_soc;

/* A core's place on the chip's own network. */
typedef struct tutti_core {
  uint32_t x, y;
} tutti_core;

/* Reads the description of a kind of chip. Also SYSTEM. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_soc_load(const char *path, tutti_soc **soc);
TUTTI_API void tutti_soc_free(tutti_soc *soc); /* NULL is accepted */
TUTTI_API uint32_t tutti_soc_channels(const tutti_soc *soc);
/* The core at which a channel ends. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_soc_core(const tutti_soc *soc, uint32_t channel, tutti_core *core);

#ifdef __cplusplus
}
#endif
#endif
