#version 460
// The residual stream between two branches: one's result is added and the other's input taken from it, normed and
// quantized. A block has a token.
#include "device.glsl"
#include "rows.glsl"

ARGUMENTS {
    uint64_t x, branch, branch_bias;
    Norm post, pre;
    uint64_t normed, acts; // acts: or nowhere
    uint width, act_stride;
    float epsilon, residual_scale;
    uint has_branch, has_next, parallel, halve, rms;
};
ARGUMENTS_HERE;

const int BRANCH = 0, STREAM = 1, RESULT = 2;
int row_is = STREAM;
uint64_t x, branch, result;

float row_value(int i) {
    if (row_is == STREAM) return read_float(x, i);
    if (row_is == RESULT) return read_float(result, i);
    const float v = read_float(branch, i);
    return a.branch_bias != 0ul ? v + read_float(a.branch_bias, i) : v;
}

void take_input(int width, bool rms) {
    row_is = STREAM;
    NormFactors f = NormFactors(0.0, 1.0);
    if (a.pre.weight != 0ul) f = norm_factors(width, rms, a.epsilon);
    for (int start = 4 * tid; start < width; start += TILE)
        for (int i = start; i < min(start + 4, width); i++) {
            const float v = read_float(x, i);
            write_float(result, i, a.pre.weight != 0ul ? normed(f, rms, v, a.pre, i) : v);
        }
    row_is = RESULT;
    if (a.acts != 0ul) encode_row(width, row_at(a.acts, int(gl_WorkGroupID.x), int(a.act_stride)));
}

void main() {
    const int width = int(a.width), token = int(gl_WorkGroupID.x);
    const bool rms = a.rms != 0u;
    x = row_at(a.x, token, 4 * width), branch = row_at(a.branch, token, 4 * width), result = row_at(a.normed, token, 4 * width);
    if (a.has_next != 0u && a.parallel != 0u) take_input(width, rms);
    if (a.has_branch != 0u) {
        NormFactors f = NormFactors(0.0, 1.0);
        row_is = BRANCH;
        if (a.post.weight != 0ul) f = norm_factors(width, rms, a.epsilon);
        for (int start = 4 * tid; start < width; start += TILE)
            for (int i = start; i < min(start + 4, width); i++) {
                const float old = read_float(x, i);
                float v = row_value(i);
                if (a.post.weight != 0ul) v = normed(f, rms, v, a.post, i);
                float sum = a.residual_scale == 1.0 ? old + v : old + a.residual_scale * v;
                if (a.halve != 0u) sum = sum * 0.5;
                write_float(x, i, sum);
            }
    }
    if (a.has_next != 0u && a.parallel == 0u) take_input(width, rms);
}
