// What kernels are written in: a GPU's instructions, or their emulation.
#pragma once

#ifdef EMULATE
#include "emulate.h"
#else
#include <stdint.h>

// Sums of 32 products begin at the bits of 1.5 · 2^23, so they are floats already: 1.5 · 2^23 + sum, exactly.
static const int FLOAT_SUM = 0x4b400000;

#define DEVICE static __device__ __forceinline__
#define DEVICE_MEMBER __device__ __forceinline__
#define BLOCKS(...) __launch_bounds__(__VA_ARGS__)
extern __shared__ __align__(16) unsigned char shared_bytes[];
#define SHARED(type, name) type *name = reinterpret_cast<type *>(shared_bytes)
#define KERNEL(name, limits, Args, a) extern "C" __global__ void limits name(const __grid_constant__ Args a)
#if __CUDA_ARCH__ >= 800
#define HAS_TENSOR_CORES 1
#else
#define HAS_TENSOR_CORES 0
#endif

DEVICE uint32_t bits_of(float f) { return __float_as_uint(f); }
DEVICE float float_of(uint32_t u) { return __uint_as_float(u); }
DEVICE float half_to_float(uint32_t h) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"((unsigned short)h));
    return f;
}
DEVICE uint32_t float_to_half(float f) {
    unsigned short h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
}
DEVICE void bar_sync(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
DEVICE void bar_arrive(int id, int threads) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
DEVICE uint32_t shuffle_xor(unsigned mask, uint32_t v, int x) { return __shfl_xor_sync(mask, v, x); }
DEVICE uint32_t shuffle(unsigned mask, uint32_t v, int from) { return __shfl_sync(mask, v, from); }
DEVICE float divide(float a, float b) { return __fdiv_rn(a, b); }
DEVICE float square_root(float a) { return __fsqrt_rn(a); }
DEVICE int dot_bytes(int a, int b, int c) { return __dp4a(a, b, c); }
DEVICE uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selector) { return __byte_perm(a, b, selector); }
// Weights are read once: they leave the first-level cache to others.
DEVICE uint32_t stream_word(const uint32_t *p) {
    uint32_t v;
    asm volatile("ld.global.nc.L1::no_allocate.b32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}
DEVICE uint32_t stream_half(const uint16_t *p) {
    unsigned short v;
    asm volatile("ld.global.nc.L1::no_allocate.b16 %0, [%1];" : "=h"(v) : "l"(p));
    return v;
}
// A kernel may begin before the one ahead of it has ended; what that one wrote is there only after the wait.
DEVICE void others_may_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
DEVICE void wait_for_those_before() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// Over the lanes of a warp, each of which gets the result.
DEVICE uint32_t warp_max(uint32_t v) {
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(0xffffffffu, v);
#else
    for (int step = 16; step; step /= 2) v = max(v, shuffle_xor(0xffffffffu, v, step));
    return v;
#endif
}
DEVICE int warp_add(int v) {
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(0xffffffffu, v);
#else
    for (int step = 16; step; step /= 2) v += int(shuffle_xor(0xffffffffu, uint32_t(v), step));
    return v;
#endif
}
#if __CUDA_ARCH__ >= 900
#define HAS_BULK_COPIES 1
// A barrier in shared memory that bytes copied in bulk complete.
DEVICE void copy_barrier(uint32_t barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
DEVICE void copies_expected(uint32_t barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
DEVICE void copy_bulk(uint32_t to, const void *from, int bytes, uint32_t barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from),
                 "r"(bytes), "r"(barrier)
                 : "memory");
}
// Waits until the barrier's phase of this parity is complete.
DEVICE void copies_arrived(uint32_t barrier, int parity) {
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" ::"r"(barrier), "r"(parity)
                 : "memory");
}
#else
#define HAS_BULK_COPIES 0
#endif
#if HAS_TENSOR_CORES
DEVICE uint32_t shared_address(const void *p) { return uint32_t(__cvta_generic_to_shared(p)); }
DEVICE void copy16(uint32_t to, const void *from, bool real) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(real ? 16 : 0) : "memory");
}
DEVICE void copies_end() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> DEVICE void copies_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
DEVICE void multiply_32(int (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "r"(FLOAT_SUM));
}
DEVICE void multiply_16(int (&d)[4], uint32_t a0, uint32_t a1, uint32_t b0) {
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%7,%7,%7};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a0), "r"(a1), "r"(b0), "r"(0));
}
#endif
#endif

// What every kernel begins with that reads what others wrote.
DEVICE void begin() {
    others_may_start();
    wait_for_those_before();
}
