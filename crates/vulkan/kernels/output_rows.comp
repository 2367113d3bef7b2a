#version 460
// Rows of the residual stream that logits or states are asked for: gathered, normed, quantized. A block has a row.
#include "device.glsl"
#include "rows.glsl"

ARGUMENTS {
    uint64_t x, tokens; // which token each row is
    Norm norm;
    uint64_t normed, acts;
    uint width, act_stride;
    float epsilon;
    uint rms;
};
ARGUMENTS_HERE;

uint64_t row;
float row_value(int i) { return read_float(row, i); }

void main() {
    const int width = int(a.width), index = int(gl_WorkGroupID.x);
    const bool rms = a.rms != 0u;
    row = row_at(a.x, int(read_word(a.tokens, index)), 4 * width);
    const uint64_t to = row_at(a.normed, index, 4 * width);
    NormFactors f = NormFactors(0.0, 1.0);
    if (a.norm.weight != 0ul) f = norm_factors(width, rms, a.epsilon);
    for (int start = 4 * tid; start < width; start += TILE)
        for (int i = start; i < min(start + 4, width); i++) {
            const float v = read_float(row, i);
            write_float(to, i, a.norm.weight != 0ul ? normed(f, rms, v, a.norm, i) : v);
        }
    row = to;
    if (a.acts != 0ul) encode_row(width, row_at(a.acts, index, int(a.act_stride)));
}
