// The same kernels on a CPU: a thread block as fibers that take turns. Whoever waits at a barrier lets the others go on.
// Blocks run one after the other, in order. Built as a library with one door, `strata_emulate`.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <setjmp.h>
#include <ucontext.h>
#include <utility>
#include <vector>

#define DEVICE static inline
#define DEVICE_MEMBER inline
#define BLOCKS(...)
struct uint3 { unsigned x, y, z; };
struct alignas(16) uint4 { uint32_t x, y, z, w; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
static inline float2 make_float2(float x, float y) { return {x, y}; }
using std::max;
using std::min;

namespace emulation {
struct Fiber {
    jmp_buf place;
    ucontext_t first;
    std::vector<char> stack;
    bool begun, done;
};
struct Barrier { int count = 0; long turn = 0; };

static uint3 thread_index, block_index, block_size, grid_size;
static std::vector<char> shared_memory;
static std::vector<std::unique_ptr<Fiber>> fibers;
static jmp_buf scheduler;
static size_t current;
static void (*body)(const void *);
static const void *arguments;
static std::map<int, Barrier> named;
static std::map<std::pair<unsigned, unsigned>, Barrier> warps; // by warp and mask
static uint32_t slots[64][32][8];

// `_setjmp` and `_longjmp` change no signal masks, so a turn costs no call of the system.
static void yield() {
    if (_setjmp(fibers[current]->place) == 0) _longjmp(scheduler, 1);
}
static void arrive(Barrier &b, int n) { if (++b.count == n) b.count = 0, b.turn++; }
static void sync(Barrier &b, int n) {
    const long turn = b.turn;
    arrive(b, n);
    while (b.turn == turn) yield();
}
static unsigned warp() { return thread_index.x / 32; }
static unsigned lane() { return thread_index.x % 32; }
static void meet(unsigned mask) { sync(warps[{warp(), mask}], __builtin_popcount(mask)); }
static void entry() {
    body(arguments);
    fibers[current]->done = true;
    _longjmp(scheduler, 1);
}

// One thread's turn.
static void resume(size_t t) {
    Fiber &fiber = *fibers[t];
    current = t, thread_index = {unsigned(t), 0, 0};
    if (_setjmp(scheduler)) return;
    if (fiber.begun) _longjmp(fiber.place, 1);
    fiber.begun = true;
    setcontext(&fiber.first);
}

static void run_block(int threads) {
    named.clear(), warps.clear();
    while (fibers.size() < size_t(threads)) {
        fibers.push_back(std::make_unique<Fiber>());
        fibers.back()->stack.resize(128 << 10);
    }
    for (int t = 0; t < threads; t++) {
        Fiber &fiber = *fibers[t];
        fiber.begun = fiber.done = false;
        getcontext(&fiber.first);
        fiber.first.uc_stack.ss_sp = fiber.stack.data();
        fiber.first.uc_stack.ss_size = fiber.stack.size();
        fiber.first.uc_link = nullptr;
        makecontext(&fiber.first, entry, 0);
    }
    long idle = 0;
    for (int left = threads; left;) {
        left = 0;
        for (int t = 0; t < threads; t++)
            if (!fibers[t]->done) resume(t), left += !fibers[t]->done;
        if (++idle > 10000000) fprintf(stderr, "no thread of the block goes on\n"), abort();
    }
}

static void launch(void (*kernel)(const void *), uint3 grid, unsigned threads, size_t bytes, const void *args) {
    body = kernel, arguments = args;
    grid_size = grid, block_size = {threads, 1, 1};
    shared_memory.resize(bytes + 64);
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                block_index = {x, y, z};
                // What nobody has written is nobody's zero.
                memset(shared_memory.data(), 0xcd, shared_memory.size());
                run_block(int(threads));
            }
}

struct Entry { const char *name; void (*kernel)(const void *); };
static std::vector<Entry> &entries() {
    static std::vector<Entry> all;
    return all;
}
struct Register {
    Register(const char *name, void (*kernel)(const void *)) { entries().push_back({name, kernel}); }
};
} // namespace emulation

#define threadIdx emulation::thread_index
#define blockIdx emulation::block_index
#define blockDim emulation::block_size
#define gridDim emulation::grid_size
#define SHARED(type, name) \
    type *name = reinterpret_cast<type *>((reinterpret_cast<uintptr_t>(emulation::shared_memory.data()) + 15) / 16 * 16)

// A kernel takes one struct.
#define KERNEL(name, limits, Args, a) NAMED_KERNEL(name, Args, a)
#define NAMED_KERNEL(name, Args, a)                                                                                    \
    static void name(Args a);                                                                                          \
    static emulation::Register register_##name(#name, [](const void *p) { name(*static_cast<const Args *>(p)); });     \
    static void name(Args a)

static inline uint32_t bits_of(float f) { uint32_t b; memcpy(&b, &f, 4); return b; }
static inline float float_of(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
static inline float half_to_float(uint32_t h) {
    const uint32_t sign = (h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 1023;
    if (exponent == 31) return float_of(sign | 0x7f800000 | mantissa << 13);
    if (exponent) return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
    return float_of(bits_of(float(mantissa) * 5.9604644775390625e-8f) | sign);
}
static inline uint32_t float_to_half(float f) {
    const uint32_t bits = bits_of(f), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return sign | 0x7e00;
    if (magnitude >= 0x477ff000) return sign | 0x7c00;
    if (magnitude < 0x38800000) {
        // Next to 0.5 the step of f32 is that of the subnormal halves.
        const float rounded = float_of(magnitude) + 0.5f;
        return sign | (bits_of(rounded) - 0x3f000000);
    }
    const uint32_t odd = magnitude >> 13 & 1;
    return sign | ((magnitude + 0xfff + odd - 0x38000000) >> 13);
}
static inline void __syncthreads() { emulation::sync(emulation::named[0], int(blockDim.x)); }
static inline void __syncwarp() { emulation::meet(0xffffffffu); }
static inline void bar_sync(int id, int threads) { emulation::sync(emulation::named[id], threads); }
static inline void bar_arrive(int id, int threads) { emulation::arrive(emulation::named[id], threads); }
static inline uint32_t exchange(unsigned mask, uint32_t v, unsigned from) {
    emulation::slots[emulation::warp()][emulation::lane()][0] = v;
    emulation::meet(mask);
    const uint32_t got = emulation::slots[emulation::warp()][from][0];
    emulation::meet(mask);
    return got;
}
static inline uint32_t shuffle_xor(unsigned mask, uint32_t v, int x) { return exchange(mask, v, emulation::lane() ^ x); }
static inline uint32_t shuffle(unsigned mask, uint32_t v, int from) { return exchange(mask, v, from); }
static inline float divide(float a, float b) { return a / b; }
static inline float square_root(float a) { return sqrtf(a); }
static inline int dot_bytes(int a, int b, int c) {
    for (int i = 0; i < 4; i++) c += int(int8_t(uint32_t(a) >> 8 * i)) * int(int8_t(uint32_t(b) >> 8 * i));
    return c;
}
static inline uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selector) {
    const uint64_t both = uint64_t(b) << 32 | a;
    uint32_t out = 0;
    for (int i = 0; i < 4; i++) out |= uint32_t(both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
    return out;
}
static inline uint32_t stream_word(const uint32_t *p) { return *p; }
static inline uint32_t stream_half(const uint16_t *p) { return *p; }
static inline void others_may_start() {}
static inline void wait_for_those_before() {}
static inline uintptr_t shared_address(const void *p) { return reinterpret_cast<uintptr_t>(p); }
static inline void copy16(uintptr_t to, const void *from, bool real) {
    if (real) memcpy(reinterpret_cast<void *>(to), from, 16);
    else memset(reinterpret_cast<void *>(to), 0, 16);
}
static inline void copies_end() {}
template <int N> static inline void copies_wait() {}

// The fragments are those of the PTX manual: m16n8k32, and m16n8k16 where only the first half is given.
static const int FLOAT_SUM = 0x4b400000; // see device.cuh
static inline void multiply_tile(int (&d)[4], const uint32_t *a, const uint32_t *b, int halves) {
    auto &slots = emulation::slots[emulation::warp()];
    const unsigned lane = emulation::lane();
    for (int i = 0; i < 2 * halves; i++) slots[lane][i] = a[i];
    for (int i = 0; i < halves; i++) slots[lane][4 + i] = b[i];
    emulation::meet(0xffffffffu);
    for (int i = 0; i < 4; i++) {
        const unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        d[i] = halves == 2 ? FLOAT_SUM : 0;
        for (unsigned k = 0; k < 4; k++)
            for (int half = 0; half < halves; half++)
                d[i] = dot_bytes(int(slots[row % 8 * 4 + k][half * 2 + row / 8]), int(slots[column * 4 + k][4 + half]), d[i]);
    }
    emulation::meet(0xffffffffu);
}
static inline void multiply_32(int (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
    const uint32_t a[4] = {a0, a1, a2, a3}, b[2] = {b0, b1};
    multiply_tile(d, a, b, 2);
}
static inline void multiply_16(int (&d)[4], uint32_t a0, uint32_t a1, uint32_t b0) {
    const uint32_t a[2] = {a0, a1}, b[1] = {b0};
    multiply_tile(d, a, b, 1);
}
#define HAS_TENSOR_CORES 1
#define HAS_BULK_COPIES 1
static inline uint32_t warp_max(uint32_t v) {
    for (int step = 16; step; step /= 2) v = max(v, shuffle_xor(0xffffffffu, v, step));
    return v;
}
static inline int warp_add(int v) {
    for (int step = 16; step; step /= 2) v += int(shuffle_xor(0xffffffffu, uint32_t(v), step));
    return v;
}
// Copies are done when they are asked for.
static inline void copy_barrier(uintptr_t) {}
static inline void copies_expected(uintptr_t, int) {}
static inline void copy_bulk(uintptr_t to, const void *from, int bytes, uintptr_t) { memcpy(reinterpret_cast<void *>(to), from, bytes); }
static inline void copies_arrived(uintptr_t, int) {}
