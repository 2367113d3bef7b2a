// From projections to queries, keys and values: biases, limits, norms, rotations; keys and values go into their pages.
#include "kv.cuh"
#include "rows.cuh"

struct ProjectionArgs {
    const float *projected; // (tokens, stride): queries, keys, values, gates
    float *queries;         // (tokens, query_stride): queries, gates
    const float *biases[4]; // of the projections, which follow each other
    uint32_t bias_rows[4];
    const float *q_norm, *q_norm_bias, *k_norm, *k_norm_bias;
    const float *rotations; // (positions, 2, pairs), or nowhere
    const float *temperatures; // (tokens), or nowhere
    BatchPlace batch;
    KvPlace kv;
    uint32_t heads, kv_heads, head_size, stride, query_stride, pairs, interleaved;
    uint32_t whole_norm, own_norm, norm_after, rms;
    float clamp, epsilon; // no clamp: 0
};

// A projected number with its bias, within its limit.
DEVICE float projected_value(const ProjectionArgs &a, const float *row, int i) {
    float v = row[i];
    int start = 0;
    for (int b = 0; b < 4; b++) {
        if (a.biases[b] && i >= start && i < start + int(a.bias_rows[b])) v = v + a.biases[b][i - start];
        start += int(a.bias_rows[b]);
    }
    if (a.clamp != 0.0f) v = v < -a.clamp ? -a.clamp : v > a.clamp ? a.clamp : v;
    return v;
}

// A block has a token and one head: of queries, keys, values or gates.
KERNEL(project_heads, BLOCKS(64), ProjectionArgs, a) {
    SHARED(float, head);
    const int size = int(a.head_size), token = blockIdx.x, slot = blockIdx.y, tid = threadIdx.x;
    const int heads = int(a.heads), kv_heads = int(a.kv_heads);
    others_may_start();
    // Where the batch is was uploaded before its first kernel.
    const uint32_t position = a.batch.positions[token];
    const bool stored = slot >= heads && slot < heads + 2 * kv_heads;
    uint8_t *to = stored ? kv_row(a.kv, a.batch, token, position, (slot - heads) / kv_heads, (slot - heads) % kv_heads) : nullptr;
    wait_for_those_before();
    const float *row = a.projected + size_t(token) * a.stride;
    for (int i = tid; i < size; i += 64) head[i] = projected_value(a, row, slot * size + i);
    NormFactors *factors = reinterpret_cast<NormFactors *>(head + size);
    const bool query = slot < heads, key = !query && slot < heads + kv_heads, rms = a.rms;
    const float *weight = query ? a.q_norm : key ? a.k_norm : nullptr, *bias = query ? a.q_norm_bias : a.k_norm_bias;
    const int index = query ? slot : slot - heads;

    auto norm = [&] {
        int from = a.own_norm ? index * size : 0;
        NormFactors f;
        if (a.whole_norm) {
            // Every head's block sums over all heads of the token: the same sum in the same order.
            const int start = query ? 0 : heads * size, n = (query ? heads : kv_heads) * size;
            __syncthreads();
            if (tid < 16) {
                const NormFactors g = norm_factors(n, rms, a.epsilon, [&](int i) { return projected_value(a, row, start + i); });
                if (tid == 0) *factors = g;
            }
            __syncthreads();
            f = *factors;
            from = index * size;
        } else f = block_norm(head, size, rms, a.epsilon, factors);
        for (int i = tid; i < size; i += 64) head[i] = normed(f, rms, head[i], weight + from, bias ? bias + from : nullptr, i);
        __syncthreads();
    };
    __syncthreads();
    if (weight && !a.norm_after) norm();
    if (a.rotations && (query || key)) {
        const int pairs = int(a.pairs);
        const float *cosines = a.rotations + size_t(position) * 2 * pairs, *sines = cosines + pairs;
        for (int i = tid; i < pairs; i += 64) {
            const int first = a.interleaved ? 2 * i : i, second = a.interleaved ? 2 * i + 1 : i + pairs;
            const float x = head[first], y = head[second];
            head[first] = x * cosines[i] - y * sines[i];
            head[second] = x * sines[i] + y * cosines[i];
        }
        __syncthreads();
    }
    if (weight && a.norm_after) norm();
    if (query || slot >= heads + 2 * kv_heads) {
        const int place = query ? slot : slot - 2 * kv_heads;
        const float factor = query && a.temperatures ? a.temperatures[token] : 1.0f;
        float *out = a.queries + size_t(token) * a.query_stride + place * size;
        for (int i = tid; i < size; i += 64) out[i] = query && a.temperatures ? head[i] * factor : head[i];
        return;
    }
    if (tid < 32) store_kv(a.kv.kind, head, size, to);
}
