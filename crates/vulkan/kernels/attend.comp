#version 460
// Attention over pages, in chunks of 256 positions that are joined in order (crates/model/src/mixer/attention/paged.rs).
// A block has a token, HEADS query heads that share keys, and either all chunks one after the other, or one in
// gl_NumWorkGroups.z of them, whose results join_chunks.comp then joins.
#include "device.glsl"
#include "math.glsl"
#include "rows.glsl"
#include "kv.glsl"
#include "attention.glsl"

layout(constant_id = 3) const uint KIND = 1;

// One head's share of a softmax.
struct Total {
    float maximum, sum, shrink, weight;
};
shared float queries[HEADS * 256], scores[HEADS * CHUNK];
shared Total next[HEADS], totals[HEADS];
shared uint64_t pages[8]; // the keys of each page of the chunk

// The greatest of what the threads bring for head h.
float greatest(float best) {
    barrier();
    tile[tid] = best;
    for (int step = THREADS / 2; step > 0; step /= 2) {
        barrier();
        if (tid < step && tile[tid + step] > tile[tid]) tile[tid] = tile[tid + step];
    }
    barrier();
    return tile[0];
}

void main() {
    const int size = int(a.head_size), padded = (size + 31) / 32 * 32;
    const int place = int(gl_WorkGroupID.x), token = int(a.first) + place;
    const int head = int(gl_WorkGroupID.y) * HEADS, kv_head = head / int(a.heads / a.kv_heads);
    const int position = int(read_word(a.batch.positions, token));
    int sees_from, sees_to;
    visible(position, sees_from, sees_to);
    const int first_chunk = sees_from / CHUNK, chunks = (sees_to + CHUNK - 1) / CHUNK;
    const uint64_t values_at = uint64_t(a.kv.kv_heads * uint(PAGE) * a.kv.row_bytes);
    const uint64_t query = row_at(a.queries, token, 4 * int(a.query_stride));
    for (int i = tid; i < HEADS * padded; i += THREADS) {
        const int h = i / padded, d = i % padded;
        queries[i] = d < size ? read_float(query, (head + h) * size + d) : 0.0;
    }
    // A thread has one column of the values for some of the heads.
    const int together = THREADS / padded, group = tid / padded, column = tid % padded;
    const bool works = group < together && column < size;
    float total[HEADS], acc[HEADS];
    for (int h = 0; h < HEADS; h++) total[h] = 0.0;

    for (int chunk = first_chunk + int(gl_WorkGroupID.z); chunk < chunks; chunk += int(gl_NumWorkGroups.z)) {
        const int start = max(sees_from, chunk * CHUNK), end = min(sees_to, (chunk + 1) * CHUNK), n = end - start;
        barrier();
        if (tid < 8 && chunk * 8 + tid <= (end - 1) / PAGE && chunk * 8 + tid >= start / PAGE)
            pages[tid] = kv_row(a.kv, a.batch, token, (chunk * 8 + tid) * PAGE, 0, kv_head);
        barrier();
        float best[HEADS];
        for (int h = 0; h < HEADS; h++) best[h] = -INFINITY;
        if (tid < n) {
            const int at = start + tid;
            const uint64_t key = row_at(pages[at / PAGE - chunk * 8], at % PAGE, int(a.kv.row_bytes));
            float lanes[HEADS][16];
            for (int h = 0; h < HEADS; h++)
                UNROLL for (int l = 0; l < 16; l++) lanes[h][l] = 0.0;
            for (int d = 0; d < padded; d += 16)
                UNROLL for (int l = 0; l < 16; l++) {
                    const float k = d + l < size ? kv_value(KIND, key, d + l) : 0.0;
                    for (int h = 0; h < HEADS; h++) lanes[h][l] = fused(queries[h * padded + d + l], k, lanes[h][l]);
                }
            for (int h = 0; h < HEADS; h++) {
                UNROLL for (int l = 0; l < 8; l++) lanes[h][l] = lanes[h][l] + lanes[h][l + 8];
                UNROLL for (int l = 0; l < 4; l++) lanes[h][l] = lanes[h][l] + lanes[h][l + 4];
                float score = a.scale * ((lanes[h][0] + lanes[h][2]) + (lanes[h][1] + lanes[h][3]));
                if (a.cap != 0.0) score = soft_cap(score, a.cap, a.inverse_cap);
                if (a.slopes != 0ul) score = score - read_float(a.slopes, head + h) * float(position - at);
                scores[h * CHUNK + tid] = score;
                best[h] = score > best[h] ? score : best[h];
            }
        }
        for (int h = 0; h < HEADS; h++) {
            best[h] = greatest(best[h]);
            if (tid < n) scores[h * CHUNK + tid] = exponential(scores[h * CHUNK + tid] - best[h]);
        }
        barrier();
        // The sum of each head by 16 threads, and how it joins what came before.
        const int summed = tid / 16, lane = tid % 16;
        if (summed < HEADS) {
            float sum = 0.0;
            for (int i = lane; i < (n + 15) / 16 * 16; i += 16) sum = sum + (i < n ? scores[summed * CHUNK + i] : 0.0);
            tile[tid] = sum;
        }
        barrier();
        if (tid < HEADS) {
            const int h = tid;
            float l[8];
            UNROLL for (int i = 0; i < 8; i++) l[i] = tile[16 * h + i] + tile[16 * h + i + 8];
            UNROLL for (int i = 0; i < 4; i++) l[i] = l[i] + l[i + 4];
            const float sum = (l[0] + l[2]) + (l[1] + l[3]);
            float maximum = best[0];
            UNROLL for (int i = 1; i < HEADS; i++) maximum = h == i ? best[i] : maximum;
            Total t = Total(maximum, sum, 1.0, 1.0);
            next[h] = t;
            if (a.most_chunks == 0u && chunk > first_chunk) {
                const Total old = totals[h];
                const float both = maximum > old.maximum ? maximum : old.maximum;
                t.shrink = exponential_of_difference(old.maximum - both);
                t.weight = exponential_of_difference(maximum - both);
                t.maximum = both;
                t.sum = old.sum * t.shrink + sum * t.weight;
            }
            totals[h] = t;
        }
        for (int h = 0; h < HEADS; h++) acc[h] = 0.0;
        if (works)
            for (int at = start; at < end; at++) {
                const uint64_t value = row_at(pages[at / PAGE - chunk * 8] + values_at, at % PAGE, int(a.kv.row_bytes));
                const float v = kv_value(KIND, value, column);
                for (int h = 0; h < HEADS; h++)
                    if (h % together == group) acc[h] = fused(scores[h * CHUNK + at - start], v, acc[h]);
            }
        barrier();
        for (int h = 0; h < HEADS; h++) {
            if (a.most_chunks != 0u) {
                const int row = (place * int(a.heads) + head + h) * int(a.most_chunks) + chunk - first_chunk;
                const uint64_t to = row_at(a.partials, row, 4 * (size + 2));
                if (works && h % together == group) write_float(to, 2 + column, acc[h]);
                if (tid == 0) write_float(to, 0, next[h].maximum), write_float(to, 1, next[h].sum);
            } else if (chunk == first_chunk) total[h] = acc[h];
            else {
                if (totals[h].shrink != 1.0) total[h] = total[h] * totals[h].shrink;
                total[h] = total[h] + totals[h].weight * acc[h];
            }
        }
    }
    if (a.most_chunks != 0u) return;
    barrier();
    for (int h = 0; h < HEADS; h++) {
        if (works && h % together == group) {
            float factor = 1.0, sum = totals[h].sum;
            if (a.sinks != 0ul) {
                const float sink = read_float(a.sinks, head + h), maximum = sink > totals[h].maximum ? sink : totals[h].maximum;
                factor = exponential_of_difference(totals[h].maximum - maximum);
                sum = sum * factor + exponential_of_difference(sink - maximum);
            }
            heads_out[column] = total[h] * divide(factor, sum);
        }
        store_head(token, head + h);
    }
}
