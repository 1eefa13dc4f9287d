/* pack.h: the state of a host's ranks as bytes, for `tutti top` on another host. Sender and receiver must be of one build. */
#ifndef TU_PACK_H
#define TU_PACK_H

#include <stdio.h>

#include "sight/moment.h"

/* Writes the job's state at both moments. */
void tu_job_look_pack(const struct tu_job_look *look, FILE *file);
/* Reads what tu_job_look_pack has written; times become those of this host's clock. Returns false if the bytes are not from
 * this build, or memory ran out. The caller calls tu_job_look_fini in any case. */
bool tu_job_look_unpack(const void *data, size_t bytes, struct tu_job_look *look);

#endif
