#version 460
// Matrix × rows of floats: F32, F16 and BF16. Four sums a row, by column modulo 4, each in column order, then
// (s0 + s1) + (s2 + s3). A panel is columns of 16 numbers. A block has a panel and four tokens (with experts one), a thread
// one of the four sums of one row and one token.
#define THREADS 256
#include "device.glsl"
#include "matmul.glsl"

// 0: F32, 1: F16, 2: BF16.
layout(constant_id = 3) const uint KIND = 0;

shared float parts[THREADS];

float weight(uint64_t panel, int i) {
    if (KIND == 0u) return read_float(panel, i);
    const uint half_word = read_half(panel, i);
    return KIND == 1u ? half_to_float(half_word) : float_of(half_word << 16);
}

void main() {
    const int row = tid % 16, c = tid / 16 % 4, slot = tid / 64;
    const bool chosen = a.experts != 0ul;
    const int token = chosen ? int(gl_WorkGroupID.y) : int(gl_WorkGroupID.y) * 4 + slot, columns = int(a.columns);
    const bool mine = chosen ? slot == 0 : token < int(a.tokens);
    const PanelPlace place = find_panel(int(gl_WorkGroupID.x));
    float sum = 0.0;
    if (mine) {
        const uint64_t panel = place.w + expert_at(token) + uint64_t(place.panel) * uint64_t((KIND == 0u ? 64 : 32) * columns);
        const uint64_t x = row_at(a.x, token / int(a.x_shared_by), int(a.x_stride));
        for (int i = c; i < columns; i += 4) sum = fused(weight(panel, i * 16 + row), read_float(x, i), sum);
    }
    parts[tid] = sum;
    barrier();
    const int r = place.panel * 16 + row;
    if (!mine || c != 0 || r >= place.rows) return;
    const float low = parts[tid] + parts[tid + 16], high = parts[tid + 32] + parts[tid + 48];
    write_float(row_at(place.to, token, 4 * int(a.out_stride)), r, low + high);
}
