// Matrix × one row of activations where a processor copies in bulk (compute capability 9.0): as `gemv` in matmul.cuh, but
// units come through shared memory, several rounds ahead, so that much more is on its way than registers would hold, and
// most of it is asked for before the kernel ahead of this one has ended.
//
// A warp copies its own two units of a round, and its barriers are its own.
#pragma once
#include "matmul.cuh"

template <class W> struct Stream {
    static const int PRODUCERS = 8, ROUND = 2 * PRODUCERS, THREADS = (PRODUCERS + 1) * 32;
    // A half-warp reads one unit, the other half the next one: they lie in different banks.
    static const int SLOT = (Unit<W>::BYTES + 63) / 128 * 128 + 64;
};

#if HAS_BULK_COPIES
template <class W> DEVICE void stream(const MatmulArgs &a) {
    using S = Stream<W>;
    const int NW = S::PRODUCERS, ROUND = S::ROUND, THREADS = S::THREADS, depth = int(a.depth);
    const int PARTS = 4, PART_WARPS = NW / PARTS;
    const int FULL = 1, EMPTY = 1 + 2 * PARTS; // named barriers: [2][PARTS] and [2]
    const bool split = W::KIND == SPLIT || W::KIND == SPLIT_MINIMA;
    SHARED(uint8_t, bytes);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = lane % 16;
    const int columns = int(a.columns), groups = columns / 32, units = units_of(columns), rounds = (units + ROUND - 1) / ROUND;
    // A row of one round needs no second buffer in the chain.
    const int array = min(rounds, 2) * ROUND * CHAIN;
    float *products = reinterpret_cast<float *>(bytes + NW * 8 * STREAM_DEPTH), *sums = products + array;
    float *minima = sums + array, *min_sums = minima + array;
    uint8_t *slots = bytes + NW * 8 * STREAM_DEPTH + Chain<W>::ARRAYS * array * 4;
    uint8_t *copy = slots + depth * ROUND * S::SLOT;
    const int token = blockIdx.y;
    const PanelPlace place = find_panel(a, int(blockIdx.x));
    const size_t panel_size = panel_bytes<W>(columns);
    const uint8_t *panel = place.w + size_t(place.panel) * panel_size;
    auto has = [&](int unit, int s) { return W::COLUMNS == 256 ? unit < units : unit * 8 + s < groups; };
    const auto barriers = shared_address(bytes) + warp * STREAM_DEPTH * 8;
    auto fetch = [&](int round) {
        const int first = round * ROUND + warp * 2, stage = round % depth;
        if (first >= units) return;
        const auto to = shared_address(slots) + (stage * ROUND + warp * 2) * S::SLOT;
        const size_t at = size_t(first) * Unit<W>::BYTES, left = panel_size - at;
        const int one = left < size_t(Unit<W>::BYTES) ? int(left) : Unit<W>::BYTES;
        const int two = left - one < size_t(Unit<W>::BYTES) ? int(left - one) : Unit<W>::BYTES;
        copies_expected(barriers + stage * 8, one + two);
        copy_bulk(to, panel + at, one, barriers + stage * 8);
        if (two) copy_bulk(to + S::SLOT, panel + at + one, two, barriers + stage * 8);
    };
    const bool fetches = warp < NW && lane == 0;
    if (fetches)
        for (int stage = 0; stage < depth; stage++) copy_barrier(barriers + stage * 8);
    others_may_start();
    // Weights depend on nothing, unless a router chose them: they are asked for before the kernel ahead of this one is done.
    if (fetches && !a.experts)
        for (int round = 0; round < depth; round++) fetch(round);
    wait_for_those_before();
    if (a.experts) {
        panel += size_t(a.experts[token]) * a.expert_bytes;
        if (fetches)
            for (int round = 0; round < depth; round++) fetch(round);
    }
    const uint8_t *act = a.x + size_t(token / a.x_shared_by) * a.x_stride;
    for (int i = threadIdx.x; i < units * (UNIT / 16); i += THREADS)
        reinterpret_cast<int4 *>(copy)[i] = reinterpret_cast<const int4 *>(act)[i];
    const int *xs = reinterpret_cast<const int *>(copy);
    const float *xf = reinterpret_cast<const float *>(copy);
    __syncthreads();

    if (warp < NW) {
        for (int round = 0; round < rounds; round++) {
            const int buf = round % 2, stage = round % depth, own = warp * 2 + lane / 16, unit = round * ROUND + own;
            if (round >= 2) bar_sync(EMPTY + buf, THREADS);
            if (round * ROUND + warp * 2 < units) copies_arrived(barriers + stage * 8, round / depth % 2);
            if (unit < units) {
                const uint8_t *here = slots + (stage * ROUND + own) * S::SLOT;
                const int base = unit * UNIT_WORDS, at = (buf * ROUND + own) * CHAIN + row;
                uint32_t heads[W::HEAD];
#pragma unroll
                for (int i = 0; i < W::HEAD; i++)
                    if (has(unit, i)) heads[i] = W::template head<Plain>(here, row, i);
                auto head = [&](int i) { return heads[i]; };
#pragma unroll
                for (int s = 0; s < 8; s++) {
                    if (!has(unit, s)) break;
                    const int4 xa = *reinterpret_cast<const int4 *>(xs + base + 8 * s);
                    const int4 xb = *reinterpret_cast<const int4 *>(xs + base + 8 * s + 4);
                    const int x0[4] = {xa.x, xa.y, xa.z, xa.w}, x1[4] = {xb.x, xb.y, xb.z, xb.w};
                    const uint8_t *lines = W::lines(here, s);
                    auto line = [&](int i) { return read_line<Plain>(lines, row, i); };
                    int sum0 = split ? 0 : FLOAT_SUM, sum1 = 0;
#pragma unroll
                    for (int k = 0; k < 4; k++) {
                        uint32_t w0, w1;
                        W::quads(line, k, w0, w1);
                        sum0 = dot_bytes(int(w0), x0[k], sum0), sum1 = dot_bytes(int(w1), x1[k], sum1);
                    }
                    const float dx = xf[base + 64 + s];
                    const float whole = split ? float(join_halves(W::scales(head, s), sum0, sum1))
                                              : float_of(uint32_t(sum0 + sum1)) - 12582912.0f;
                    products[at + s * 16] = W::scale(head, s) * dx;
                    sums[at + s * 16] = whole;
                    if (W::KIND == MINIMA) minima[at + s * 16] = W::minimum(head, s);
                    if (W::KIND == SPLIT_MINIMA) {
                        const int halves = xs[base + 80 + s];
                        minima[at + s * 16] = W::minimum(head, s) * dx;
                        min_sums[at + s * 16] = float(join_halves(W::minima(head, s), halves << 16 >> 16, halves >> 16));
                    }
                }
            }
            __syncwarp();
            if (lane == 0) fetch(round + depth);
            bar_arrive(FULL + buf * PARTS + warp / PART_WARPS, PART_WARPS * 32 + 32);
        }
        return;
    }
    float acc = 0.0f;
    for (int round = 0; round < rounds; round++) {
        const int buf = round % 2;
        for (int part = 0; part < PARTS; part++) {
            bar_sync(FULL + buf * PARTS + part, PART_WARPS * 32 + 32);
            const int first = part * PART_WARPS * 2, unit = round * ROUND + first, at = (buf * ROUND + first) * CHAIN + row;
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
#else
template <class W> DEVICE void stream(const MatmulArgs &) {}
#endif
