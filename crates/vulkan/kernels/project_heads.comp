#version 460
// From projections to queries, keys and values: biases, limits, norms, rotations; keys and values go into their pages.
// A block has a token and one head: of queries, keys, values or gates.
#define THREADS 64
#include "device.glsl"
#include "rows.glsl"
#include "kv.glsl"

ARGUMENTS {
    uint64_t projected; // (tokens, stride): queries, keys, values, gates
    uint64_t queries;   // (tokens, query_stride): queries, gates
    uint64_t biases[4]; // of the projections, which follow each other
    uint bias_rows[4];
    Norm q_norm, k_norm;
    uint64_t rotations;    // (positions, 2, pairs), or nowhere
    uint64_t temperatures; // (tokens), or nowhere
    BatchPlace batch;
    KvPlace kv;
    uint heads, kv_heads, head_size, stride, query_stride, pairs, interleaved;
    uint whole_norm, own_norm, norm_after, rms;
    float clamp_at, epsilon; // no clamp: 0
};
ARGUMENTS_HERE;

shared float head[256];

uint64_t row;
bool whole_row = false;
int row_starts = 0;

// A projected number with its bias, within its limit.
float projected_value(int i) {
    float v = read_float(row, i);
    int start = 0;
    for (int b = 0; b < 4; b++) {
        const int rows = int(a.bias_rows[b]);
        if (a.biases[b] != 0ul && i >= start && i < start + rows) v = v + read_float(a.biases[b], i - start);
        start += rows;
    }
    if (a.clamp_at != 0.0) v = v < -a.clamp_at ? -a.clamp_at : v > a.clamp_at ? a.clamp_at : v;
    return v;
}
float row_value(int i) { return whole_row ? projected_value(row_starts + i) : head[i]; }

void norm_head(Norm norm, bool query, int index) {
    const int size = int(a.head_size);
    const bool rms = a.rms != 0u;
    int from = a.own_norm != 0u ? index * size : 0, n = size;
    if (a.whole_norm != 0u) {
        // Every head's block sums over all heads of the token: the same sum in the same order.
        whole_row = true, row_starts = query ? 0 : int(a.heads) * size;
        n = int(query ? a.heads : a.kv_heads) * size;
        from = index * size;
    }
    const NormFactors f = norm_factors(n, rms, a.epsilon);
    const Norm own = Norm(norm.weight + uint64_t(4 * from), norm.bias != 0ul ? norm.bias + uint64_t(4 * from) : 0ul);
    for (int i = tid; i < size; i += THREADS) head[i] = normed(f, rms, head[i], own, i);
    barrier();
}

void store_block(uint64_t block, int first) {
    uint top = 0u;
    for (int i = 0; i < 32; i++) top = max(top, bits_of(head[first + i]) & 0x7fffffffu);
    uint d = 0x7e00u;
    float inverse = 0.0;
    const bool real = top < 0x7f800000u;
    if (real) {
        const float by = divide(float_of(top), 127.0);
        d = float_to_half(by < 65504.0 ? by : 65504.0);
        if (d != 0u) inverse = divide(1.0, half_to_float(d));
    }
    Halves(block).at[0] = uint16_t(d);
    for (int i = 0; i < 32; i++) {
        float y = head[first + i] * inverse;
        y = y < -127.0 ? -127.0 : y > 127.0 ? 127.0 : y;
        Bytes(block).at[2 + i] = uint8_t(real ? bits_of(y + ROUND) & 255u : 0u);
    }
}
void store_row(uint64_t to) {
    const int size = int(a.head_size);
    if (a.kv.kind == KV_F32)
        for (int i = tid; i < size; i += THREADS) write_float(to, i, head[i]);
    else if (a.kv.kind == KV_F16)
        for (int i = tid; i < size; i += THREADS) Halves(to).at[i] = uint16_t(float_to_half(head[i]));
    else
        for (int block = tid; block < size / 32; block += THREADS) store_block(to + uint64_t(block * 34), block * 32);
}

void main() {
    const int size = int(a.head_size), token = int(gl_WorkGroupID.x), slot = int(gl_WorkGroupID.y);
    const int heads = int(a.heads), kv_heads = int(a.kv_heads);
    const int position = int(read_word(a.batch.positions, token));
    row = row_at(a.projected, token, 4 * int(a.stride));
    for (int i = tid; i < size; i += THREADS) head[i] = projected_value(slot * size + i);
    barrier();
    const bool query = slot < heads, key = !query && slot < heads + kv_heads;
    Norm norm = Norm(0ul, 0ul);
    if (query) norm = a.q_norm;
    else if (key) norm = a.k_norm;
    const int index = query ? slot : slot - heads;
    if (norm.weight != 0ul && a.norm_after == 0u) norm_head(norm, query, index);
    if (a.rotations != 0ul && (query || key)) {
        const int pairs = int(a.pairs);
        const uint64_t cosines = row_at(a.rotations, position, 8 * pairs), sines = cosines + uint64_t(4 * pairs);
        for (int i = tid; i < pairs; i += THREADS) {
            const int first = a.interleaved != 0u ? 2 * i : i, second = a.interleaved != 0u ? 2 * i + 1 : i + pairs;
            const float x = head[first], y = head[second], c = read_float(cosines, i), s = read_float(sines, i);
            head[first] = x * c - y * s;
            head[second] = x * s + y * c;
        }
        barrier();
    }
    if (norm.weight != 0ul && a.norm_after != 0u) norm_head(norm, query, index);
    if (query || slot >= heads + 2 * kv_heads) {
        const int place = query ? slot : slot - 2 * kv_heads;
        const bool scaled = query && a.temperatures != 0ul;
        const float factor = scaled ? read_float(a.temperatures, token) : 1.0;
        const uint64_t to = row_at(a.queries, token, 4 * int(a.query_stride));
        for (int i = tid; i < size; i += THREADS) write_float(to, place * size + i, scaled ? head[i] * factor : head[i]);
        return;
    }
    store_row(kv_row(a.kv, a.batch, token, position, index / kv_heads, index % kv_heads));
}
