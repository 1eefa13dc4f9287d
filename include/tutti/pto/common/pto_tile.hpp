/* pto_tile.hpp: includes pto::Tile, pto::GlobalTensor and related types, which are defined together with the
 * instructions. */
#ifndef TUTTI_PTO_TILE_HPP
#define TUTTI_PTO_TILE_HPP

#include <pto/comm/pto_comm_inst.hpp>

#endif
