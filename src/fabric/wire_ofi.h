/* wire_ofi.h: a wire over libfabric, for the ranks at whose other end there is the same fabric, beside a wire over
 * sockets, for all other ranks.
 *
 * Frames are cut into slots. Each rank has a ring of slots in the memory of its peer, and writes them there; the write's
 * completion tells the peer which slot it was. Credits come back as writes of 0 bytes.
 *
 * The sockets do three things for the fabric: they carry the greetings, by which two ranks tell each other where their
 * rings are; they show when a rank has ended; and they carry what the fabric does not. A slot is kept until its credit is
 * back. So if an operation fails, all slots without a credit, and all frames after them, go over the sockets. */
#ifndef TU_WIRE_OFI_H
#define TU_WIRE_OFI_H

#include "fabric/fabric.h"
#include "transport/wire.h"

/* Creates the wire of rank `rank`. speaks[r]: rank r has the same fabric, and knows that this rank has it. The wire
 * becomes the owner of the fabric and of the sockets, even if the call fails. Errors: TUTTI_ERR_MEMORY,
 * TUTTI_ERR_SYSTEM. */
tutti_err tu_wire_ofi(uint32_t rank, uint32_t ranks, const bool speaks[], struct tu_fabric *fabric,
                      struct tu_wire *sockets, struct tu_wire **wire, struct tu_error *error);

#endif
