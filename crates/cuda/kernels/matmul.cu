// The products of one quantized type, TYPE. The sizes are known to src/matmul.rs as well.
#include "matmul.cuh"

#define JOIN_NAMES(a, b) a##_##b
#define TYPED(a, type) JOIN_NAMES(a, type)

KERNEL(TYPED(gemv, TYPE), BLOCKS(160, 3), MatmulArgs, a) { gemv<TYPE, 4>(a); }
KERNEL(TYPED(gemm_8, TYPE), BLOCKS(64), MatmulArgs, a) { gemm<TYPE, 32, 8, 16, 8, 4>(a); }
KERNEL(TYPED(gemm_32, TYPE), BLOCKS(128), MatmulArgs, a) { gemm<TYPE, 64, 32, 32, 16, 2>(a); }
KERNEL(TYPED(gemm_64, TYPE), BLOCKS(128), MatmulArgs, a) { gemm<TYPE, 128, 64, 64, 32, 2>(a); }
