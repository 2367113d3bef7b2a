// What attention's kernels share: their arguments, what a token sees, and how results are stored.

const int CHUNK = 256;

ARGUMENTS {
    uint64_t queries;  // (tokens, query_stride)
    uint64_t result;   // (tokens, heads, head_size)
    uint64_t partials; // (tokens, heads, most_chunks, head_size + 2), if chunks are shared out
    uint64_t sinks, slopes;
    BatchPlace batch;
    KvPlace kv;
    uint heads, kv_heads, head_size, query_stride;
    uint window, chunked; // no window: 0
    uint most_chunks;     // 0: no chunks are shared out
    float scale, cap, inverse_cap;
    uint act_stride;
    uint64_t acts; // where results are also quantized, or nowhere
    uint first, tokens; // of the batch
};
ARGUMENTS_HERE;

// The positions that a token sees.
void visible(int position, out int start, out int end) {
    const int window = int(a.window);
    end = position + 1, start = 0;
    if (window != 0) start = a.chunked != 0u ? position / window * window : end > window ? end - window : 0;
    start = min(start, end - 1);
}

// The results of one head, of which all threads have brought theirs into `heads_out` from `from` on.
shared float heads_out[256];
void store_head(int token, int head) {
    const int size = int(a.head_size);
    barrier();
    for (int i = tid; i < size; i += THREADS)
        write_float(row_at(a.result, token, 4 * int(a.heads) * size), head * size + i, heads_out[i]);
    if (a.acts != 0ul) {
        float v[4];
        UNROLL for (int k = 0; k < 4; k++) v[k] = 4 * tid + k < size ? heads_out[4 * tid + k] : 0.0;
        encode_quads(v, row_at(a.acts, token, int(a.act_stride)), head * size / 32 + tid / 8, 4 * tid < size);
    }
    barrier();
}
float row_value(int i) { return 0.0; }
