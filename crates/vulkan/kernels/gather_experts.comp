#version 460
// Adds each token's experts in their order. A block has a token and a part of its columns.
#include "device.glsl"
#include "math.glsl"
#include "rows.glsl"

ARGUMENTS {
    uint64_t results; // (slots, width)
    uint64_t biases;  // (experts, width)
    uint64_t experts;
    uint64_t weights; // or nowhere: 1
    uint64_t normed, shared_gate;
    uint64_t sum; // holds what the shared expert gave
    uint width, used, shared_expert;
    float scale;
};
ARGUMENTS_HERE;

float row_value(int i) { return 0.0; }

void main() {
    const int width = int(a.width), token = int(gl_WorkGroupID.x), used = int(a.used);
    float gate = 1.0;
    if (a.shared_gate != 0ul) {
        const uint64_t row = row_at(a.normed, token, 4 * width);
        if (tid < 16) {
            float sum = 0.0;
            for (int i = tid; i < (width + 15) / 16 * 16; i += 16)
                sum = i < width ? fused(read_float(row, i), read_float(a.shared_gate, i), sum) : fused(0.0, 0.0, sum);
            tile[tid] = sum;
        }
        barrier();
        gate = divide(1.0, 1.0 + exponential(-join_lanes() - 0.0));
    }
    const uint64_t row = row_at(a.sum, token, 4 * width);
    for (int i = int(gl_WorkGroupID.y) * THREADS + tid; i < width; i += int(gl_NumWorkGroups.y) * THREADS) {
        float v = a.shared_expert != 0u ? read_float(row, i) : 0.0;
        if (a.shared_gate != 0ul) v = v * gate;
        for (int slot = token * used; slot < (token + 1) * used; slot++) {
            float result = read_float(row_at(a.results, slot, 4 * width), i);
            if (a.biases != 0ul) result = result + read_float(row_at(a.biases, int(read_word(a.experts, slot)), 4 * width), i);
            v = v + (a.weights != 0ul ? read_float(a.weights, slot) : 1.0) * result;
        }
        write_float(row, i, a.scale != 1.0 ? v * a.scale : v);
    }
}
