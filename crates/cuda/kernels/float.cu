// Matrix × rows of floats: F32, F16 and BF16. Four sums a row, by column modulo 4, each in column order, then
// (s0 + s1) + (s2 + s3). A panel is columns of 16 numbers.
#include "matmul.cuh"

struct FloatF32 {
    static const int BYTES = 4;
    static DEVICE_MEMBER float load(const uint8_t *p) { return *reinterpret_cast<const float *>(p); }
};
struct FloatF16 {
    static const int BYTES = 2;
    static DEVICE_MEMBER float load(const uint8_t *p) { return half_to_float(*reinterpret_cast<const uint16_t *>(p)); }
};
struct FloatBF16 {
    static const int BYTES = 2;
    static DEVICE_MEMBER float load(const uint8_t *p) { return float_of(uint32_t(*reinterpret_cast<const uint16_t *>(p)) << 16); }
};

// Four tokens a block: a thread has one of the four sums of one row and one token. Columns go through shared memory in
// tiles; the next one is on its way in registers while this one is used.
template <class C> DEVICE void float_matmul(const MatmulArgs &a) {
    const int TOKENS = 4, TILE = 128, QUADS = TILE * 16 * C::BYTES / 16 / 256;
    SHARED(uint8_t, bytes);
    float *xs = reinterpret_cast<float *>(bytes + TILE * 16 * C::BYTES);
    const int tid = threadIdx.x, c = tid % 4, row = tid / 4 % 16, slot = tid / 64;
    const int columns = int(a.columns), first = a.experts ? blockIdx.y : blockIdx.y * TOKENS;
    const int token = first + slot;
    const PanelPlace place = find_panel(a, int(blockIdx.x));
    begin();
    const uint8_t *panel = place.w + size_t(place.panel) * 16 * C::BYTES * columns;
    // With experts a block has one token.
    if (a.experts) panel += size_t(a.experts[first]) * a.expert_bytes;
    const size_t end = size_t(columns) * 16 * C::BYTES;
    uint4 ahead[QUADS];
    float x_ahead[TOKENS * TILE / 256];
    auto fetch = [&](int start) {
#pragma unroll
        for (int i = 0; i < QUADS; i++) {
            const size_t at = size_t(start) * 16 * C::BYTES + (i * 256 + tid) * 16;
            if (at < end) ahead[i] = *reinterpret_cast<const uint4 *>(panel + at);
        }
#pragma unroll
        for (int i = 0; i < TOKENS * TILE / 256; i++) {
            const int t = (i * 256 + tid) / TILE, column = start + (i * 256 + tid) % TILE;
            const bool real = first + t < int(a.tokens) && column < columns;
            const size_t source = size_t((first + t) / a.x_shared_by) * a.x_stride;
            x_ahead[i] = real ? reinterpret_cast<const float *>(a.x + source)[column] : 0.0f;
        }
    };
    float sum = 0.0f;
    fetch(0);
    for (int start = 0; start < columns; start += TILE) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < QUADS; i++) reinterpret_cast<uint4 *>(bytes)[i * 256 + tid] = ahead[i];
#pragma unroll
        for (int i = 0; i < TOKENS * TILE / 256; i++) xs[i * 256 + tid] = x_ahead[i];
        __syncthreads();
        if (start + TILE < columns) fetch(start + TILE);
        const int here = min(TILE, columns - start);
#pragma unroll 8
        for (int i = c; i < here; i += 4) sum = fmaf(C::load(bytes + (i * 16 + row) * C::BYTES), xs[slot * TILE + i], sum);
    }
    // Neighbours are the four sums: (s0 + s1), (s2 + s3), and both.
    sum = sum + float_of(shuffle_xor(0xffffffffu, bits_of(sum), 1));
    sum = sum + float_of(shuffle_xor(0xffffffffu, bits_of(sum), 2));
    const int r = place.panel * 16 + row;
    const bool mine = a.experts ? slot == 0 : token < int(a.tokens);
    if (c == 0 && r < place.rows && mine) place.out[size_t(a.experts ? first : token) * a.out_stride + r] = sum;
}

KERNEL(float_f32, BLOCKS(256), MatmulArgs, a) { float_matmul<FloatF32>(a); }
KERNEL(float_f16, BLOCKS(256), MatmulArgs, a) { float_matmul<FloatF16>(a); }
KERNEL(float_bf16, BLOCKS(256), MatmulArgs, a) { float_matmul<FloatBF16>(a); }
