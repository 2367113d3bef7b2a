#version 460
// An adapter's part of a matrix's products: the columns of B in their order. A block has a token and 256 outputs.
#include "device.glsl"
#include "adapter.glsl"

void main() {
    const int row = int(gl_WorkGroupID.y) * THREADS + tid, token = int(gl_WorkGroupID.x), rank = int(a.rank);
    if (row >= int(a.rows)) return;
    const uint64_t weights = row_at(a.weights, token, 4 * rank), to = row_at(a.result, token, 4 * int(a.out_stride));
    float v = read_float(to, row);
    for (int k = 0; k < rank; k++) v = v + read_float(weights, k) * read_float(row_at(a.b, k, 4 * int(a.rows)), row);
    write_float(to, row, v);
}
