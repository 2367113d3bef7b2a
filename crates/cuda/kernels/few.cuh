// Matrix × 2 to 8 rows of activations: what decoding a few sequences at once takes, bound by the weights' bytes.
//
// A block has one panel. Its producer warps take the units in turn: each copies its own ahead of time and multiplies them by
// mma.m16n8k32.s8, so that the integers of several units are summed at once; the sums go to shared memory. Four more warps,
// a thread for each row and token, apply the fused multiply-adds in order.
#pragma once
#include "matmul.cuh"

template <class W> struct Few {
    static const int TOKENS = 8, PRODUCERS = 4, CHAINS = 16 * TOKENS;
    static const int THREADS = PRODUCERS * 32 + CHAINS;
    static const int STAGES = Unit<W>::BYTES <= 2600 ? 3 : 2;
    static const int X_STRIDE = UNIT + 16; // so that 8 tokens' quads lie in different banks
    static const int SLOT = Unit<W>::BYTES + TOKENS * X_STRIDE;
};

#if HAS_TENSOR_CORES
template <class W> DEVICE void few(const MatmulArgs &a) {
    using F = Few<W>;
    const int NW = F::PRODUCERS, STAGES = F::STAGES, UNIT_BYTES = Unit<W>::BYTES;
    const int FULL = 1, EMPTY = FULL + 2 * NW; // named barriers: [2][NW] and [2]
    const bool split = W::KIND == SPLIT || W::KIND == SPLIT_MINIMA, minima = W::KIND == MINIMA || W::KIND == SPLIT_MINIMA;
    SHARED(uint8_t, bytes);
    // Of each producer, twice: the sums of 8 groups, what their rows are scaled by, and their tokens.
    float *all_sums = reinterpret_cast<float *>(bytes + NW * STAGES * F::SLOT); // [8][16 rows × 8 tokens]
    float2 *all_rows = reinterpret_cast<float2 *>(all_sums + 2 * NW * 8 * F::CHAINS); // [8][16]: scale, minimum
    float2 *all_tokens = all_rows + 2 * NW * 8 * 16; // [8][8]: d, d · sum (or the halves' sums)
    int *all_pairs = reinterpret_cast<int *>(all_tokens + 2 * NW * 8 * F::TOKENS); // [8][16]: minima of halves
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, tig = lane % 4;
    const int token0 = int(blockIdx.y) * F::TOKENS, tokens = min(F::TOKENS, int(a.tokens) - token0);
    const int groups = int(a.columns) / 32, units = units_of(int(a.columns)), rounds = (units + NW - 1) / NW;
    const PanelPlace place = find_panel(a, int(blockIdx.x));
    auto groups_of = [&](int unit) { return W::COLUMNS == 256 ? 8 : min(8, groups - unit * 8); };

    if (warp < NW) {
        const size_t panel_size = panel_bytes<W>(int(a.columns));
        const uint8_t *panel = place.w + size_t(place.panel) * panel_size;
        const auto slots = shared_address(bytes) + warp * STAGES * F::SLOT;
        auto fetch_weights = [&](int round) {
            const int unit = round * NW + warp;
            const auto to = slots + round % STAGES * F::SLOT;
            if (unit >= units) return;
            for (int i = lane; i < UNIT_BYTES / 16; i += 32) {
                const size_t at = size_t(unit) * UNIT_BYTES + i * 16;
                copy16(to + i * 16, panel + (at < panel_size ? at : 0), at < panel_size);
            }
        };
        auto fetch_tokens = [&](int round) {
            const int unit = round * NW + warp;
            const auto to = slots + round % STAGES * F::SLOT + UNIT_BYTES;
            if (unit >= units) return;
            for (int i = lane; i < F::TOKENS * (UNIT / 16); i += 32) {
                const int t = i / (UNIT / 16), c = i % (UNIT / 16);
                const size_t token = token0 + (t < tokens ? t : 0);
                copy16(to + t * F::X_STRIDE + c * 16, a.x + token * a.x_stride + size_t(unit) * UNIT + c * 16, t < tokens);
            }
        };
        // Weights depend on nothing: they are asked for before the kernel ahead of this one is done.
        for (int round = 0; round < STAGES - 1; round++) {
            fetch_weights(round);
            copies_end();
        }
        begin();
        for (int round = 0; round < STAGES - 1; round++) {
            fetch_tokens(round);
            copies_end();
        }
        for (int round = 0; round < rounds; round++) {
            const int buf = round % 2, unit = round * NW + warp, mine = buf * NW + warp;
            copies_wait<STAGES - 2>();
            __syncwarp();
            fetch_weights(round + STAGES - 1);
            fetch_tokens(round + STAGES - 1);
            copies_end();
            if (round >= 2) bar_sync(EMPTY + buf, F::THREADS);
            if (unit < units) {
                const uint8_t *ws = bytes + (warp * STAGES + round % STAGES) * F::SLOT, *xs = ws + UNIT_BYTES;
                float *sums = all_sums + mine * 8 * F::CHAINS;
                auto head = [&](int row) { return [=](int j) { return W::template head<Plain>(ws, row, j); }; };
#pragma unroll
                for (int i = lane; i < 8 * 16; i += 32) {
                    const int row = i % 16, s = i / 16, at = mine * 8 * 16 + i;
                    const auto words = head(row);
                    all_rows[at] = make_float2(W::scale(words, s), minima ? W::minimum(words, s) : 0.0f);
                    if (W::KIND == SPLIT_MINIMA) all_pairs[at] = W::minima(words, s);
                }
#pragma unroll
                for (int i = lane; i < 8 * F::TOKENS; i += 32) {
                    const int t = i % F::TOKENS, s = i / F::TOKENS;
                    const float *x = reinterpret_cast<const float *>(xs + t * F::X_STRIDE + 256);
                    all_tokens[mine * 8 * F::TOKENS + i] = make_float2(x[s], x[(W::KIND == SPLIT_MINIMA ? 16 : 8) + s]);
                }
                const int here = groups_of(unit);
#pragma unroll
                for (int s = 0; s < 8; s++) {
                    if (s >= here) break;
                    const uint8_t *lines = W::lines(ws, s);
                    auto low = [&](int i) { return read_line<Plain>(lines, g, i); };
                    auto high = [&](int i) { return read_line<Plain>(lines, g + 8, i); };
                    uint32_t w[4];
                    W::quads(low, tig, w[0], w[2]);
                    W::quads(high, tig, w[1], w[3]);
                    const uint32_t *x = reinterpret_cast<const uint32_t *>(xs + g * F::X_STRIDE) + 8 * s + tig;
                    float out[4];
                    if (split) {
                        int first[4], second[4];
                        multiply_16(first, w[0], w[1], x[0]);
                        multiply_16(second, w[2], w[3], x[4]);
                        const int pairs[2] = {W::scales(head(g), s), W::scales(head(g + 8), s)};
#pragma unroll
                        for (int i = 0; i < 4; i++) out[i] = float(join_halves(pairs[i / 2], first[i], second[i]));
                    } else {
                        int sum[4];
                        multiply_32(sum, w[0], w[1], w[2], w[3], x[0], x[4]);
#pragma unroll
                        for (int i = 0; i < 4; i++) out[i] = whole_sum(sum[i]);
                    }
                    float2 *to = reinterpret_cast<float2 *>(sums + s * F::CHAINS);
                    to[g * 4 + tig] = make_float2(out[0], out[1]);
                    to[(g + 8) * 4 + tig] = make_float2(out[2], out[3]);
                }
            }
            __syncwarp();
            bar_arrive(FULL + mine, 32 + F::CHAINS);
        }
        return;
    }
    begin();
    const int chain = int(threadIdx.x) - NW * 32, row = chain / F::TOKENS, token = chain % F::TOKENS;
    float acc = 0.0f;
    for (int round = 0; round < rounds; round++) {
        const int buf = round % 2;
        for (int producer = 0; producer < NW; producer++) {
            const int unit = round * NW + producer, from = buf * NW + producer;
            bar_sync(FULL + from, 32 + F::CHAINS);
            if (unit >= units) continue;
            const float *sums = all_sums + from * 8 * F::CHAINS + chain;
            const float2 *rows = all_rows + from * 8 * 16 + row, *scales = all_tokens + from * 8 * F::TOKENS + token;
            const int here = groups_of(unit);
#pragma unroll
            for (int s = 0; s < 8; s++) {
                if (s >= here) break;
                const float2 r = rows[s * 16], t = scales[s * F::TOKENS];
                acc = fmaf(r.x * t.x, sums[s * F::CHAINS], acc);
                if (W::KIND == MINIMA) acc = fmaf(r.y, t.y, acc);
                if (W::KIND == SPLIT_MINIMA) {
                    const int pair = all_pairs[from * 8 * 16 + s * 16 + row], halves = int(bits_of(t.y));
                    acc = fmaf(r.y * t.x, float(join_halves(pair, halves << 16 >> 16, halves >> 16)), acc);
                }
            }
        }
        if (round + 2 < rounds) bar_arrive(EMPTY + buf, F::THREADS);
    }
    const int r = place.panel * 16 + row;
    if (token < tokens && r < place.rows) place.out[size_t(token0 + token) * a.out_stride + r] = acc;
}
#else
template <class W> DEVICE void few(const MatmulArgs &) {}
#endif
