// The residual stream between two branches: one's result is added and the other's input taken from it, normed and
// quantized. A block has a token.
#include "rows.cuh"

struct NormArgs {
    const float *weight, *bias; // no weight: no norm
};
struct AddNormArgs {
    float *x, *branch;
    const float *branch_bias;
    NormArgs post, pre;
    float *normed;
    uint8_t *acts; // or nowhere
    uint32_t width, act_stride;
    float epsilon, residual_scale;
    uint32_t has_branch, has_next, parallel, halve, rms;
};

KERNEL(add_norm, BLOCKS(512), AddNormArgs, a) {
    SHARED(float, row);
    NormFactors *factors = reinterpret_cast<NormFactors *>(row + a.width);
    const int width = int(a.width), tid = threadIdx.x, threads = blockDim.x;
    const bool rms = a.rms;
    float *x = a.x + size_t(blockIdx.x) * width, *branch = a.branch + size_t(blockIdx.x) * width;
    float *normed_row = a.normed + size_t(blockIdx.x) * width;
    begin();

    auto take_input = [&] {
        for (int i = tid; i < width; i += threads) row[i] = x[i];
        if (a.pre.weight) {
            const NormFactors f = block_norm(row, width, rms, a.epsilon, factors);
            for (int i = tid; i < width; i += threads) row[i] = normed(f, rms, row[i], a.pre.weight, a.pre.bias, i);
        }
        __syncthreads();
        for (int i = tid; i < width; i += threads) normed_row[i] = row[i];
        if (a.acts) encode_row(width, a.acts + size_t(blockIdx.x) * a.act_stride, [&](int i) { return row[i]; });
        __syncthreads();
    };
    if (a.has_next && a.parallel) take_input();
    if (a.has_branch) {
        for (int i = tid; i < width; i += threads) {
            const float b = branch[i];
            row[i] = a.branch_bias ? b + a.branch_bias[i] : b;
        }
        NormFactors f = {0.0f, 1.0f};
        if (a.post.weight) f = block_norm(row, width, rms, a.epsilon, factors);
        for (int i = tid; i < width; i += threads) {
            const float b = a.post.weight ? normed(f, rms, row[i], a.post.weight, a.post.bias, i) : row[i];
            float sum = a.residual_scale == 1.0f ? x[i] + b : x[i] + a.residual_scale * b;
            if (a.halve) sum = sum * 0.5f;
            x[i] = sum;
        }
        __syncthreads();
    }
    if (a.has_next && !a.parallel) take_input();
}

// Rows of the residual stream that logits or states are asked for: gathered, normed, quantized.
struct OutputRowsArgs {
    const float *x;
    const uint32_t *tokens; // which token each row is
    NormArgs norm;
    float *normed;
    uint8_t *acts;
    uint32_t width, act_stride;
    float epsilon;
    uint32_t rms;
};
KERNEL(output_rows, BLOCKS(512), OutputRowsArgs, a) {
    SHARED(float, row);
    NormFactors *factors = reinterpret_cast<NormFactors *>(row + a.width);
    const int width = int(a.width), tid = threadIdx.x, threads = blockDim.x;
    begin();
    const float *x = a.x + size_t(a.tokens[blockIdx.x]) * width;
    for (int i = tid; i < width; i += threads) row[i] = x[i];
    const NormFactors f = block_norm(row, width, a.rms, a.epsilon, factors);
    for (int i = tid; i < width; i += threads) {
        row[i] = normed(f, a.rms, row[i], a.norm.weight, a.norm.bias, i);
        a.normed[size_t(blockIdx.x) * width + i] = row[i];
    }
    __syncthreads();
    if (a.acts) encode_row(width, a.acts + size_t(blockIdx.x) * a.act_stride, [&](int i) { return row[i]; });
}
