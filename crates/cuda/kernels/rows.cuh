// Rows of floats: sums in 16 lanes, norms, and rows quantized to 8 bits.
#pragma once
#include "device.cuh"

// Joins 16 lanes of a half-warp: +8, +4, +2, +1. Every lane gets the sum.
DEVICE float join_lanes(float v) {
    const unsigned mask = (threadIdx.x & 16) ? 0xffff0000u : 0x0000ffffu;
#pragma unroll
    for (int step = 8; step; step /= 2) {
        // A lane below `step` adds the one above it; addition is the same from either side.
        v = v + float_of(shuffle_xor(mask, bits_of(v), step));
    }
    return v;
}

// Sums over a row by a half-warp: element i in lane i modulo 16, in order. `at(i)` gives an element.
template <class F> DEVICE float lane_sum(int n, F at) {
    const int lane = threadIdx.x % 16, whole = (n + 15) / 16 * 16;
    float sum = 0.0f;
#pragma unroll 8
    for (int i = lane; i < whole; i += 16) sum = sum + (i < n ? at(i) : 0.0f);
    return join_lanes(sum);
}
template <class F> DEVICE float lane_sum_of_squares(int n, float center, F at) {
    const int lane = threadIdx.x % 16, whole = (n + 15) / 16 * 16;
    float sum = 0.0f;
#pragma unroll 8
    for (int i = lane; i < whole; i += 16) {
        const float x = (i < n ? at(i) : center) - center;
        sum = fmaf(x, x, sum);
    }
    return join_lanes(sum);
}

// What a norm subtracts and multiplies by.
struct NormFactors {
    float mean, inverse;
};
template <class F> DEVICE NormFactors norm_factors(int n, bool rms, float epsilon, F at) {
    const float count = float(n);
    const float mean = rms ? 0.0f : divide(lane_sum(n, at), count);
    const float variance = divide(lane_sum_of_squares(n, mean, at), count);
    return {mean, divide(1.0f, square_root(variance + epsilon))};
}
DEVICE float normed(NormFactors f, bool rms, float x, const float *weight, const float *bias, int i) {
    if (rms) return x * f.inverse * weight[i];
    float y = (x - f.mean) * f.inverse;
    y = y * weight[i];
    return bias ? y + bias[i] : y;
}

// A norm over a row in shared memory by the whole block; `factors` is shared. Ends with all threads past a barrier.
DEVICE NormFactors block_norm(const float *row, int n, bool rms, float epsilon, NormFactors *factors) {
    __syncthreads();
    if (threadIdx.x < 16) {
        const NormFactors f = norm_factors(n, rms, epsilon, [&](int i) { return row[i]; });
        if (threadIdx.x == 0) *factors = f;
    }
    __syncthreads();
    return *factors;
}

// ---- Quantized rows: units of 256 values, 8 groups of 32 with a scale each. Groups past the row's end are zero.

static const int UNIT = 352;       // bytes: 256 values, 8 scales, 8 scaled sums, 8 pairs of sums of halves
static const int UNIT_WORDS = UNIT / 4;
DEVICE int units_of(int columns) { return (columns + 255) / 256; }

// One warp stores a group; `v` is the lane's value.
DEVICE void encode_group(float v, uint8_t *row, int group) {
    const int lane = threadIdx.x % 32;
    const unsigned all = 0xffffffffu;
    uint32_t top = bits_of(v) & 0x7fffffffu;
#pragma unroll
    for (int step = 16; step; step /= 2) top = max(top, shuffle_xor(all, top, step));
    const float amax = float_of(top), id = divide(127.0f, amax);
    int q = 0;
    float d;
    if (top >= 0x7f800000u) d = float_of(0x7fc00000u);
    else if (bits_of(id) == 0x7f800000u) d = 0.0f;
    else {
        q = int(bits_of(v * id + 12582912.0f)) - 0x4b400000;
        d = divide(amax, 127.0f);
    }
    int sum = q;
#pragma unroll
    for (int step = 8; step; step /= 2) sum += int(shuffle_xor(all, uint32_t(sum), step));
    const int low = int(shuffle(all, uint32_t(sum), 0)), high = int(shuffle(all, uint32_t(sum), 16));
    uint8_t *unit = row + size_t(group / 8) * UNIT;
    unit[group % 8 * 32 + lane] = uint8_t(q);
    if (lane == 0) {
        reinterpret_cast<float *>(unit + 256)[group % 8] = d;
        reinterpret_cast<float *>(unit + 288)[group % 8] = d * float(low + high);
        reinterpret_cast<uint32_t *>(unit + 320)[group % 8] = uint32_t(low & 0xffff) | uint32_t(high) << 16;
    }
}

// The block stores a row of `columns` values, padded to whole units.
template <class F> DEVICE void encode_row(int columns, uint8_t *row, F at) {
    const int groups = units_of(columns) * 8, warps = blockDim.x / 32, lane = threadIdx.x % 32;
    for (int g = threadIdx.x / 32; g < groups; g += warps) {
        const int i = g * 32 + lane;
        encode_group(i < columns ? at(i) : 0.0f, row, g);
    }
}
