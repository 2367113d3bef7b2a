// Matrix × rows of activations for quantized types, with the float operations of the contract in its order.
//
// One token (`gemv`): producer warps sum the integers of different units at once, a half-warp a unit, a lane a row, and
// leave scales and sums in shared memory; one warp a panel applies the fused multiply-adds in order.
// The same where copies are made in bulk: see stream.cuh. A few tokens: see few.cuh.
// Many tokens (`gemm`): mma.m16n8k32.s8 is one panel's 16 rows × one group of 32 columns × 8 tokens, and the panel's
// words are its A fragment; the fused multiply-adds follow in registers.
#pragma once
#include "rows.cuh"
#include "types.cuh"

// One of the matrices that share their input.
struct MatmulPart {
    const uint8_t *w;
    float *out;
    uint32_t rows, panels;
};
struct MatmulArgs {
    MatmulPart parts[3];
    const uint8_t *x;
    // With experts: which one each token takes, and the bytes from one to the next.
    const uint32_t *experts;
    uint64_t expert_bytes;
    uint32_t columns, tokens;
    // Bytes from a row of activations to the next, and floats from a row of results.
    uint32_t x_stride, out_stride;
    // So many tokens in a row have the same activations.
    uint32_t x_shared_by;
    // Whether activations are copied to shared memory first.
    uint32_t staged;
    // Rounds that `stream` has on their way, and which part has the second type where there are two.
    uint32_t depth, second;
};
static const int STREAM_DEPTH = 8; // at most

struct PanelPlace {
    const uint8_t *w;
    float *out;
    int rows, panel;
};
DEVICE PanelPlace find_panel(const MatmulArgs &a, int panel) {
    int part = 0;
    while (part < 2 && panel >= int(a.parts[part].panels)) panel -= int(a.parts[part].panels), part++;
    return {a.parts[part].w, a.parts[part].out, int(a.parts[part].rows), panel};
}

template <class W> DEVICE size_t panel_bytes(int columns) { return size_t(columns / W::COLUMNS) * W::BYTES; }
template <class W> struct Unit { static const int BYTES = W::BYTES * (256 / W::COLUMNS); };

// Floats that a unit takes in each array for the chain: 8 groups of 16 rows, and 16 against conflicts.
static const int CHAIN = 8 * 16 + 16;
template <class W> struct Chain {
    static const int ARRAYS = W::KIND == SPLIT_MINIMA ? 4 : W::KIND == MINIMA ? 3 : 2;
};

// NW producer warps and one for the chain.
template <class W, int NW> DEVICE void gemv(const MatmulArgs &a) {
    const int ROUND = 2 * NW, PARTS = NW < 4 ? NW : 4, PART_WARPS = NW / PARTS, THREADS = (NW + 1) * 32;
    const int FULL = 1, EMPTY = 1 + 2 * PARTS; // named barriers: [2][PARTS] and [2]
    SHARED(float, shared);
    float *products = shared, *sums = products + 2 * ROUND * CHAIN, *minima = sums + 2 * ROUND * CHAIN;
    float *min_sums = minima + 2 * ROUND * CHAIN;
    uint8_t *copy = reinterpret_cast<uint8_t *>(shared + Chain<W>::ARRAYS * 2 * ROUND * CHAIN);

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = lane % 16;
    const int own = warp * 2 + lane / 16; // this half-warp's unit in a round
    const int groups = int(a.columns) / 32, units = units_of(int(a.columns));
    const int rounds = (units + ROUND - 1) / ROUND, token = blockIdx.y;
    const PanelPlace place = find_panel(a, int(blockIdx.x));

    uint32_t lines[8][W::LINES], heads[W::HEAD];
    const uint8_t *panel = place.w + size_t(place.panel) * panel_bytes<W>(int(a.columns));
    auto has = [&](int unit, int s) { return W::COLUMNS == 256 ? unit < units : unit * 8 + s < groups; };
    auto load_head = [&](int unit) {
        const uint8_t *at = panel + size_t(unit) * Unit<W>::BYTES;
#pragma unroll
        for (int i = 0; i < W::HEAD; i++)
            if (has(unit, i)) heads[i] = W::template head<Streamed>(at, row, i);
    };
    auto load_group = [&](int unit, int s) {
        const uint8_t *at = W::lines(panel + size_t(unit) * Unit<W>::BYTES, s);
#pragma unroll
        for (int i = 0; i < W::LINES; i++) lines[s][i] = read_line<Streamed>(at, row, i);
    };
    auto load_unit = [&] {
        load_head(own);
#pragma unroll
        for (int s = 0; s < 8; s++)
            if (has(own, s)) load_group(own, s);
    };
    // Weights depend on nothing, unless a router chose them: they are asked for before the kernel ahead of this one is done.
    const bool producer = warp < NW && own < units;
    if (producer && !a.experts) load_unit();
    begin();
    if (a.experts) {
        panel += size_t(a.experts[token]) * a.expert_bytes;
        if (producer) load_unit();
    }
    const uint8_t *act = a.x + size_t(token / a.x_shared_by) * a.x_stride;
    if (a.staged) {
        for (int i = threadIdx.x; i < units * (UNIT / 16); i += THREADS)
            reinterpret_cast<int4 *>(copy)[i] = reinterpret_cast<const int4 *>(act)[i];
        act = copy;
    }
    const int *xs = reinterpret_cast<const int *>(act);
    const float *xf = reinterpret_cast<const float *>(act);
    __syncthreads();

    if (warp < NW) {
        for (int round = 0; round < rounds; round++) {
            const int buf = round % 2, unit = round * ROUND + own;
            __syncwarp();
            if (round >= 2) bar_sync(EMPTY + buf, THREADS);
            if (unit < units) {
                const int next = unit + ROUND, base = unit * UNIT_WORDS, at = (buf * ROUND + own) * CHAIN + row;
                float scales[8], mins[8];
                int pairs[8], min_pairs[8];
                auto head = [&](int i) { return heads[i]; };
#pragma unroll
                for (int s = 0; s < 8; s++) {
                    scales[s] = W::scale(head, s), mins[s] = W::minimum(head, s);
                    pairs[s] = W::scales(head, s), min_pairs[s] = W::minima(head, s);
                }
                if (next < units) load_head(next);
#pragma unroll
                for (int s = 0; s < 8; s++) {
                    if (!has(unit, s)) continue;
                    const int4 xa = *reinterpret_cast<const int4 *>(xs + base + 8 * s);
                    const int4 xb = *reinterpret_cast<const int4 *>(xs + base + 8 * s + 4);
                    const int x0[4] = {xa.x, xa.y, xa.z, xa.w}, x1[4] = {xb.x, xb.y, xb.z, xb.w};
                    int sum0 = 0, sum1 = 0;
                    auto line = [&](int i) { return lines[s][i]; };
#pragma unroll
                    for (int k = 0; k < 4; k++) {
                        uint32_t w0, w1;
                        W::quads(line, k, w0, w1);
                        sum0 = dot_bytes(int(w0), x0[k], sum0), sum1 = dot_bytes(int(w1), x1[k], sum1);
                    }
                    // The registers are free: the next unit's words take them while this one is worked on.
                    if (has(next, s)) load_group(next, s);
                    const float dx = xf[base + 64 + s];
                    const bool split = W::KIND == SPLIT || W::KIND == SPLIT_MINIMA;
                    products[at + s * 16] = scales[s] * dx;
                    sums[at + s * 16] = float(split ? join_halves(pairs[s], sum0, sum1) : sum0 + sum1);
                    if (W::KIND == MINIMA) minima[at + s * 16] = mins[s];
                    if (W::KIND == SPLIT_MINIMA) {
                        const int halves = xs[base + 80 + s];
                        minima[at + s * 16] = mins[s] * dx;
                        min_sums[at + s * 16] = float(join_halves(min_pairs[s], halves << 16 >> 16, halves >> 16));
                    }
                }
            }
            __syncwarp();
            bar_arrive(FULL + buf * PARTS + warp / PART_WARPS, PART_WARPS * 32 + 32);
        }
        return;
    }
    float acc = 0.0f;
    for (int round = 0; round < rounds; round++) {
        const int buf = round % 2;
        for (int part = 0; part < PARTS; part++) {
            bar_sync(FULL + buf * PARTS + part, PART_WARPS * 32 + 32);
            const int first = part * PART_WARPS * 2, unit = round * ROUND + first;
            const int at = (buf * ROUND + first) * CHAIN + row;
#pragma unroll
            for (int h = 0; h < 2 * PART_WARPS; h++) {
                if (unit + h >= units) break;
#pragma unroll
                for (int s = 0; s < 8; s++) {
                    if (!has(unit + h, s)) break;
                    const int i = at + h * CHAIN + s * 16;
                    acc = fmaf(products[i], sums[i], acc);
                    if (W::KIND == MINIMA) acc = fmaf(minima[i], xf[(unit + h) * UNIT_WORDS + 72 + s], acc);
                    if (W::KIND == SPLIT_MINIMA) acc = fmaf(minima[i], min_sums[i], acc);
                }
            }
        }
        if (round + 2 < rounds) bar_arrive(EMPTY + buf, THREADS);
    }
    const int r = place.panel * 16 + lane;
    if (lane < 16 && r < place.rows) place.out[size_t(token) * a.out_stride + r] = acc;
}

// BM rows × BN tokens a block, WM × WN a warp.
template <class W, int BM, int BN, int WM, int WN, int STAGES> struct Gemm {
    static const int WARPS_M = BM / WM, WARPS_N = BN / WN, THREADS = WARPS_M * WARPS_N * 32;
    static const int MT = WM / 16, NT = WN / 8, PANELS = BM / 16;
    static const int X_STRIDE = UNIT + 16; // so that 8 tokens' quads lie in different banks
    static const int W_BYTES = PANELS * Unit<W>::BYTES, X_BYTES = BN * X_STRIDE, STAGE = W_BYTES + X_BYTES;
};

#if HAS_TENSOR_CORES
template <class W, int BM, int BN, int WM, int WN, int STAGES> DEVICE void gemm(const MatmulArgs &a) {
    using G = Gemm<W, BM, BN, WM, WN, STAGES>;
    const int MT = G::MT, NT = G::NT, UNIT_BYTES = Unit<W>::BYTES;
    const bool split = W::KIND == SPLIT || W::KIND == SPLIT_MINIMA, minima = W::KIND == MINIMA || W::KIND == SPLIT_MINIMA;
    SHARED(uint8_t, bytes);
    float2 *row_scales = reinterpret_cast<float2 *>(bytes + STAGES * G::STAGE); // [8][BM]: scale, minimum
    float2 *token_scales = row_scales + 8 * BM;                                 // [8][BN]: d, d · sum (or the halves' sums)
    int *row_pairs = reinterpret_cast<int *>(token_scales + 8 * BN);            // [8][BM]: scales of halves
    int *min_pairs = row_pairs + (split ? 8 * BM : 0);                          // [8][BM]: minima of halves
    const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32, g = lane / 4, tig = lane % 4;
    const int wm = warp % G::WARPS_M, wn = warp / G::WARPS_M, token0 = blockIdx.y * BN;
    const int units = units_of(int(a.columns)), tokens = int(a.tokens);
    const size_t panel_size = panel_bytes<W>(int(a.columns));
    const auto base = shared_address(bytes);
    const int all_panels = int(a.parts[0].panels + a.parts[1].panels + a.parts[2].panels);
    begin();

    auto fetch = [&](int u) {
        const auto to = base + u % STAGES * G::STAGE;
        for (int i = tid; i < G::PANELS * (UNIT_BYTES / 16); i += G::THREADS) {
            const int p = i / (UNIT_BYTES / 16), c = i % (UNIT_BYTES / 16);
            const int panel = int(blockIdx.x) * G::PANELS + p;
            const size_t at = size_t(u) * UNIT_BYTES + c * 16;
            const bool real = panel < all_panels && at < panel_size;
            const PanelPlace place = find_panel(a, real ? panel : 0);
            copy16(to + i * 16, place.w + (real ? size_t(place.panel) * panel_size + at : 0), real);
        }
        for (int i = tid; i < BN * (UNIT / 16); i += G::THREADS) {
            const int t = i / (UNIT / 16), c = i % (UNIT / 16);
            const bool real = token0 + t < tokens;
            const size_t token = real ? token0 + t : 0;
            copy16(to + G::W_BYTES + t * G::X_STRIDE + c * 16, a.x + token * a.x_stride + size_t(u) * UNIT + c * 16, real);
        }
    };

    float acc[MT][NT][4];
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) acc[m][n][i] = 0.0f;

    for (int u = 0; u < STAGES - 1; u++) {
        if (u < units) fetch(u);
        copies_end();
    }
    for (int u = 0; u < units; u++) {
        copies_wait<STAGES - 2>();
        __syncthreads();
        if (u + STAGES - 1 < units) fetch(u + STAGES - 1);
        copies_end();
        const uint8_t *ws = bytes + u % STAGES * G::STAGE, *xs = ws + G::W_BYTES;
        for (int i = tid; i < BM * 8; i += G::THREADS) {
            const int row = i % BM, s = i / BM;
            const uint8_t *unit = ws + row / 16 * UNIT_BYTES;
            auto head = [&](int j) { return W::template head<Plain>(unit, row % 16, j); };
            row_scales[i] = make_float2(W::scale(head, s), minima ? W::minimum(head, s) : 0.0f);
            if (split) row_pairs[i] = W::scales(head, s);
            if (W::KIND == SPLIT_MINIMA) min_pairs[i] = W::minima(head, s);
        }
        for (int i = tid; i < BN * 8; i += G::THREADS) {
            const float *x = reinterpret_cast<const float *>(xs + i % BN * G::X_STRIDE + 256);
            token_scales[i] = make_float2(x[i / BN], x[(W::KIND == SPLIT_MINIMA ? 16 : 8) + i / BN]);
        }
        __syncthreads();
        const int here = W::COLUMNS == 256 ? 8 : min(8, int(a.columns) / 32 - u * 8);
#pragma unroll 2
        for (int s = 0; s < here; s++) {
            uint32_t w[MT][4];
            float2 rs[MT][2];
            int rp[MT][2], mp[MT][2];
#pragma unroll
            for (int m = 0; m < MT; m++) {
                const uint8_t *lines = W::lines(ws + (wm * MT + m) * UNIT_BYTES, s);
                auto low = [&](int i) { return read_line<Plain>(lines, g, i); };
                auto high = [&](int i) { return read_line<Plain>(lines, g + 8, i); };
                W::quads(low, tig, w[m][0], w[m][2]);
                W::quads(high, tig, w[m][1], w[m][3]);
                const int at = s * BM + wm * WM + m * 16 + g;
                rs[m][0] = row_scales[at], rs[m][1] = row_scales[at + 8];
                if (split) rp[m][0] = row_pairs[at], rp[m][1] = row_pairs[at + 8];
                if (W::KIND == SPLIT_MINIMA) mp[m][0] = min_pairs[at], mp[m][1] = min_pairs[at + 8];
            }
#pragma unroll
            for (int n = 0; n < NT; n++) {
                const int t = wn * WN + n * 8;
                const uint32_t *x = reinterpret_cast<const uint32_t *>(xs + (t + g) * G::X_STRIDE) + 8 * s + tig;
                const uint32_t b0 = x[0], b1 = x[4];
                const float4 ts = *reinterpret_cast<const float4 *>(token_scales + s * BN + t + 2 * tig);
#pragma unroll
                for (int m = 0; m < MT; m++) {
                    int first[4], second[4];
                    if (split) {
                        multiply_16(first, w[m][0], w[m][1], b0);
                        multiply_16(second, w[m][2], w[m][3], b1);
                    } else multiply_32(first, w[m][0], w[m][1], w[m][2], w[m][3], b0, b1);
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        const float2 r = rs[m][i / 2];
                        const float dx = i % 2 ? ts.z : ts.x, sx = i % 2 ? ts.w : ts.y;
                        float &o = acc[m][n][i];
                        const float sum = split ? float(join_halves(rp[m][i / 2], first[i], second[i])) : whole_sum(first[i]);
                        o = fmaf(r.x * dx, sum, o);
                        if (W::KIND == MINIMA) o = fmaf(r.y, sx, o);
                        if (W::KIND == SPLIT_MINIMA) {
                            const int halves = int(bits_of(sx));
                            const int min_sum = join_halves(mp[m][i / 2], halves << 16 >> 16, halves >> 16);
                            o = fmaf(r.y * dx, float(min_sum), o);
                        }
                    }
                }
            }
        }
    }
#pragma unroll
    for (int m = 0; m < MT; m++) {
        const int panel = int(blockIdx.x) * G::PANELS + wm * MT + m;
        if (panel >= all_panels) continue;
        const PanelPlace place = find_panel(a, panel);
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int row = place.panel * 16 + g + i / 2 * 8, t = token0 + wn * WN + n * 8 + 2 * tig + i % 2;
                if (row < place.rows && t < tokens) place.out[size_t(t) * a.out_stride + row] = acc[m][n][i];
            }
    }
}
#else
template <class W, int BM, int BN, int WM, int WN, int STAGES> DEVICE void gemm(const MatmulArgs &) {}
#endif
