// Mixtures of experts (crates/model/src/experts.rs): which experts a token takes, with what weights, and their sum.
#include "math.cuh"
#include "rows.cuh"

struct ChooseArgs {
    float *scores; // (tokens, count)
    const float *router_bias, *choice_bias;
    uint32_t *experts; // (tokens, used)
    float *weights;    // (tokens, used)
    uint32_t count, used, groups, groups_used;
    uint32_t gate, renormalize; // 0: softmax, 1: sigmoid, 2: softmax of those chosen, 3: sparse mixer
    float cap, inverse_cap, scale;
};

// A float's place in the order of all floats.
DEVICE int order_of(float f) {
    const int b = int(bits_of(f));
    return b ^ int(uint32_t(b >> 31) >> 1);
}
DEVICE float larger(float a, float b) { return a > b ? a : b; }
DEVICE float smaller(float a, float b) { return a < b ? a : b; }

// A warp has a token.
KERNEL(choose_experts, BLOCKS(32), ChooseArgs, a) {
    SHARED(float, scores);
    const int lane = threadIdx.x, count = int(a.count), used = int(a.used);
    const unsigned all = 0xffffffffu;
    const float lowest = -float_of(0x7f800000u);
    float *weights = scores + count;
    begin();
    const float *row = a.scores + size_t(blockIdx.x) * count;
    float best = lowest;
    for (int i = lane; i < count; i += 32) {
        float v = row[i];
        if (a.router_bias) v = v + a.router_bias[i];
        if (a.cap != 0.0f) v = soft_cap(v, a.cap, a.inverse_cap);
        if (a.gate == 1) v = sigmoid(v);
        scores[i] = v;
        best = v > best ? v : best;
    }
    __syncwarp();
    if (a.gate == 0) {
        for (int step = 16; step; step /= 2) best = larger(float_of(shuffle_xor(all, bits_of(best), step)), best);
        for (int i = lane; i < count; i += 32) scores[i] = exponential(scores[i] - best);
        __syncwarp();
        const float inverse = divide(1.0f, lane_sum(count, [&](int i) { return scores[i]; }));
        __syncwarp();
        for (int i = lane; i < count; i += 32) scores[i] = scores[i] * inverse;
        __syncwarp();
    }
    auto rank = [&](int expert) { return a.choice_bias ? scores[expert] + a.choice_bias[expert] : scores[expert]; };
    if (a.groups && lane == 0) {
        const int groups = int(a.groups), size = count / groups;
        for (int left = groups; left > int(a.groups_used); left--) {
            int worst = -1;
            float worst_worth = 0.0f;
            for (int group = 0; group < groups; group++) {
                if (scores[group * size] == lowest) continue;
                float first = lowest, second = lowest;
                for (int i = group * size; i < (group + 1) * size; i++) {
                    second = larger(second, smaller(rank(i), first));
                    first = larger(first, rank(i));
                }
                const float worth = first + second;
                // Of equals the later goes.
                if (worst < 0 || order_of(worth) <= order_of(worst_worth)) worst = group, worst_worth = worth;
            }
            if (worst < 0) break;
            for (int i = worst * size; i < (worst + 1) * size; i++) scores[i] = lowest;
        }
    }
    __syncwarp();
    float sum = 0.0f;
    for (int slot = 0; slot < used; slot++) {
        // The best, the first of equals.
        float value = rank(0);
        int index = 0;
        for (int i = lane; i < count; i += 32)
            if (rank(i) > value || (rank(i) == value && i < index)) value = rank(i), index = i;
        for (int step = 16; step; step /= 2) {
            const float other = float_of(shuffle_xor(all, bits_of(value), step));
            const int other_index = int(shuffle_xor(all, uint32_t(index), step));
            if (other > value || (other == value && other_index < index)) value = other, index = other_index;
        }
        float weight = scores[index];
        if (a.gate == 3) {
            float near = 0.0f;
            for (int i = 0; i < count; i++) {
                const float score = scores[i];
                if (score != lowest && divide(weight - score, larger(magnitude(score), weight)) <= 0.02f)
                    near = near + exponential(score - weight);
            }
            weight = divide(1.0f, near);
        }
        sum = sum + weight;
        __syncwarp();
        if (lane == 0) {
            weights[slot] = weight;
            a.experts[size_t(blockIdx.x) * used + slot] = uint32_t(index);
            scores[index] = lowest;
        }
        __syncwarp();
    }
    if (lane) return;
    if (a.gate == 2) {
        float top = lowest, total = 0.0f;
        for (int slot = 0; slot < used; slot++) top = larger(weights[slot], top);
        for (int slot = 0; slot < used; slot++) weights[slot] = exponential(weights[slot] - top), total = total + weights[slot];
        for (int slot = 0; slot < used; slot++) weights[slot] = divide(weights[slot], total);
        sum = 1.0f;
    }
    const float divisor = a.renormalize ? sum : 1.0f;
    for (int slot = 0; slot < used; slot++)
        a.weights[size_t(blockIdx.x) * used + slot] = divide(weights[slot], divisor) * a.scale;
}

// Each slot's input where weights multiply it: the token's row, scaled and quantized. A block has a slot.
struct ExpertInputArgs {
    const float *normed, *weights;
    float *scaled;
    uint8_t *acts;
    uint32_t width, act_stride, used;
};
KERNEL(expert_inputs, BLOCKS(256), ExpertInputArgs, a) {
    begin();
    const float weight = a.weights[blockIdx.x];
    const float *row = a.normed + size_t(blockIdx.x / a.used) * a.width;
    float *out = a.scaled + size_t(blockIdx.x) * a.width;
    for (int i = threadIdx.x; i < int(a.width); i += blockDim.x) out[i] = row[i] * weight;
    if (a.acts) encode_row(int(a.width), a.acts + size_t(blockIdx.x) * a.act_stride, [&](int i) { return row[i] * weight; });
}

// Adds each token's experts in their order. A block has a token and a part of its columns.
struct GatherArgs {
    const float *results; // (slots, width)
    const float *biases;  // (experts, width)
    const uint32_t *experts;
    const float *weights; // or nowhere: 1
    const float *normed, *shared_gate;
    float *out; // holds what the shared expert gave
    uint32_t width, used, shared;
    float scale;
};
KERNEL(gather_experts, BLOCKS(256), GatherArgs, a) {
    SHARED(float, gate);
    begin();
    const int width = int(a.width), token = blockIdx.x;
    if (a.shared_gate && threadIdx.x < 16) {
        const float *row = a.normed + size_t(token) * width;
        const int whole = (width + 15) / 16 * 16;
        float sum = 0.0f;
        for (int i = threadIdx.x; i < whole; i += 16) sum = i < width ? fmaf(row[i], a.shared_gate[i], sum) : fmaf(0.0f, 0.0f, sum);
        sum = join_lanes(sum);
        if (threadIdx.x == 0) *gate = divide(1.0f, 1.0f + exponential(-sum - 0.0f));
    }
    __syncthreads();
    for (int i = blockIdx.y * blockDim.x + threadIdx.x; i < width; i += gridDim.y * blockDim.x) {
        float *out = a.out + size_t(token) * width + i;
        float v = a.shared ? *out : 0.0f;
        if (a.shared_gate) v = v * *gate;
        for (int slot = token * int(a.used); slot < (token + 1) * int(a.used); slot++) {
            float result = a.results[size_t(slot) * width + i];
            if (a.biases) result = result + a.biases[size_t(a.experts[slot]) * width + i];
            v = v + (a.weights ? a.weights[slot] : 1.0f) * result;
        }
        *out = a.scale != 1.0f ? v * a.scale : v;
    }
}
