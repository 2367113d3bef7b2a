// What the kernels of adapters take: out += weights · B, where weights = scale · (A · x), for the tokens of a span.
ARGUMENTS {
    uint64_t x;       // (tokens, x_stride)
    uint64_t result;  // (tokens, out_stride)
    uint64_t a;       // (rank, columns)
    uint64_t b;       // (rank, rows)
    uint64_t weights; // (tokens, rank)
    uint columns, rank, rows, x_stride, out_stride;
    float scale;
};
ARGUMENTS_HERE;
