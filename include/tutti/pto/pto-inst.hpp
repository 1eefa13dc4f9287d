/* pto-inst.hpp: the header by which programs of PTO ask for all of it: here the communication instructions. half and bfloat16_t
 * have their names without a namespace as well, as a device's compiler has them; TUTTI_PTO_NO_GLOBAL_TYPES leaves that out, for
 * programs where another header has these names. */
#ifndef TUTTI_PTO_INST_HPP
#define TUTTI_PTO_INST_HPP

#include <pto/comm/pto_comm_inst.hpp>

#ifndef TUTTI_PTO_NO_GLOBAL_TYPES
using pto::bfloat16_t;
using pto::half;
#endif

#endif
