// Pages of keys and values: where a row lies, and how it is stored. Positions of one head lie next to each other.
#pragma once
#include "device.cuh"

static const int PAGE = 32;   // positions in a page
enum KvKind { KV_F32, KV_F16, KV_Q8_0 };

// Where a batch's tokens are. All of it is rewritten for each batch.
struct BatchPlace {
    const uint32_t *positions; // of each token
    const uint32_t *starts;    // where each token's sequence begins in the list of pages
    const uint32_t *header;    // [0]: pages in the list
};
struct KvPlace {
    uint8_t *memory;        // the layer's class of blocks
    const uint32_t *blocks; // all layers' lists of blocks, by the place in the list of pages
    uint32_t layer;         // which of them is this layer's
    uint32_t kind, kv_heads, row_bytes;
};

// One position of one head: keys (0) or values (1).
DEVICE uint8_t *kv_row(const KvPlace &kv, const BatchPlace &batch, int token, uint32_t position, int half, int head) {
    const uint32_t *list = kv.blocks + size_t(kv.layer) * batch.header[0] + batch.starts[token];
    const size_t head_bytes = size_t(PAGE) * kv.row_bytes, block_bytes = 2 * kv.kv_heads * head_bytes;
    uint8_t *block = kv.memory + size_t(list[position / PAGE]) * block_bytes;
    return block + (half * kv.kv_heads + head) * head_bytes + position % PAGE * kv.row_bytes;
}

// One warp stores a row.
DEVICE void store_kv(uint32_t kind, const float *x, int size, uint8_t *to) {
    const int lane = threadIdx.x % 32;
    if (kind == KV_F32) {
        for (int i = lane; i < size; i += 32) reinterpret_cast<float *>(to)[i] = x[i];
        return;
    }
    if (kind == KV_F16) {
        for (int i = lane; i < size; i += 32) reinterpret_cast<uint16_t *>(to)[i] = uint16_t(float_to_half(x[i]));
        return;
    }
    for (int block = 0; block < size / 32; block++) {
        const float v = x[block * 32 + lane];
        uint32_t top = bits_of(v) & 0x7fffffffu;
        for (int step = 16; step; step /= 2) top = max(top, shuffle_xor(0xffffffffu, top, step));
        const float amax = float_of(top);
        uint32_t d = 0x7e00;
        uint8_t q = 0;
        if (top < 0x7f800000u) {
            const float scale = divide(amax, 127.0f);
            d = float_to_half(scale < 65504.0f ? scale : 65504.0f);
            const float inverse = d == 0 ? 0.0f : divide(1.0f, half_to_float(d));
            float y = v * inverse;
            y = y < -127.0f ? -127.0f : y > 127.0f ? 127.0f : y;
            q = uint8_t(bits_of(y + 12582912.0f));
        }
        uint8_t *out = to + block * 34;
        if (lane == 0) *reinterpret_cast<uint16_t *>(out) = uint16_t(d);
        out[2 + lane] = q;
    }
}

// Number i of a stored row.
template <int KIND> DEVICE float kv_value(const uint8_t *row, int i) {
    if (KIND == KV_F32) return reinterpret_cast<const float *>(row)[i];
    if (KIND == KV_F16) return half_to_float(reinterpret_cast<const uint16_t *>(row)[i]);
    const uint8_t *block = row + i / 32 * 34;
    return half_to_float(*reinterpret_cast<const uint16_t *>(block)) * float(int(int8_t(block[2 + i % 32])));
}

DEVICE void eight_halves(const uint4 &words, float *out) {
    const uint32_t w[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int k = 0; k < 4; k++) out[2 * k] = half_to_float(w[k] & 0xffff), out[2 * k + 1] = half_to_float(w[k] >> 16);
}

// Numbers i to i + 15 of a stored row; those from `size` on are zero.
template <int KIND> DEVICE void kv_sixteen(const uint8_t *row, int i, int size, float (&out)[16]) {
    if (KIND == KV_F16 && size % 8 == 0 && i + 16 <= size) {
        const uint4 *words = reinterpret_cast<const uint4 *>(row + i * 2);
        eight_halves(words[0], out), eight_halves(words[1], out + 8);
        return;
    }
#pragma unroll
    for (int k = 0; k < 16; k++) out[k] = i + k < size ? kv_value<KIND>(row, i + k) : 0.0f;
}
