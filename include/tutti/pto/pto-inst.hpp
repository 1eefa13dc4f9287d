/* pto-inst.hpp: the header by which PTO programs include all instructions; this one includes the communication
 * instructions. It also declares half and bfloat16_t in the global namespace, like a device compiler. Define
 * TUTTI_PTO_NO_GLOBAL_TYPES to omit these two names if another header declares them. */
#ifndef TUTTI_PTO_INST_HPP
#define TUTTI_PTO_INST_HPP

#include <pto/comm/pto_comm_inst.hpp>

#ifndef TUTTI_PTO_NO_GLOBAL_TYPES
using pto::bfloat16_t;
using pto::half;
#endif

#endif
