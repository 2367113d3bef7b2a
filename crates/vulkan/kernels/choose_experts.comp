#version 460
// Mixtures of experts (crates/model/src/experts.rs): which experts a token takes, and with what weights. A block has a token.
#define THREADS 64
#include "device.glsl"
#include "math.glsl"
#include "rows.glsl"

ARGUMENTS {
    uint64_t scores; // (tokens, count)
    uint64_t router_bias, choice_bias;
    uint64_t experts; // (tokens, used)
    uint64_t weights; // (tokens, used)
    uint count, used, groups, groups_used;
    uint gate, renormalize; // 0: softmax, 1: sigmoid, 2: softmax of those chosen, 3: sparse mixer
    float cap, inverse_cap, scale;
};
ARGUMENTS_HERE;

// As many experts as there may be: see src/backend.rs.
shared float scores[2048];
shared float weights[256];
shared float best_values[THREADS];
shared int best_places[THREADS];
shared float shared_best;

float row_value(int i) { return scores[i]; }

// A float's place in the order of all floats.
int order_of(float f) {
    const int b = int(bits_of(f));
    return b ^ int(uint(b >> 31) >> 1);
}
float rank(int expert) { return a.choice_bias != 0ul ? scores[expert] + read_float(a.choice_bias, expert) : scores[expert]; }

void leave_groups(int count) {
    const int groups = int(a.groups), size = count / groups;
    for (int left = groups; left > int(a.groups_used); left--) {
        int worst = -1;
        float worst_worth = 0.0;
        for (int group = 0; group < groups; group++) {
            if (scores[group * size] == -INFINITY) continue;
            float first = -INFINITY, second = -INFINITY;
            for (int i = group * size; i < (group + 1) * size; i++) {
                second = greater(second, lesser(rank(i), first));
                first = greater(first, rank(i));
            }
            const float worth = first + second;
            // Of equals the later goes.
            if (worst < 0 || order_of(worth) <= order_of(worst_worth)) worst = group, worst_worth = worth;
        }
        if (worst < 0) break;
        for (int i = worst * size; i < (worst + 1) * size; i++) scores[i] = -INFINITY;
    }
}

void main() {
    const int count = int(a.count), used = int(a.used), token = int(gl_WorkGroupID.x);
    const uint64_t row = row_at(a.scores, token, 4 * count);
    float best = -INFINITY;
    for (int i = tid; i < count; i += THREADS) {
        float v = read_float(row, i);
        if (a.router_bias != 0ul) v = v + read_float(a.router_bias, i);
        if (a.cap != 0.0) v = soft_cap(v, a.cap, a.inverse_cap);
        if (a.gate == 1u) v = sigmoid(v);
        scores[i] = v;
        best = v > best ? v : best;
    }
    best_values[tid] = best;
    barrier();
    if (a.gate == 0u) {
        for (int i = 0; i < THREADS; i++) best = greater(best_values[i], best);
        for (int i = tid; i < count; i += THREADS) scores[i] = exponential(scores[i] - best);
        barrier();
        const float inverse = divide(1.0, lane_sum(count, false, 0.0));
        for (int i = tid; i < count; i += THREADS) scores[i] = scores[i] * inverse;
        barrier();
    }
    if (a.groups != 0u && tid == 0) leave_groups(count);
    float sum = 0.0;
    for (int slot = 0; slot < used; slot++) {
        barrier();
        // The best, the first of equals.
        float value = rank(0);
        int index = 0;
        for (int i = tid; i < count; i += THREADS) {
            const float its = rank(i);
            if (its > value || (its == value && i < index)) value = its, index = i;
        }
        best_values[tid] = value, best_places[tid] = index;
        barrier();
        for (int i = 0; i < THREADS; i++) {
            const float its = best_values[i];
            if (its > value || (its == value && best_places[i] < index)) value = its, index = best_places[i];
        }
        float weight = scores[index];
        if (a.gate == 3u) {
            float near = 0.0;
            for (int i = 0; i < count; i++) {
                const float score = scores[i];
                if (score != -INFINITY && divide(weight - score, greater(magnitude(score), weight)) <= 0.02)
                    near = near + exponential(score - weight);
            }
            weight = divide(1.0, near);
        }
        sum = sum + weight;
        barrier();
        if (tid == 0) {
            weights[slot] = weight;
            write_word(a.experts, token * used + slot, uint(index));
            scores[index] = -INFINITY;
        }
    }
    if (tid != 0) return;
    if (a.gate == 2u) {
        float top = -INFINITY, total = 0.0;
        for (int slot = 0; slot < used; slot++) top = greater(weights[slot], top);
        for (int slot = 0; slot < used; slot++) weights[slot] = exponential(weights[slot] - top), total = total + weights[slot];
        for (int slot = 0; slot < used; slot++) weights[slot] = divide(weights[slot], total);
        sum = 1.0;
    }
    const float divisor = a.renormalize != 0u ? sum : 1.0;
    for (int slot = 0; slot < used; slot++) write_float(a.weights, token * used + slot, divide(weights[slot], divisor) * a.scale);
}
