#version 460
// The device's float operations, and the same done in integers, on numbers that the processors have done as well.
#include "device.glsl"

ARGUMENTS {
    uint64_t numbers; // (count, 3)
    uint64_t results; // (count, 12)
    uint count;
};
ARGUMENTS_HERE;

void main() {
    const int i = int(gl_GlobalInvocationID.x);
    if (i >= int(a.count)) return;
    const uint64_t from = row_at(a.numbers, i, 12), to = row_at(a.results, i, 48);
    const float x = read_float(from, 0), y = read_float(from, 1), z = read_float(from, 2);
    write_float(to, 0, x + y);
    write_float(to, 1, x - y);
    write_float(to, 2, x * y);
    write_float(to, 3, x * y + z);
    write_float(to, 4, fma(x, y, z));
    write_float(to, 5, x / y);
    write_float(to, 6, sqrt(x));
    write_float(to, 7, fuse_otherwise(x, y, z));
    write_float(to, 8, divide_in_integers(x, y));
    write_float(to, 9, root_in_integers(x));
    write_float(to, 10, float_from(int(bits_of(x))));
    // Comparisons, and halves there and back.
    const uint compared = (x < y ? 1u : 0u) | (x == y ? 2u : 0u) | (x > y ? 4u : 0u);
    write_word(to, 11, float_to_half(x) | compared << 16 | (bits_of(half_to_float(bits_of(y) & 0xffffu)) >> 13 & 0x1fffu) << 19);
}
