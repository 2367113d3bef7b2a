#version 460
// Between attention and its last matrix: gates, a norm if there is one, and the result quantized. A block has a token.
#include "device.glsl"
#include "math.glsl"
#include "rows.glsl"

ARGUMENTS {
    uint64_t mixed; // (tokens, width)
    uint64_t gates; // (tokens, gate_stride), or nowhere
    Norm norm;
    uint64_t acts;
    uint width, gate_stride, act_stride;
    float epsilon;
    uint rms;
};
ARGUMENTS_HERE;

uint64_t row;
float row_value(int i) { return read_float(row, i); }

void main() {
    const int width = int(a.width), token = int(gl_WorkGroupID.x);
    const bool rms = a.rms != 0u;
    row = row_at(a.mixed, token, 4 * width);
    if (a.gates != 0ul) {
        const uint64_t gates = row_at(a.gates, token, 4 * int(a.gate_stride));
        for (int start = 4 * tid; start < width; start += TILE)
            for (int i = start; i < min(start + 4, width); i++)
                write_float(row, i, read_float(row, i) * sigmoid(read_float(gates, i)));
    }
    if (a.norm.weight != 0ul) {
        const NormFactors f = norm_factors(width, rms, a.epsilon);
        for (int start = 4 * tid; start < width; start += TILE)
            for (int i = start; i < min(start + 4, width); i++) write_float(row, i, normed(f, rms, read_float(row, i), a.norm, i));
    }
    if (a.acts != 0ul) encode_row(width, row_at(a.acts, token, int(a.act_stride)));
}
