// Elementary functions of the contract (crates/kernels/src/math.rs, vector.rs): the same operations in the same order.
#pragma once
#include "device.cuh"

DEVICE float greater(float a, float b) { return a > b ? a : b; }
DEVICE float lesser(float a, float b) { return a < b ? a : b; }

DEVICE float power_of_2(int n) { return float_of(uint32_t(n + 127) << 23); }

DEVICE float exponential(float x) {
    const float round = 12582912.0f;
    x = greater(-104.0f, lesser(89.0f, x));
    const float rounded = fmaf(x, 1.44269504088896340736f, round), n = rounded - round;
    float r = fmaf(-n, 0.693147180559945309417f, x);
    r = fmaf(-n, -1.9046543e-9f, r);
    float tail = 0.0013951717f;
    tail = fmaf(tail, r, 0.008369599f);
    tail = fmaf(tail, r, 0.041666187f);
    tail = fmaf(tail, r, 0.16666512f);
    tail = fmaf(tail, r, 0.5f);
    const float y = fmaf(tail, r * r, r) + 1.0f;
    const int whole = int(bits_of(rounded)) - 0x4b400000, half = whole >> 1;
    return (y * power_of_2(half)) * power_of_2(whole - half);
}

// Most differences between maxima are 0, whose power is 1 exactly.
DEVICE float exponential_of_difference(float x) { return x == 0.0f ? 1.0f : exponential(x - 0.0f); }

DEVICE float with_sign(float a, float x) { return float_of(bits_of(a) | (bits_of(x) & 0x80000000u)); }
DEVICE float magnitude(float x) { return float_of(bits_of(x) & 0x7fffffffu); }

DEVICE float hyperbolic_tangent(float x) {
    const float a = magnitude(x), z = x * x;
    float tail = 0.0020977182f;
    tail = fmaf(tail, z, -0.008128997f);
    tail = fmaf(tail, z, 0.021681642f);
    tail = fmaf(tail, z, -0.0539434f);
    tail = fmaf(tail, z, 0.1333318f);
    tail = fmaf(tail, z, -0.3333333f);
    const float near = fmaf(tail * z, x, x);
    const float e = exponential(a + a), far = 1.0f - divide(2.0f, e + 1.0f);
    return a < 0.625f ? near : with_sign(far, x);
}

DEVICE float error_function(float x) {
    const float a = magnitude(x), z = x * x;
    float tail = 7.889119e-5f;
    tail = fmaf(tail, z, -0.0008020841f);
    tail = fmaf(tail, z, 0.005189535f);
    tail = fmaf(tail, z, -0.026854444f);
    tail = fmaf(tail, z, 0.112836f);
    tail = fmaf(tail, z, -0.37612626f);
    tail = fmaf(tail, z, 0.12837917f);
    const float near = fmaf(tail, x, x);
    const float b = lesser(4.0f, a);
    float log = 0.0001855749f;
    log = fmaf(log, b, -0.0029396159f);
    log = fmaf(log, b, 0.021805352f);
    log = fmaf(log, b, -0.10303744f);
    log = fmaf(log, b, -0.6382256f);
    log = fmaf(log, b, -1.12704f);
    log = fmaf(log, b, -0.00035370892f);
    const float far = 1.0f - exponential(log);
    return a < 1.0f ? near : with_sign(far, x);
}

DEVICE float sigmoid(float x) { return divide(1.0f, 1.0f + exponential(-0.0f - x)); }

DEVICE float soft_cap(float x, float cap, float inverse) { return cap * hyperbolic_tangent(x * inverse); }

// The numbers are those of `Activation` in src/args.rs.
struct ActivationArgs {
    uint32_t kind;
    float positive, negative, slope;
};

DEVICE float activate(const ActivationArgs &f, float x) {
    switch (f.kind) {
    case 0: return x * sigmoid(x);
    case 1: {
        const float inner = (0.7978846f * x) * fmaf(0.044715f, x * x, 1.0f);
        return (0.5f * x) * (1.0f + hyperbolic_tangent(inner));
    }
    case 2: return (0.5f * x) * (1.0f + error_function(x * 0.707106781186547524400f));
    case 3: return x * sigmoid(x * 1.702f);
    case 4: return greater(0.0f, x);
    case 5: {
        const float positive = greater(0.0f, x);
        return positive * positive;
    }
    case 6: return sigmoid(x);
    case 7: return hyperbolic_tangent(x);
    case 8: {
        const float y = lesser(7.0f, x);
        return y * sigmoid(y * 1.702f);
    }
    default: {
        const float above = greater(0.0f, x), below = lesser(0.0f, x);
        const float bent = (exponential(below) - 1.0f) - below;
        const float line = fmaf(f.negative, bent, f.slope * x);
        return fmaf(f.positive * above, above, line);
    }
    }
}

// What the activated gate multiplies.
DEVICE float gated(const ActivationArgs &f, float gate, float up) {
    const float y = activate(f, gate);
    if (f.kind != 8) return y * up;
    const float clamped = up < -7.0f ? -7.0f : up > 7.0f ? 7.0f : up;
    return y * (clamped + 1.0f);
}
