/* plate.h: marks the segment of a job, so that a process that is no rank can find and read it (segment.h). */
#ifndef TU_PLATE_H
#define TU_PLATE_H

#include "transport/transport.h"

/* Returns a number that differs between builds of the library whose segments have a different layout. */
uint64_t tu_plate_layout(void);
/* Writes the name of this host as plates have it: TUTTI_HOST, or its hostname. */
void tu_plate_host(char name[64]);
/* Fills in the plate of this rank: rank `rank` of `ranks` of the job with that number. */
void tu_plate_write(struct tu_transport *t, uint64_t job, uint32_t rank, uint32_t ranks);

#endif
