#version 460
// An adapter's weights: scale · (A · x). Sixteen threads have a row of A; a block has a token and 16 rows.
#include "device.glsl"
#include "adapter.glsl"

shared float lanes[THREADS];

void main() {
    const int own = tid / 16, lane = tid % 16, k = int(gl_WorkGroupID.y) * 16 + own, columns = int(a.columns);
    const int token = int(gl_WorkGroupID.x), rank = int(a.rank);
    const uint64_t x = row_at(a.x, token, 4 * int(a.x_stride));
    float sum = 0.0;
    if (k < rank) {
        const uint64_t row = row_at(a.a, k, 4 * columns);
        for (int i = lane; i < columns; i += 16) sum = fused(read_float(row, i), read_float(x, i), sum);
        // Lanes past the end of a row add 0 · 0.
        if (columns % 16 != 0 && lane >= columns % 16) sum = fused(0.0, 0.0, sum);
    }
    lanes[tid] = sum;
    barrier();
    if (lane != 0 || k >= rank) return;
    float l[8];
    UNROLL for (int i = 0; i < 8; i++) l[i] = lanes[tid + i] + lanes[tid + i + 8];
    UNROLL for (int i = 0; i < 4; i++) l[i] = l[i] + l[i + 4];
    write_float(row_at(a.weights, token, 4 * rank), k, a.scale * ((l[0] + l[2]) + (l[1] + l[3])));
}
