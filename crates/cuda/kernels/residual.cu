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

// Elements of a row that a thread takes at once, so that its loads wait for memory together.
static const int TOGETHER = 8;

// Calls `use(k, i)` for the thread's elements from `first` on.
template <class F> DEVICE void each_together(int first, int width, F use) {
#pragma unroll
    for (int k = 0; k < TOGETHER; k++) {
        const int i = first + k * int(blockDim.x);
        if (i < width) use(k, i);
    }
}

// Norms the row in shared memory, of which each thread has written its own elements, and stores it.
DEVICE void norm_row(const NormArgs &norm, const float (&gains)[TOGETHER], float *row, float *to, uint8_t *acts, int width, bool rms,
                     float epsilon, NormFactors *factors) {
    const int tid = threadIdx.x, step = TOGETHER * blockDim.x;
    if (norm.weight) {
        const NormFactors f = block_norm(row, width, rms, epsilon, factors);
        for (int first = tid; first < width; first += step)
            each_together(first, width, [&](int k, int i) {
                if (!rms) row[i] = normed(f, rms, row[i], norm.weight, norm.bias, i);
                else row[i] = row[i] * f.inverse * (first == tid ? gains[k] : norm.weight[i]);
            });
    }
    for (int i = tid; i < width; i += blockDim.x) to[i] = row[i];
    __syncthreads();
    if (acts) encode_row(width, acts, [&](int i) { return row[i]; });
}

KERNEL(add_norm, BLOCKS(1024), AddNormArgs, a) {
    SHARED(float, row);
    NormFactors *factors = reinterpret_cast<NormFactors *>(row + a.width);
    const int width = int(a.width), tid = threadIdx.x, step = TOGETHER * blockDim.x;
    const bool rms = a.rms;
    float *x = a.x + size_t(blockIdx.x) * width;
    const float *branch = a.branch + size_t(blockIdx.x) * width;
    // Weights depend on nothing.
    float gains[TOGETHER];
    if (a.pre.weight) each_together(tid, width, [&](int k, int i) { gains[k] = a.pre.weight[i]; });
    begin();

    auto take_input = [&](bool loaded) {
        if (!loaded)
            for (int i = tid; i < width; i += blockDim.x) row[i] = x[i];
        uint8_t *acts = a.acts ? a.acts + size_t(blockIdx.x) * a.act_stride : nullptr;
        norm_row(a.pre, gains, row, a.normed + size_t(blockIdx.x) * width, acts, width, rms, a.epsilon, factors);
    };
    if (a.has_next && a.parallel) {
        take_input(false);
        __syncthreads();
    }
    if (a.has_branch) {
        NormFactors f = {0.0f, 1.0f};
        if (a.post.weight) {
            for (int i = tid; i < width; i += blockDim.x) row[i] = a.branch_bias ? branch[i] + a.branch_bias[i] : branch[i];
            f = block_norm(row, width, rms, a.epsilon, factors);
        }
        for (int first = tid; first < width; first += step) {
            float old[TOGETHER], b[TOGETHER];
            each_together(first, width, [&](int k, int i) { old[k] = x[i], b[k] = branch[i]; });
            each_together(first, width, [&](int k, int i) {
                float v = a.post.weight ? row[i] : a.branch_bias ? b[k] + a.branch_bias[i] : b[k];
                if (a.post.weight) v = normed(f, rms, v, a.post.weight, a.post.bias, i);
                float sum = a.residual_scale == 1.0f ? old[k] + v : old[k] + a.residual_scale * v;
                if (a.halve) sum = sum * 0.5f;
                x[i] = sum, row[i] = sum;
            });
        }
    }
    if (a.has_next && !a.parallel) take_input(a.has_branch);
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
KERNEL(output_rows, BLOCKS(1024), OutputRowsArgs, a) {
    SHARED(float, row);
    NormFactors *factors = reinterpret_cast<NormFactors *>(row + a.width);
    const int width = int(a.width), tid = threadIdx.x;
    float gains[TOGETHER];
    each_together(tid, width, [&](int k, int i) { gains[k] = a.norm.weight[i]; });
    begin();
    const float *x = a.x + size_t(a.tokens[blockIdx.x]) * width;
    for (int i = tid; i < width; i += blockDim.x) row[i] = x[i];
    uint8_t *acts = a.acts ? a.acts + size_t(blockIdx.x) * a.act_stride : nullptr;
    norm_row(a.norm, gains, row, a.normed + size_t(blockIdx.x) * width, acts, width, a.rms, a.epsilon, factors);
}
