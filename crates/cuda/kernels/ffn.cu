// Between the matrices of a feed-forward network: biases, the activation, a norm if there is one, and the result quantized.
#include "math.cuh"
#include "rows.cuh"

struct ActivateArgs {
    float *hidden; // (rows, stride): gate, then up; the result takes the gate's place
    const float *gate_bias, *up_bias;
    const uint32_t *experts; // whose biases, if experts have some
    const float *norm_weight, *norm_bias;
    uint8_t *acts;
    uint32_t inner, stride, act_stride, gated;
    ActivationArgs activation;
    float epsilon;
    uint32_t rms;
};

DEVICE float hidden_value(const ActivateArgs &a, const float *row, size_t bias, int i) {
    float gate = row[i];
    if (a.gate_bias) gate = gate + a.gate_bias[bias + i];
    if (!a.gated) return activate(a.activation, gate);
    float up = row[a.inner + i];
    if (a.up_bias) up = up + a.up_bias[bias + i];
    return gated(a.activation, gate, up);
}

// A block has a token and the groups of 32 from blockIdx.y on, gridDim.y apart.
KERNEL(activate_rows, BLOCKS(256), ActivateArgs, a) {
    begin();
    float *row = a.hidden + size_t(blockIdx.x) * a.stride;
    const size_t bias = a.experts ? size_t(a.experts[blockIdx.x]) * a.inner : 0;
    const int groups = units_of(int(a.inner)) * 8, warps = blockDim.x / 32, lane = threadIdx.x % 32;
    for (int g = int(blockIdx.y) * warps + threadIdx.x / 32; g < groups; g += int(gridDim.y) * warps) {
        const int i = g * 32 + lane;
        const bool real = i < int(a.inner);
        const float v = real ? hidden_value(a, row, bias, i) : 0.0f;
        if (real) row[i] = v;
        if (a.acts) encode_group(v, a.acts + size_t(blockIdx.x) * a.act_stride, g);
    }
}

// The same with a norm, which sees whole rows: a block has a token.
KERNEL(activate_norm, BLOCKS(1024), ActivateArgs, a) {
    SHARED(float, values);
    NormFactors *factors = reinterpret_cast<NormFactors *>(values + a.inner);
    begin();
    float *row = a.hidden + size_t(blockIdx.x) * a.stride;
    const int inner = int(a.inner);
    for (int i = threadIdx.x; i < inner; i += blockDim.x) values[i] = hidden_value(a, row, 0, i);
    const NormFactors f = block_norm(values, inner, a.rms, a.epsilon, factors);
    for (int i = threadIdx.x; i < inner; i += blockDim.x) {
        values[i] = normed(f, a.rms, values[i], a.norm_weight, a.norm_bias, i);
        row[i] = values[i];
    }
    __syncthreads();
    if (a.acts) encode_row(inner, a.acts + size_t(blockIdx.x) * a.act_stride, [&](int i) { return values[i]; });
}

// What is done to logits after their matrix.
struct LogitArgs {
    float *logits;
    const float *bias;
    uint32_t vocabulary;
    float scale, cap, inverse_cap; // no cap: 0
};
KERNEL(finish_logits, BLOCKS(256), LogitArgs, a) {
    begin();
    float *row = a.logits + size_t(blockIdx.y) * a.vocabulary;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < int(a.vocabulary); i += gridDim.x * blockDim.x) {
        float v = row[i];
        if (a.bias) v = v + a.bias[i];
        if (a.scale != 1.0f) v = v * a.scale;
        if (a.cap != 0.0f) v = soft_cap(v, a.cap, a.inverse_cap);
        row[i] = v;
    }
}
