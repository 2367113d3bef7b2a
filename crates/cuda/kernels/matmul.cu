// The products of one quantized type, TYPE. The sizes are known to src/matmul.rs as well.
#include "few.cuh"
#include "matmul.cuh"
#include "stream.cuh"

#define JOIN_NAMES(a, b) a##_##b
#define TYPED(a, type) JOIN_NAMES(a, type)

KERNEL(TYPED(gemv, TYPE), BLOCKS(160, 3), MatmulArgs, a) { gemv<TYPE, 4>(a); }
KERNEL(TYPED(stream, TYPE), BLOCKS(288, 3), MatmulArgs, a) { stream<TYPE>(a); }
KERNEL(TYPED(few, TYPE), BLOCKS(256, 2), MatmulArgs, a) { few<TYPE>(a); }
KERNEL(TYPED(gemm_32x32, TYPE), BLOCKS(128), MatmulArgs, a) { gemm<TYPE, 32, 32, 16, 16, 3>(a); }
KERNEL(TYPED(gemm_32x64, TYPE), BLOCKS(128), MatmulArgs, a) { gemm<TYPE, 32, 64, 16, 32, 3>(a); }
KERNEL(TYPED(gemm_64x64, TYPE), BLOCKS(128), MatmulArgs, a) { gemm<TYPE, 64, 64, 32, 32, 2>(a); }
KERNEL(TYPED(gemm_128x64, TYPE), BLOCKS(128), MatmulArgs, a) { gemm<TYPE, 128, 64, 64, 32, 2>(a); }
