/* transit.h: how a call moves its data: directly or through tiles; and, for tensors on other hosts, the requests to them. */
#ifndef TU_TRANSIT_H
#define TU_TRANSIT_H

#include "onesided/far.h"
#include "onesided/located.h"
#include "onesided/staged.h"

struct tu_transit {
  struct tu_stage stage; /* tile_count 0: data is copied directly */
  struct tu_far far;
  bool crosses; /* true: a tensor is on another host */
  bool lends;   /* true: the tiles are the library's, because the user gave none, but data crosses */
  /* The loader of tiles, if data crosses: it begins a request, or, for a tensor on this host, copies in `wait`. */
  struct tu_loader loader;
  struct tu_load loads[2];
  uint64_t numbers[2]; /* of the requests; 0: the load is a copy */
  void *memory;        /* the library's tiles */
};

/* Prepares a call that moves data between these ends. The caller must call tu_transit_close, also after an error. Errors:
 * TUTTI_ERR_MEMORY; TUTTI_ERR_ARGUMENT if the user's tiles are too large for data of another host. */
tutti_err tu_transit_open(struct tu_transit *transit, const struct tu_stage *given, const struct tu_end *to,
                          uint32_t to_count, const struct tu_end *from, uint32_t from_count, struct tu_error *error);
/* Waits for all requests, after a call whose error is `err`. Returns the call's error, or else the first of the requests. */
tutti_err tu_transit_close(struct tu_transit *transit, tutti_err err, struct tu_error *error);

/* Copies an end to another one, if that needs no tiles: both are on this host, or each is one run of memory and one is on
 * this host. Returns false if it needs tiles. The copy may be complete only after tu_transit_close. */
bool tu_transit_copy(struct tu_transit *transit, const struct tu_end *to, const struct tu_end *from);
/* Stores a matrix to a region of an end. */
void tu_transit_store(struct tu_transit *transit, const struct tu_end *to, const struct tu_region *region,
                      const void *rows, size_t pitch);

#endif
