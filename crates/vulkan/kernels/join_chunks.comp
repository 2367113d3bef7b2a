#version 460
// Joins the chunks that were shared out, in order. A block has a token and a head.
#include "device.glsl"
#include "math.glsl"
#include "rows.glsl"
#include "kv.glsl"
#include "attention.glsl"

void main() {
    const int size = int(a.head_size), place = int(gl_WorkGroupID.x), token = int(a.first) + place, head = int(gl_WorkGroupID.y);
    const int column = tid;
    int sees_from, sees_to;
    visible(int(read_word(a.batch.positions, token)), sees_from, sees_to);
    const int chunks = (sees_to + CHUNK - 1) / CHUNK - sees_from / CHUNK;
    const uint64_t partial = row_at(a.partials, (place * int(a.heads) + head) * int(a.most_chunks), 4 * (size + 2));
    float maximum = read_float(partial, 0), sum = read_float(partial, 1);
    float acc = column < size ? read_float(partial, 2 + column) : 0.0;
    for (int chunk = 1; chunk < chunks; chunk++) {
        const uint64_t next = row_at(partial, chunk, 4 * (size + 2));
        const float its = read_float(next, 0), both = its > maximum ? its : maximum;
        const float shrink = exponential_of_difference(maximum - both), weight = exponential_of_difference(its - both);
        maximum = both;
        sum = sum * shrink + read_float(next, 1) * weight;
        if (shrink != 1.0) acc = acc * shrink;
        if (column < size) acc = acc + weight * read_float(next, 2 + column);
    }
    float factor = 1.0;
    if (a.sinks != 0ul) {
        const float sink = read_float(a.sinks, head), both = sink > maximum ? sink : maximum;
        factor = exponential_of_difference(maximum - both);
        sum = sum * factor + exponential_of_difference(sink - both);
    }
    if (column < size) heads_out[column] = acc * divide(factor, sum);
    store_head(token, head);
}
