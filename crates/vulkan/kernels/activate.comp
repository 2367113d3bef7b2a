#version 460
// Between the matrices of a feed-forward network: biases, the activation, a norm if there is one (NORM), and the result
// quantized. A block has a row, or without a norm the tiles of it from its own on.
#include "device.glsl"
#include "math.glsl"
#include "rows.glsl"

ARGUMENTS {
    uint64_t hidden; // (rows, stride): gate, then up; the result takes the gate's place
    uint64_t gate_bias, up_bias;
    uint64_t experts; // whose biases, if experts have some
    Norm norm;
    uint64_t acts;
    uint inner, stride, act_stride, gated;
    Activation activation;
    float epsilon;
    uint rms;
};
ARGUMENTS_HERE;

layout(constant_id = 3) const uint NORM = 0;

uint64_t row;
float row_value(int i) { return read_float(row, i); }

float hidden_value(int bias, int i) {
    float gate = read_float(row, i);
    if (a.gate_bias != 0ul) gate = gate + read_float(a.gate_bias, bias + i);
    if (a.gated == 0u) return activate(a.activation, gate);
    float up = read_float(row, int(a.inner) + i);
    if (a.up_bias != 0ul) up = up + read_float(a.up_bias, bias + i);
    return gated(a.activation, gate, up);
}

void main() {
    const int inner = int(a.inner), index = int(gl_WorkGroupID.x);
    const bool norms = NORM != 0u, rms = a.rms != 0u;
    const int first = norms ? 0 : int(gl_WorkGroupID.y), step = norms ? 1 : int(gl_NumWorkGroups.y);
    row = row_at(a.hidden, index, 4 * int(a.stride));
    const int bias = a.experts != 0ul ? int(read_word(a.experts, index)) * inner : 0;
    for (int start = first * TILE + 4 * tid; start < inner; start += step * TILE)
        for (int i = start; i < min(start + 4, inner); i++) write_float(row, i, hidden_value(bias, i));
    if (norms) {
        const NormFactors f = norm_factors(inner, rms, a.epsilon);
        for (int start = 4 * tid; start < inner; start += TILE)
            for (int i = start; i < min(start + 4, inner); i++) write_float(row, i, normed(f, rms, read_float(row, i), a.norm, i));
    }
    if (a.acts != 0ul) encode_tiles(inner, row_at(a.acts, index, int(a.act_stride)), first, step);
}
