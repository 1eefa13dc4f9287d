/* served.h: what carries out requests of ranks on other hosts that concern windows (mover/remote_memory.h). */
#ifndef TU_SERVED_H
#define TU_SERVED_H

#include "mover/remote_memory.h"

extern const struct tu_memory_server tu_windows_server;

#endif
