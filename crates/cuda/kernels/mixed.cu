// Products of matrices that share their input and have two types, as queries, keys and values often do: one kernel, so that
// the second type's weights are not waited for apart.
#include "stream.cuh"

#define MIXED(first, other)                                                                                            \
    KERNEL(stream_##first##_##other, BLOCKS(288, 3), MatmulArgs, a) {                                                  \
        int panels = 0;                                                                                                \
        for (int part = 0; part < int(a.second); part++) panels += int(a.parts[part].panels);                          \
        if (int(blockIdx.x) < panels) stream<first>(a);                                                                \
        else stream<other>(a);                                                                                         \
    }
MIXED(Q4_K, Q6_K)
MIXED(Q5_K, Q6_K)
MIXED(Q4_K, Q5_K)
MIXED(Q3_K, Q5_K)
