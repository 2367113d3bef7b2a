// Attention over pages, in chunks of 256 positions that are joined in order (crates/model/src/mixer/attention/paged.rs).
//
// Of single tokens, here: a block has a token, H query heads that share keys, and either all chunks one after the other, or
// one in gridDim.z of them, whose results `join_chunks` then joins. Of prompts: see prompt.cuh.
#include "prompt.cuh"

template <int KIND, int H> DEVICE void attend(const AttentionArgs &a) {
    SHARED(float, shared);
    const int size = int(a.head_size), padded = (size + 31) / 32 * 32;
    float *queries = shared, *scores = queries + H * padded; // [H][padded], [H][CHUNK]
    float *maxima = scores + H * CHUNK;                      // [H][8]
    Total *next = reinterpret_cast<Total *>(maxima + H * 8), *totals = next + H;
    const uint8_t **pages = reinterpret_cast<const uint8_t **>(totals + H); // keys of each page of the chunk
    const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32, token = int(a.first + blockIdx.x);
    const int head = blockIdx.y * H, kv_head = head / int(a.heads / a.kv_heads);
    others_may_start();
    // Where the batch is was uploaded before its first kernel.
    const int position = int(a.batch.positions[token]);
    const Range sees = visible(a, position);
    const int first_chunk = sees.start / CHUNK, chunks = (sees.end + CHUNK - 1) / CHUNK;
    auto find_pages = [&](int chunk, int start, int end) {
        if (tid < 8 && chunk * 8 + tid <= (end - 1) / PAGE && chunk * 8 + tid >= start / PAGE)
            pages[tid] = kv_row(a.kv, a.batch, token, uint32_t((chunk * 8 + tid) * PAGE), 0, kv_head);
    };
    const int earliest = first_chunk + int(blockIdx.z);
    if (earliest < chunks) find_pages(earliest, max(sees.start, earliest * CHUNK), min(sees.end, (earliest + 1) * CHUNK));
    wait_for_those_before();
    const size_t values_at = size_t(a.kv.kv_heads) * PAGE * a.kv.row_bytes;
    for (int i = tid; i < H * padded; i += THREADS) {
        const int h = i / padded, d = i % padded;
        queries[i] = d < size ? a.queries[size_t(token) * a.query_stride + (head + h) * size + d] : 0.0f;
    }
    // A thread has one column of the values for some of the heads.
    const int groups = THREADS / padded, group = tid / padded, column = tid % padded;
    const bool works = group < groups && column < size;
    float total[H], acc[H];
#pragma unroll
    for (int h = 0; h < H; h++) total[h] = 0.0f;

    for (int chunk = earliest; chunk < chunks; chunk += int(gridDim.z)) {
        const int start = max(sees.start, chunk * CHUNK), end = min(sees.end, (chunk + 1) * CHUNK), n = end - start;
        __syncthreads();
        if (chunk > earliest) {
            find_pages(chunk, start, end);
            __syncthreads();
        }
        float best[H];
#pragma unroll
        for (int h = 0; h < H; h++) best[h] = -float_of(0x7f800000u);
        if (tid < n) {
            const int at = start + tid;
            const uint8_t *key = pages[at / PAGE - chunk * 8] + size_t(at % PAGE) * a.kv.row_bytes;
            float lanes[H][16];
#pragma unroll
            for (int h = 0; h < H; h++)
#pragma unroll
                for (int l = 0; l < 16; l++) lanes[h][l] = 0.0f;
            auto multiply = [&](int d, const float (&k)[16]) {
#pragma unroll
                for (int h = 0; h < H; h++) {
                    const float4 *q = reinterpret_cast<const float4 *>(queries + h * padded + d);
#pragma unroll
                    for (int l = 0; l < 4; l++) {
                        const float4 v = q[l];
                        lanes[h][4 * l] = fmaf(v.x, k[4 * l], lanes[h][4 * l]);
                        lanes[h][4 * l + 1] = fmaf(v.y, k[4 * l + 1], lanes[h][4 * l + 1]);
                        lanes[h][4 * l + 2] = fmaf(v.z, k[4 * l + 2], lanes[h][4 * l + 2]);
                        lanes[h][4 * l + 3] = fmaf(v.w, k[4 * l + 3], lanes[h][4 * l + 3]);
                    }
                }
            };
            if (KIND == KV_F16 && size % 64 == 0) {
                // So many words that all of them wait for memory together.
                for (int d = 0; d < size; d += 64) {
                    uint4 words[8];
#pragma unroll
                    for (int i = 0; i < 8; i++) words[i] = reinterpret_cast<const uint4 *>(key + d * 2)[i];
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        float k[16];
                        eight_halves(words[2 * i], k), eight_halves(words[2 * i + 1], k + 8);
                        multiply(d + 16 * i, k);
                    }
                }
            } else
                for (int d = 0; d < padded; d += 16) {
                    float k[16];
                    kv_sixteen<KIND>(key, d, size, k);
                    multiply(d, k);
                }
#pragma unroll
            for (int h = 0; h < H; h++) {
                add_lanes<8>(lanes[h]), add_lanes<4>(lanes[h]), add_lanes<2>(lanes[h]), add_lanes<1>(lanes[h]);
                float score = a.scale * lanes[h][0];
                if (a.cap != 0.0f) score = soft_cap(score, a.cap, a.inverse_cap);
                if (a.slopes) score = score - a.slopes[head + h] * float(position - at);
                scores[h * CHUNK + tid] = score;
                best[h] = score > best[h] ? score : best[h];
            }
        }
#pragma unroll
        for (int h = 0; h < H; h++) {
#pragma unroll
            for (int step = 16; step; step /= 2) {
                const float other = float_of(shuffle_xor(0xffffffffu, bits_of(best[h]), step));
                best[h] = other > best[h] ? other : best[h];
            }
            if (lane == 0) maxima[h * 8 + warp] = best[h];
        }
        __syncthreads();
#pragma unroll
        for (int h = 0; h < H; h++) {
            float maximum = maxima[h * 8];
#pragma unroll
            for (int w = 1; w < 8; w++) maximum = maxima[h * 8 + w] > maximum ? maxima[h * 8 + w] : maximum;
            best[h] = maximum;
            if (tid < n) scores[h * CHUNK + tid] = exponential(scores[h * CHUNK + tid] - maximum);
        }
        __syncthreads();
        // The sum of each head by a half-warp, and how it joins what came before.
        const int summed = tid / 16;
        if (summed < (H + 1) / 2 * 2) {
            const int h = min(summed, H - 1);
            const float sum = lane_sum(n, [&](int i) { return scores[h * CHUNK + i]; });
            if (tid % 16 == 0 && summed < H) {
                float maximum = maxima[h * 8];
                for (int w = 1; w < 8; w++) maximum = maxima[h * 8 + w] > maximum ? maxima[h * 8 + w] : maximum;
                Total t = {maximum, sum, 1.0f, 1.0f};
                next[h] = t;
                if (!a.most_chunks && chunk > first_chunk) {
                    const Total old = totals[h];
                    const float both = maximum > old.maximum ? maximum : old.maximum;
                    t.shrink = exponential_of_difference(old.maximum - both);
                    t.weight = exponential_of_difference(maximum - both);
                    t.maximum = both;
                    t.sum = old.sum * t.shrink + sum * t.weight;
                }
                totals[h] = t;
            }
        }
#pragma unroll
        for (int h = 0; h < H; h++) acc[h] = 0.0f;
        if (works) {
            for (int p = start / PAGE; p <= (end - 1) / PAGE; p++) {
                const int from = max(start, p * PAGE), to = min(end, (p + 1) * PAGE);
                const uint8_t *row = pages[p - chunk * 8] + values_at + size_t(from % PAGE) * a.kv.row_bytes;
                const float *weights = scores + from - start;
#pragma unroll 8
                for (int j = 0; j < to - from; j++) {
                    const float v = kv_value<KIND>(row + size_t(j) * a.kv.row_bytes, column);
#pragma unroll
                    for (int h = 0; h < H; h++)
                        if (h % groups == group) acc[h] = fmaf(weights[h * CHUNK + j], v, acc[h]);
                }
            }
        }
        __syncthreads();
        if (a.most_chunks) {
#pragma unroll
            for (int h = 0; h < H; h++) {
                float *out = a.partials + ((size_t(blockIdx.x) * a.heads + head + h) * a.most_chunks + (chunk - first_chunk)) * (size + 2);
                if (works && h % groups == group) out[2 + column] = acc[h];
                if (tid == 0) out[0] = next[h].maximum, out[1] = next[h].sum;
            }
        } else {
#pragma unroll
            for (int h = 0; h < H; h++) {
                if (chunk == first_chunk) {
                    total[h] = acc[h];
                    continue;
                }
                if (totals[h].shrink != 1.0f) total[h] = total[h] * totals[h].shrink;
                total[h] = total[h] + totals[h].weight * acc[h];
            }
        }
    }
    if (a.most_chunks || !works) return;
#pragma unroll
    for (int h = 0; h < H; h++) {
        if (h % groups != group) continue;
        float factor = 1.0f, sum = totals[h].sum;
        if (a.sinks) {
            const float sink = a.sinks[head + h], maximum = sink > totals[h].maximum ? sink : totals[h].maximum;
            factor = exponential_of_difference(totals[h].maximum - maximum);
            sum = sum * factor + exponential_of_difference(sink - maximum);
        }
        store_result(a, token, head + h, column, total[h] * divide(factor, sum));
    }
}

#define ATTEND(kind, h) \
    KERNEL(attend_##kind##_##h, BLOCKS(256, 2), AttentionArgs, a) { attend<kind, h>(a); }
ATTEND(KV_F32, 1)
ATTEND(KV_F32, 2)
ATTEND(KV_F32, 4)
ATTEND(KV_F16, 1)
ATTEND(KV_F16, 2)
ATTEND(KV_F16, 4)
ATTEND(KV_Q8_0, 1)
ATTEND(KV_Q8_0, 2)
ATTEND(KV_Q8_0, 4)

// Older GPUs have no blocks with so much shared memory.
#if HAS_TENSOR_CORES
#define ATTEND_PROMPT(kind, size) \
    KERNEL(prompt_##kind##_##size, BLOCKS(256, 1), AttentionArgs, a) { attend_prompt<kind, size>(a); }
#else
#define ATTEND_PROMPT(kind, size) \
    KERNEL(prompt_##kind##_##size, BLOCKS(256, 1), AttentionArgs, a) {}
#endif
ATTEND_PROMPT(KV_F16, 64)
ATTEND_PROMPT(KV_F16, 128)
ATTEND_PROMPT(KV_Q8_0, 64)
ATTEND_PROMPT(KV_Q8_0, 128)

// Joins the chunks that were shared out, in order. A block has a token and a head.
KERNEL(join_chunks, BLOCKS(256), AttentionArgs, a) {
    const int size = int(a.head_size), token = int(a.first + blockIdx.x), head = blockIdx.y, column = threadIdx.x;
    begin();
    const Range sees = visible(a, int(a.batch.positions[token]));
    const int chunks = (sees.end + CHUNK - 1) / CHUNK - sees.start / CHUNK;
    const float *partial = a.partials + (size_t(blockIdx.x) * a.heads + head) * a.most_chunks * (size + 2);
    float maximum = partial[0], sum = partial[1], acc = column < size ? partial[2 + column] : 0.0f;
    for (int chunk = 1; chunk < chunks; chunk++) {
        const float *next = partial + size_t(chunk) * (size + 2);
        const float both = next[0] > maximum ? next[0] : maximum;
        const float shrink = exponential_of_difference(maximum - both), weight = exponential_of_difference(next[0] - both);
        maximum = both;
        sum = sum * shrink + next[1] * weight;
        if (shrink != 1.0f) acc = acc * shrink;
        if (column < size) acc = acc + weight * next[2 + column];
    }
    float factor = 1.0f;
    if (a.sinks) {
        const float sink = a.sinks[head], both = sink > maximum ? sink : maximum;
        factor = exponential_of_difference(maximum - both);
        sum = sum * factor + exponential_of_difference(sink - both);
    }
    if (column < size) store_result(a, token, head, column, acc * divide(factor, sum));
}

// Between attention and its last matrix: gates, a norm if there is one, and the result quantized. A block has a token.
struct MixedArgs {
    float *mixed;       // (tokens, width)
    const float *gates; // (tokens, gate_stride), or nowhere
    const float *norm_weight, *norm_bias;
    uint8_t *acts;
    uint32_t width, gate_stride, act_stride;
    float epsilon;
    uint32_t rms;
};
KERNEL(finish_mixed, BLOCKS(1024), MixedArgs, a) {
    SHARED(float, row);
    NormFactors *factors = reinterpret_cast<NormFactors *>(row + a.width);
    const int width = int(a.width);
    begin();
    float *mixed = a.mixed + size_t(blockIdx.x) * width;
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        float v = mixed[i];
        if (a.gates) v = v * sigmoid(a.gates[size_t(blockIdx.x) * a.gate_stride + i]);
        row[i] = v;
    }
    if (a.norm_weight) {
        const NormFactors f = block_norm(row, width, a.rms, a.epsilon, factors);
        for (int i = threadIdx.x; i < width; i += blockDim.x) row[i] = normed(f, a.rms, row[i], a.norm_weight, a.norm_bias, i);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < width; i += blockDim.x) mixed[i] = row[i];
    if (a.acts) encode_row(width, a.acts + size_t(blockIdx.x) * a.act_stride, [&](int i) { return row[i]; });
}
