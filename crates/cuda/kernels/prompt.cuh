// Attention of prompts: 64 queries at a time, which are the heads that share keys, of tokens that follow each other, over 64
// keys at a time. The operations and their order are those of attention.cu: a score is 16 sums, by element modulo 16, joined
// as a tree; weights multiply values in the order of positions. Windows go the other way.
//
// A thread has 4 queries × 4 keys of the scores. A warp has 8 queries of the softmax and of the values' sums.
#pragma once
#include "attention.cuh"

static const int TILE = 64, OWN = 8; // queries and keys of a tile, queries of a warp

template <int SIZE> struct Prompt {
    static const int STRIDE = SIZE + 4; // so that rows begin in different banks
    static const int SCORES = CHUNK + 4;
};

// Element d of a row goes where a thread finds those of one of the 16 sums next to each other.
template <int SIZE> DEVICE int by_lane(int d) { return d % 16 * (SIZE / 16) + d / 16; }

// One of the 16 sums of 4 queries × 4 keys.
template <int SIZE> DEVICE void lane_of_scores(const float *q, const float *k, int l, float (&sums)[16]) {
    const int STRIDE = Prompt<SIZE>::STRIDE;
#pragma unroll
    for (int p = 0; p < 16; p++) sums[p] = 0.0f;
#pragma unroll
    for (int part = 0; part < SIZE / 64; part++) {
        const int at = l * (SIZE / 16) + part * 4;
        float4 x[4], y[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            x[i] = *reinterpret_cast<const float4 *>(q + i * STRIDE + at);
            y[i] = *reinterpret_cast<const float4 *>(k + i * 16 * STRIDE + at);
        }
#pragma unroll
        for (int p = 0; p < 16; p++) {
            const float4 a = x[p / 4], b = y[p % 4];
            sums[p] = fmaf(a.x, b.x, sums[p]);
            sums[p] = fmaf(a.y, b.y, sums[p]);
            sums[p] = fmaf(a.z, b.z, sums[p]);
            sums[p] = fmaf(a.w, b.w, sums[p]);
        }
    }
}
// The tree over lanes l, l + 2^(4 - LEVEL), …: +8 joins first.
template <int SIZE, int LEVEL> struct ScoreTree {
    static DEVICE_MEMBER void run(const float *q, const float *k, int l, float (&sums)[16]) {
        float other[16];
        ScoreTree<SIZE, LEVEL - 1>::run(q, k, l, sums);
        ScoreTree<SIZE, LEVEL - 1>::run(q, k, l + (16 >> LEVEL), other);
#pragma unroll
        for (int p = 0; p < 16; p++) sums[p] = sums[p] + other[p];
    }
};
template <int SIZE> struct ScoreTree<SIZE, 0> {
    static DEVICE_MEMBER void run(const float *q, const float *k, int l, float (&sums)[16]) { lane_of_scores<SIZE>(q, k, l, sums); }
};

// Eight elements of a stored row.
template <int KIND> DEVICE void stored_eight(const uint8_t *row, int d, float (&out)[8]) {
    if (KIND == KV_F16) {
        eight_halves(*reinterpret_cast<const uint4 *>(row + d * 2), out);
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++) out[i] = kv_value<KIND>(row, d + i);
    }
}

template <int KIND, int SIZE> DEVICE void attend_prompt(const AttentionArgs &a) {
    using P = Prompt<SIZE>;
    const int STRIDE = P::STRIDE, SCORES = P::SCORES, COLUMNS = SIZE / 32, EIGHTHS = SIZE / 8;
    const int ITEMS = TILE * EIGHTHS / THREADS;
    SHARED(float, shared);
    float *queries = shared, *tile = queries + TILE * STRIDE, *scores = tile + TILE * STRIDE;
    Total *totals = reinterpret_cast<Total *>(scores + TILE * SCORES);
    const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32, kv_head = blockIdx.y;
    const int sharing = int(a.heads / a.kv_heads), together = TILE / sharing;
    const int first = int(a.first) + int(blockIdx.x) * together, count = min(together, int(a.first + a.tokens) - first);
    others_may_start();
    const int position = int(a.batch.positions[first]), last = position + count;
    wait_for_those_before();
    // Query i is head i modulo `sharing` of token i / sharing; those past the end are zero.
    for (int i = tid; i < TILE * SIZE; i += THREADS) {
        const int q = i / SIZE, d = i % SIZE, token = q / sharing, head = kv_head * sharing + q % sharing;
        const float *row = a.queries + size_t(first + token) * a.query_stride + head * SIZE;
        queries[q * STRIDE + by_lane<SIZE>(d)] = token < count ? row[d] : 0.0f;
    }
    const size_t values_at = size_t(a.kv.kv_heads) * PAGE * a.kv.row_bytes;
    // Where the chunk's pages are: behind the scores' first rows.
    auto page = [&](int i) -> const uint8_t *& { return *reinterpret_cast<const uint8_t **>(scores + i * SCORES + CHUNK); };
    auto find_pages = [&](int start) {
        if (tid < CHUNK / PAGE && start + tid * PAGE < last)
            page(tid) = kv_row(a.kv, a.batch, first, uint32_t(start + tid * PAGE), 0, kv_head);
    };
    auto stored = [&](int at, bool values) {
        return page(at % CHUNK / PAGE) + size_t(at % PAGE) * a.kv.row_bytes + (values ? values_at : 0);
    };
    // Keys or values of 64 positions are asked for while others are worked on, and become floats in shared memory.
    uint4 words[ITEMS];
    auto ask = [&](int from, bool values) {
#pragma unroll
        for (int n = 0; n < ITEMS; n++) {
            const int i = n * THREADS + tid, at = from + i / EIGHTHS;
            if (KIND == KV_F16 && at < last) words[n] = *reinterpret_cast<const uint4 *>(stored(at, values) + i % EIGHTHS * 16);
        }
    };
    auto store = [&](int from, bool values) {
#pragma unroll
        for (int n = 0; n < ITEMS; n++) {
            const int i = n * THREADS + tid, key = i / EIGHTHS, d = i % EIGHTHS * 8, at = from + key;
            float v[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
            if (at < last) {
                if (KIND == KV_F16) eight_halves(words[n], v);
                else stored_eight<KIND>(stored(at, values), d, v);
            }
            float *to = tile + key * STRIDE;
#pragma unroll
            for (int k = 0; k < 8; k++) to[values ? d + k : by_lane<SIZE>(d + k)] = v[k];
        }
    };
    float total[OWN][COLUMNS];
#pragma unroll
    for (int i = 0; i < OWN; i++)
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) total[i][c] = 0.0f;

    for (int start = 0; start < last; start += CHUNK) {
        const int end = min(last, start + CHUNK);
        __syncthreads();
        find_pages(start);
        __syncthreads();
        ask(start, false);
        for (int from = start; from < end; from += TILE) {
            __syncthreads();
            store(from, false);
            __syncthreads();
            if (from + TILE < end) ask(from + TILE, false);
            else ask(start, true);
            const int q0 = tid / 16 * 4, k0 = tid % 16;
            float sums[16];
            ScoreTree<SIZE, 4>::run(queries + q0 * STRIDE, tile + k0 * STRIDE, 0, sums);
#pragma unroll
            for (int p = 0; p < 16; p++) {
                const int q = q0 + p / 4, at = from + k0 + p % 4 * 16;
                float score = a.scale * sums[p];
                if (a.cap != 0.0f) score = soft_cap(score, a.cap, a.inverse_cap);
                if (a.slopes) score = score - a.slopes[kv_head * sharing + q % sharing] * float(position + q / sharing - at);
                scores[q * SCORES + at - start] = score;
            }
        }
        __syncthreads();
        // How many positions of the chunk each query of the warp sees.
        auto seen = [&](int i) { return min(end - start, position + (warp * OWN + i) / sharing + 1 - start); };
        for (int pair = 0; pair < OWN; pair += 2) {
            float largest[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float *row = scores + (warp * OWN + pair + i) * SCORES;
                const int n = seen(pair + i);
                float best = -float_of(0x7f800000u), own[CHUNK / 32];
#pragma unroll
                for (int k = 0; k < CHUNK / 32; k++) {
                    const int j = k * 32 + lane;
                    own[k] = row[j];
                    if (j < n) best = own[k] > best ? own[k] : best;
                }
#pragma unroll
                for (int step = 16; step; step /= 2) {
                    const float other = float_of(shuffle_xor(0xffffffffu, bits_of(best), step));
                    best = other > best ? other : best;
                }
#pragma unroll
                for (int k = 0; k < CHUNK / 32; k++) row[k * 32 + lane] = k * 32 + lane < n ? exponential(own[k] - best) : 0.0f;
                largest[i] = best;
            }
            __syncwarp();
            // A half-warp each.
            const int i = pair + lane / 16;
            const float *row = scores + (warp * OWN + i) * SCORES;
            const float best = lane < 16 ? largest[0] : largest[1];
            const float sum = lane_sum(CHUNK, [&](int j) { return row[j]; });
            if (lane % 16 == 0 && seen(i) > 0) {
                Total t = {best, sum, 1.0f, 1.0f};
                if (start > 0) {
                    const Total old = totals[warp * OWN + i];
                    const float both = best > old.maximum ? best : old.maximum;
                    t.shrink = exponential_of_difference(old.maximum - both);
                    t.weight = exponential_of_difference(best - both);
                    t.maximum = both;
                    t.sum = old.sum * t.shrink + sum * t.weight;
                }
                totals[warp * OWN + i] = t;
            }
        }
        float acc[OWN][COLUMNS];
#pragma unroll
        for (int i = 0; i < OWN; i++)
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) acc[i][c] = 0.0f;
        for (int from = start; from < end; from += TILE) {
            __syncthreads();
            store(from, true);
            __syncthreads();
            if (from + TILE < end) ask(from + TILE, true);
            const float *weights = scores + warp * OWN * SCORES + from - start;
            const bool whole = seen(0) >= from - start + TILE;
            for (int j = 0; j < TILE; j += 4) {
                float4 w[OWN];
#pragma unroll
                for (int i = 0; i < OWN; i++) w[i] = *reinterpret_cast<const float4 *>(weights + i * SCORES + j);
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    float v[COLUMNS];
#pragma unroll
                    for (int c = 0; c < COLUMNS; c++) v[c] = tile[(j + k) * STRIDE + lane * COLUMNS + c];
#pragma unroll
                    for (int i = 0; i < OWN; i++) {
                        // What a query does not see has no part, not even of zero.
                        if (!whole && from - start + j + k >= seen(i)) continue;
                        const float own = k == 0 ? w[i].x : k == 1 ? w[i].y : k == 2 ? w[i].z : w[i].w;
#pragma unroll
                        for (int c = 0; c < COLUMNS; c++) acc[i][c] = fmaf(own, v[c], acc[i][c]);
                    }
                }
            }
        }
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            if (seen(i) <= 0) continue;
            const Total t = totals[warp * OWN + i];
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
                if (start == 0) {
                    total[i][c] = acc[i][c];
                    continue;
                }
                if (t.shrink != 1.0f) total[i][c] = total[i][c] * t.shrink;
                total[i][c] = total[i][c] + t.weight * acc[i][c];
            }
        }
    }
    __syncthreads();
    // Through shared memory, so that a warp has 32 columns next to each other.
    float *results = scores + warp * OWN * SCORES;
#pragma unroll
    for (int i = 0; i < OWN; i++) {
        const int q = warp * OWN + i, head = kv_head * sharing + q % sharing;
        const Total t = totals[q];
        float factor = 1.0f, sum = t.sum;
        if (q / sharing < count && a.sinks) {
            const float sink = a.sinks[head], maximum = sink > t.maximum ? sink : t.maximum;
            factor = exponential_of_difference(t.maximum - maximum);
            sum = sum * factor + exponential_of_difference(sink - maximum);
        }
        const float by = divide(factor, sum);
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) results[i * SCORES + lane * COLUMNS + c] = total[i][c] * by;
    }
    __syncwarp();
    for (int i = 0; i < OWN; i++) {
        const int q = warp * OWN + i, token = q / sharing;
        if (token >= count) continue;
        for (int c = 0; c < SIZE; c += 32)
            store_result(a, first + token, kv_head * sharing + q % sharing, c + lane, results[i * SCORES + c + lane]);
    }
}
