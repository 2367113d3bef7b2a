// Pages of keys and values: where a row lies, and how it is stored. Positions of one head lie next to each other.

const int PAGE = 32; // positions in a page
const uint KV_F32 = 0u, KV_F16 = 1u, KV_Q8_0 = 2u;

// One position of one head: keys (0) or values (1).
uint64_t kv_row(KvPlace kv, BatchPlace batch, int token, int position, int values, int head) {
    const int list = int(kv.layer * read_word(batch.header, 0) + read_word(batch.starts, token));
    const uint block = read_word(kv.blocks, list + position / PAGE);
    const uint64_t head_bytes = uint64_t(PAGE * kv.row_bytes), block_bytes = 2ul * uint64_t(kv.kv_heads) * head_bytes;
    return kv.memory + uint64_t(block) * block_bytes + uint64_t(values * int(kv.kv_heads) + head) * head_bytes +
           uint64_t(uint(position % PAGE) * kv.row_bytes);
}

// Number i of a stored row.
float kv_value(uint kind, uint64_t row, int i) {
    if (kind == KV_F32) return read_float(row, i);
    if (kind == KV_F16) return half_to_float(read_half(row, i));
    const uint64_t block = row + uint64_t(i / 32 * 34);
    const int q = int(uint(Bytes(block).at[2 + i % 32]) << 24) >> 24;
    return half_to_float(read_half(block, 0)) * float(q);
}
