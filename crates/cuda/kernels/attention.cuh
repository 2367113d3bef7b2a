// What attention's kernels share: their arguments, what a token sees, and how results are stored.
#pragma once
#include "kv.cuh"
#include "math.cuh"
#include "rows.cuh"

static const int CHUNK = 8 * PAGE, THREADS = 256;

struct AttentionArgs {
    const float *queries; // (tokens, query_stride)
    float *out;           // (tokens, heads, head_size)
    float *partials;      // (tokens, heads, most_chunks, head_size + 2), if chunks are shared out
    const float *sinks, *slopes;
    BatchPlace batch;
    KvPlace kv;
    uint32_t heads, kv_heads, head_size, query_stride;
    uint32_t window, chunked; // no window: 0
    uint32_t most_chunks;     // 0: no chunks are shared out
    float scale, cap, inverse_cap;
    uint32_t act_stride;
    uint8_t *acts; // where results are also quantized, or nowhere
    uint32_t first, tokens; // of the batch
};

// A warp stores the results of 32 columns of a head.
DEVICE void store_result(const AttentionArgs &a, int token, int head, int column, float v) {
    const size_t at = size_t(head) * a.head_size + column;
    a.out[size_t(token) * a.heads * a.head_size + at] = v;
    if (a.acts) encode_group(v, a.acts + size_t(token) * a.act_stride, int(at / 32));
}

struct Range {
    int start, end;
};
DEVICE Range visible(const AttentionArgs &a, int position) {
    const int end = position + 1, window = int(a.window);
    int start = 0;
    if (window) start = a.chunked ? position / window * window : end > window ? end - window : 0;
    return {min(start, end - 1), end};
}

// A step of the tree that joins 16 lanes.
template <int STEP> DEVICE void add_lanes(float (&lanes)[16]) {
#pragma unroll
    for (int l = 0; l < STEP; l++) lanes[l] = lanes[l] + lanes[l + STEP];
}

// One head's share of a softmax.
struct Total {
    float maximum, sum, shrink, weight;
};
