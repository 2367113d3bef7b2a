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

// Calls `add` with the elements of a row that are a half-warp's lane's: i modulo 16, in order. The next ones are on their
// way while some are added. Past the end of the row there is `rest`.
template <class F, class A> DEVICE void each_of_lane(int n, float rest, F at, A add) {
    const int AHEAD = 16, lane = threadIdx.x % 16, whole = (n + 15) / 16 * 16;
    float next[AHEAD];
#pragma unroll
    for (int k = 0; k < AHEAD; k++) next[k] = lane + 16 * k < n ? at(lane + 16 * k) : rest;
    for (int i = lane; i < whole; i += 16 * AHEAD) {
        float now[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) now[k] = next[k];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            const int j = i + 16 * (AHEAD + k);
            next[k] = j < n ? at(j) : rest;
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (i + 16 * k < whole) add(now[k]);
    }
}

// Sums over a row by a half-warp: element i in lane i modulo 16, in order. `at(i)` gives an element.
template <class F> DEVICE float lane_sum(int n, F at) {
    float sum = 0.0f;
    each_of_lane(n, 0.0f, at, [&](float x) { sum = sum + x; });
    return join_lanes(sum);
}
template <class F> DEVICE float lane_sum_of_squares(int n, float center, F at) {
    float sum = 0.0f;
    each_of_lane(n, center, at, [&](float v) {
        const float x = v - center;
        sum = fmaf(x, x, sum);
    });
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

// One warp stores N groups, `step` apart, of those before `end`; `v` are the lane's values.
template <int N> DEVICE void encode_groups(const float (&v)[N], uint8_t *row, int group, int step, int end) {
    const int lane = threadIdx.x % 32;
    uint32_t top[N];
    int q[N], sum[N];
    float d[N];
#pragma unroll
    for (int k = 0; k < N; k++) top[k] = warp_max(bits_of(v[k]) & 0x7fffffffu);
#pragma unroll
    for (int k = 0; k < N; k++) {
        const float amax = float_of(top[k]), id = divide(127.0f, amax);
        q[k] = 0;
        if (top[k] >= 0x7f800000u) d[k] = float_of(0x7fc00000u);
        else if (bits_of(id) == 0x7f800000u) d[k] = 0.0f;
        else {
            q[k] = int(bits_of(v[k] * id + 12582912.0f)) - 0x4b400000;
            d[k] = divide(amax, 127.0f);
        }
    }
    // Both halves' sums at once: the second one's are above the first one's 16 bits.
#pragma unroll
    for (int k = 0; k < N; k++) sum[k] = warp_add(lane < 16 ? q[k] : q[k] * 65536);
#pragma unroll
    for (int k = 0; k < N; k++) {
        const int g = group + k * step, low = sum[k] << 16 >> 16, high = (sum[k] - low) >> 16;
        if (g >= end) break;
        uint8_t *unit = row + size_t(g / 8) * UNIT;
        unit[g % 8 * 32 + lane] = uint8_t(q[k]);
        if (lane == 0) {
            reinterpret_cast<float *>(unit + 256)[g % 8] = d[k];
            reinterpret_cast<float *>(unit + 288)[g % 8] = d[k] * float(low + high);
            reinterpret_cast<uint32_t *>(unit + 320)[g % 8] = uint32_t(low & 0xffff) | uint32_t(high) << 16;
        }
    }
}
DEVICE void encode_group(float v, uint8_t *row, int group) {
    const float one[1] = {v};
    encode_groups<1>(one, row, group, 1, group + 1);
}

// The block stores a row of `columns` values, padded to whole units; its warps take turns.
template <class F> DEVICE void encode_row(int columns, uint8_t *row, F at) {
    const int TOGETHER = 4, groups = units_of(columns) * 8, warps = blockDim.x / 32, lane = threadIdx.x % 32;
    for (int g = threadIdx.x / 32; g < groups; g += TOGETHER * warps) {
        float v[TOGETHER];
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) {
            const int i = (g + k * warps) * 32 + lane;
            v[k] = i < columns ? at(i) : 0.0f;
        }
        encode_groups<TOGETHER>(v, row, g, warps, groups);
    }
}
