// What kernels are written in: memory by address, and the float operations of the numerics contract.
//
// Vulkan promises less than the contract needs: additions and products are rounded once, everything else is as the device
// likes. Before a model is loaded, the device shows which of its operations are exact (self_test.comp); the others are done
// here in integers. No operation may be joined with another: the compiler's output has every one of them decorated so.
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#ifdef DOUBLES
#extension GL_EXT_shader_explicit_arithmetic_types_float64 : require
#endif
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_integer_dot_product : require

// Devices that do not fuse are software's: what is unrolled for registers only keeps their compilers busy.
#ifdef DOUBLES
#define UNROLL [[dont_unroll]]
#else
#define UNROLL [[unroll]]
#endif

#ifndef THREADS
#define THREADS 256
#endif
layout(local_size_x = THREADS) in;
#define tid int(gl_LocalInvocationID.x)

// Whether the device's own operation is exact.
layout(constant_id = 0) const bool FUSES = false;
layout(constant_id = 1) const bool DIVIDES = false;
layout(constant_id = 2) const bool ROOTS = false;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Words { uint at[]; };
layout(buffer_reference, std430, buffer_reference_align = 2) buffer Halves { uint16_t at[]; };
layout(buffer_reference, std430, buffer_reference_align = 1) buffer Bytes { uint8_t at[]; };

float read_float(uint64_t base, int i) { return Floats(base).at[i]; }
uint read_word(uint64_t base, int i) { return Words(base).at[i]; }
uint read_half(uint64_t base, int i) { return uint(Halves(base).at[i]); }
void write_float(uint64_t base, int i, float v) { Floats(base).at[i] = v; }
void write_word(uint64_t base, int i, uint v) { Words(base).at[i] = v; }
// Where row `row` of rows of `bytes` begins.
uint64_t row_at(uint64_t base, int row, int bytes) { return base + uint64_t(row) * uint64_t(bytes); }

const float INFINITY = uintBitsToFloat(0x7f800000u);

uint bits_of(float f) { return floatBitsToUint(f); }
float float_of(uint u) { return uintBitsToFloat(u); }
bool is_finite(float f) { return (bits_of(f) & 0x7f800000u) != 0x7f800000u; }
bool is_zero(float f) { return (bits_of(f) & 0x7fffffffu) == 0u; }

// ---- The same in integers

int top_bit(uint64_t v) {
    const uint high = uint(v >> 32);
    return high != 0u ? 32 + findMSB(high) : findMSB(uint(v));
}
// A finite float that is not zero as m · 2^e.
uint mantissa(float f) {
    const uint b = bits_of(f);
    return (b & 0x7fffffu) | ((b & 0x7f800000u) != 0u ? 0x800000u : 0u);
}
int exponent(float f) { return max(int(bits_of(f) >> 23 & 255u), 1) - 150; }

// m · 2^e rounded to the nearest float, of two equally near ones to the even one. The last bit of m also stands for whatever
// was below it, unless m has fewer than 26 bits, when it is exact.
float pack(uint sign, uint64_t m, int e) {
    if (m == 0ul) return float_of(sign);
    const int last = max(e + top_bit(m) - 23, -149), shift = last - e;
    uint64_t q = 0ul;
    if (shift <= 0) q = m << -shift;
    else if (shift < 64) {
        const uint64_t rest = m & ((1ul << shift) - 1ul), half_way = 1ul << (shift - 1);
        q = m >> shift;
        if (rest > half_way || (rest == half_way && (q & 1ul) != 0ul)) q += 1ul;
    }
    // Carries go into the exponent.
    const int biased = last + 149;
    const uint bits = biased >= 255 ? 0x7f800000u : (uint(biased) << 23) + uint(q);
    return float_of(sign | (bits < 0x7f800000u ? bits : 0x7f800000u));
}

float fuse_in_integers(float x, float y, float z) {
    if (!is_finite(x) || !is_finite(y) || is_zero(x) || is_zero(y)) return x * y + z;
    if (!is_finite(z)) return z;
    uint64_t big = uint64_t(mantissa(x)) * uint64_t(mantissa(y)), small = uint64_t(mantissa(z));
    int e = exponent(x) + exponent(y), small_e = exponent(z);
    uint sign = (bits_of(x) ^ bits_of(y)) & 0x80000000u, small_sign = bits_of(z) & 0x80000000u;
    // Both with their first bit at 61.
    int shift = 61 - top_bit(big);
    big <<= shift, e -= shift;
    if (small == 0ul) return pack(sign, big, e);
    shift = 61 - top_bit(small);
    small <<= shift, small_e -= shift;
    if (small_e > e || (small_e == e && small > big)) {
        const uint64_t m = big;
        const int was = e;
        const uint its = sign;
        big = small, small = m, e = small_e, small_e = was, sign = small_sign, small_sign = its;
    }
    const int distance = e - small_e;
    if (distance > 62) small = 1ul;
    else if (distance > 0) small = small >> distance | ((small & ((1ul << distance) - 1ul)) != 0ul ? 1ul : 0ul);
    const uint64_t sum = sign == small_sign ? big + small : big - small;
    return sum == 0ul ? 0.0 : pack(sign, sum, e);
}

#ifdef DOUBLES
// With 64-bit floats: the product is exact, their sum is rounded to odd, so that rounding it again is rounding once.
float fuse_otherwise(float x, float y, float z) {
    const double product = double(x) * double(y), more = double(z), sum = product + more;
    const double part = sum - product, error = (product - (sum - part)) + (more - part);
    uvec2 bits = unpackDouble2x32(sum);
    if ((error < 0.0lf || error > 0.0lf) && (bits.x & 1u) == 0u) {
        // One step away from zero, or towards it, which borrows from an even number.
        if ((error > 0.0lf) == (sum > 0.0lf)) bits.x += 1u;
        else {
            if (bits.x == 0u) bits.y -= 1u;
            bits.x -= 1u;
        }
    }
    return float(packDouble2x32(bits));
}
#else
float fuse_otherwise(float x, float y, float z) { return fuse_in_integers(x, y, z); }
#endif

float divide_in_integers(float a, float b) {
    const uint sign = (bits_of(a) ^ bits_of(b)) & 0x80000000u;
    if (isnan(a) || isnan(b) || (is_zero(a) && is_zero(b)) || (!is_finite(a) && !is_finite(b))) return float_of(0x7fc00000u);
    if (!is_finite(a) || is_zero(b)) return float_of(sign | 0x7f800000u);
    if (is_zero(a) || !is_finite(b)) return float_of(sign);
    uint rest = mantissa(a), by = mantissa(b), q = 0u;
    int e = exponent(a) - exponent(b);
    int shift = 23 - findMSB(rest);
    rest <<= shift, e -= shift;
    shift = 23 - findMSB(by);
    by <<= shift, e += shift;
    for (int i = 0; i < 27; i++) {
        q <<= 1;
        if (rest >= by) rest -= by, q |= 1u;
        rest <<= 1;
    }
    return pack(sign, uint64_t(q) << 1 | (rest != 0u ? 1ul : 0ul), e - 27);
}

float root_in_integers(float a) {
    if (is_zero(a)) return a;
    if (isnan(a) || (bits_of(a) & 0x80000000u) != 0u) return float_of(0x7fc00000u);
    if (!is_finite(a)) return a;
    uint m = mantissa(a);
    int e = exponent(a);
    const int shift = 23 - findMSB(m);
    m <<= shift, e -= shift;
    if ((e & 1) != 0) m <<= 1, e -= 1;
    const uint64_t square = uint64_t(m) << 28;
    uint64_t root = 0ul;
    for (int bit = 26; bit >= 0; bit--) {
        const uint64_t next = root | 1ul << bit;
        if (next * next <= square) root = next;
    }
    return pack(0u, root << 1 | (root * root != square ? 1ul : 0ul), (e - 28) / 2 - 1);
}

// ---- What kernels use

// a · b + c, rounded once.
float fused(float a, float b, float c) { return FUSES ? fma(a, b, c) : fuse_otherwise(a, b, c); }
float divide(float a, float b) { return DIVIDES ? a / b : divide_in_integers(a, b); }
float square_root(float a) { return ROOTS ? sqrt(a) : root_in_integers(a); }
// Both parts are exact; their sum is rounded once.
float float_from(int i) { return float(i >> 16) * 65536.0 + float(i & 0xffff); }

float half_to_float(uint h) {
    const uint sign = (h & 0x8000u) << 16, rest = h & 0x7fffu;
    if (rest >= 0x7c00u) return float_of(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    if (rest >= 0x400u) return float_of(sign | ((rest << 13) + 0x38000000u));
    return float_of(sign | bits_of(float(rest) * 5.9604644775390625e-8));
}
uint float_to_half(float f) {
    const uint b = bits_of(f), sign = b >> 16 & 0x8000u, rest = b & 0x7fffffffu;
    if (rest > 0x7f800000u) return sign | 0x7e00u | (rest >> 13 & 0x3ffu);
    if (rest >= 0x477ff000u) return sign | 0x7c00u;
    if (rest >= 0x38800000u) {
        const uint odd = rest >> 13 & 1u;
        return sign | (rest - 0x38000000u + 0xfffu + odd) >> 13;
    }
    // Below the smallest normal half: in units of 2^-24.
    const int shift = 126 - int(rest >> 23);
    if (shift > 24) return sign;
    const uint m = (rest & 0x7fffffu) | 0x800000u, q = m >> shift, left = m & ((1u << shift) - 1u), half_way = 1u << (shift - 1);
    return sign | (q + (left > half_way || (left == half_way && (q & 1u) != 0u) ? 1u : 0u));
}

// 12582912 = 1.5 · 2^23: adding it rounds to a whole number.
const float ROUND = 12582912.0;
int rounded(float f) { return int(bits_of(f + ROUND)) - 0x4b400000; }

// Four products of signed bytes, summed.
int dot_bytes(uint a, uint b, int sum) { return sum + dotPacked4x8EXT(int(a), int(b)); }

// Activation functions; their numbers are those of `ActivationArgs` in crates/gpu/src/args.rs.
struct Activation {
    uint kind;
    float positive, negative, slope;
};
// A norm's weights; no weight: no norm.
struct Norm {
    uint64_t weight, bias;
};
// Where a batch's tokens are.
struct BatchPlace {
    uint64_t positions, starts, header;
};
struct KvPlace {
    uint64_t memory, blocks;
    uint layer, kind, kv_heads, row_bytes;
};

#define ARGUMENTS layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Arguments
#define ARGUMENTS_HERE layout(push_constant) uniform Push { Arguments a; }
