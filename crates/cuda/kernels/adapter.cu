// What an adapter adds to a matrix's products: out += weights · B, where weights = scale · (A · x), for the tokens of a span.
#include "rows.cuh"

struct AdapterArgs {
    const float *x;  // (tokens, x_stride)
    float *out;      // (tokens, out_stride)
    const float *a;  // (rank, columns)
    const float *b;  // (rank, rows)
    float *weights;  // (tokens, rank)
    uint32_t columns, rank, rows, x_stride, out_stride;
    float scale;
};

// Products in 16 lanes: element i in lane i modulo 16, in order. A half-warp has a row of A; a block a token and 16 rows.
KERNEL(adapter_weights, BLOCKS(256), AdapterArgs, a) {
    begin();
    const int half = threadIdx.x / 16, lane = threadIdx.x % 16, k = int(blockIdx.y) * 16 + half, columns = int(a.columns);
    const float *x = a.x + size_t(blockIdx.x) * a.x_stride;
    float sum = 0.0f;
    if (k < int(a.rank)) {
        const float *row = a.a + size_t(k) * columns;
        for (int i = lane; i < columns; i += 16) sum = fmaf(row[i], x[i], sum);
        // Lanes past the end of a row add 0 · 0.
        if (columns % 16 != 0 && lane >= columns % 16) sum = fmaf(0.0f, 0.0f, sum);
    }
    sum = join_lanes(sum);
    if (lane == 0 && k < int(a.rank)) a.weights[size_t(blockIdx.x) * a.rank + k] = a.scale * sum;
}

// The columns of B in their order. A block has a token and 256 outputs.
KERNEL(adapter_add, BLOCKS(256), AdapterArgs, a) {
    begin();
    const int row = int(blockIdx.y) * 256 + threadIdx.x;
    if (row >= int(a.rows)) return;
    const float *weights = a.weights + size_t(blockIdx.x) * a.rank;
    float *out = a.out + size_t(blockIdx.x) * a.out_stride + row;
    float v = *out;
    for (int k = 0; k < int(a.rank); k++) v = v + weights[k] * a.b[size_t(k) * a.rows + row];
    *out = v;
}
