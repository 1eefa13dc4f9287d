/* pto_tile.hpp: pto::Tile, GlobalTensor and their kin. They come with the instructions. */
#ifndef TUTTI_PTO_TILE_HPP
#define TUTTI_PTO_TILE_HPP

#include <pto/comm/pto_comm_inst.hpp>

#endif
