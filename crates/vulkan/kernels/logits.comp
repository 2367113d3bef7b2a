#version 460
// What is done to logits after their matrix.
#include "device.glsl"
#include "math.glsl"

ARGUMENTS {
    uint64_t logits, bias;
    uint vocabulary;
    float scale, cap, inverse_cap; // no cap: 0
};
ARGUMENTS_HERE;

void main() {
    const uint64_t row = row_at(a.logits, int(gl_WorkGroupID.y), 4 * int(a.vocabulary));
    for (int i = int(gl_GlobalInvocationID.x); i < int(a.vocabulary); i += int(gl_NumWorkGroups.x) * THREADS) {
        float v = read_float(row, i);
        if (a.bias != 0ul) v = v + read_float(a.bias, i);
        if (a.scale != 1.0) v = v * a.scale;
        if (a.cap != 0.0) v = soft_cap(v, a.cap, a.inverse_cap);
        write_float(row, i, v);
    }
}
