/* send_direct.c: the algorithm of send and recv: rank 0 sends its buffer to rank 1.
 * Cost for n bytes: alpha + beta n. */
#include "algo/phases.h"

static void build(struct tu_builder *b) { tu_move(b, tu_at(0, tu_in(0, 1)), tu_at(1, tu_out(0, 1))); }

const struct tu_algorithm tu_algo_send_direct = {
    .collective = TUTTI_SEND,
    .name = "direct",
    .summary = "from rank 0 to rank 1 of the pair",
    .build = build,
};
