#version 460
// Each slot's input where weights multiply it: the token's row, scaled and quantized. A block has a slot.
#include "device.glsl"
#include "rows.glsl"

ARGUMENTS {
    uint64_t normed, weights;
    uint64_t scaled;
    uint64_t acts;
    uint width, act_stride, used;
};
ARGUMENTS_HERE;

uint64_t row;
float row_value(int i) { return read_float(row, i); }

void main() {
    const int slot = int(gl_WorkGroupID.x), width = int(a.width);
    const float weight = read_float(a.weights, slot);
    const uint64_t from = row_at(a.normed, slot / int(a.used), 4 * width);
    row = row_at(a.scaled, slot, 4 * width);
    for (int start = 4 * tid; start < width; start += TILE)
        for (int i = start; i < min(start + 4, width); i++) write_float(row, i, read_float(from, i) * weight);
    if (a.acts != 0ul) encode_row(width, row_at(a.acts, slot, int(a.act_stride)));
}
