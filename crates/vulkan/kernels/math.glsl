// Elementary functions of the contract (crates/kernels/src/math.rs, vector.rs): the same operations in the same order.

float greater(float x, float y) { return x > y ? x : y; }
float lesser(float x, float y) { return x < y ? x : y; }
float power_of_2(int n) { return float_of(uint(n + 127) << 23); }

float exponential(float x) {
    x = greater(-104.0, lesser(89.0, x));
    const float whole = fused(x, 1.44269504088896340736, ROUND), n = whole - ROUND;
    float r = fused(-n, 0.693147180559945309417, x);
    r = fused(-n, -1.9046543e-9, r);
    float tail = 0.0013951717;
    tail = fused(tail, r, 0.008369599);
    tail = fused(tail, r, 0.041666187);
    tail = fused(tail, r, 0.16666512);
    tail = fused(tail, r, 0.5);
    const float y = fused(tail, r * r, r) + 1.0;
    const int power = int(bits_of(whole)) - 0x4b400000, part = power >> 1;
    return (y * power_of_2(part)) * power_of_2(power - part);
}

// Most differences between maxima are 0, whose power is 1 exactly.
float exponential_of_difference(float x) { return x == 0.0 ? 1.0 : exponential(x - 0.0); }

float with_sign(float m, float x) { return float_of(bits_of(m) | (bits_of(x) & 0x80000000u)); }
float magnitude(float x) { return float_of(bits_of(x) & 0x7fffffffu); }

float hyperbolic_tangent(float x) {
    const float m = magnitude(x), z = x * x;
    float tail = 0.0020977182;
    tail = fused(tail, z, -0.008128997);
    tail = fused(tail, z, 0.021681642);
    tail = fused(tail, z, -0.0539434);
    tail = fused(tail, z, 0.1333318);
    tail = fused(tail, z, -0.3333333);
    const float near = fused(tail * z, x, x);
    const float e = exponential(m + m), far = 1.0 - divide(2.0, e + 1.0);
    return m < 0.625 ? near : with_sign(far, x);
}

float error_function(float x) {
    const float m = magnitude(x), z = x * x;
    float tail = 7.889119e-5;
    tail = fused(tail, z, -0.0008020841);
    tail = fused(tail, z, 0.005189535);
    tail = fused(tail, z, -0.026854444);
    tail = fused(tail, z, 0.112836);
    tail = fused(tail, z, -0.37612626);
    tail = fused(tail, z, 0.12837917);
    const float near = fused(tail, x, x);
    const float b = lesser(4.0, m);
    float power = 0.0001855749;
    power = fused(power, b, -0.0029396159);
    power = fused(power, b, 0.021805352);
    power = fused(power, b, -0.10303744);
    power = fused(power, b, -0.6382256);
    power = fused(power, b, -1.12704);
    power = fused(power, b, -0.00035370892);
    const float far = 1.0 - exponential(power);
    return m < 1.0 ? near : with_sign(far, x);
}

float sigmoid(float x) { return divide(1.0, 1.0 + exponential(-0.0 - x)); }

float soft_cap(float x, float cap, float inverse) { return cap * hyperbolic_tangent(x * inverse); }

float activate(Activation f, float x) {
    switch (f.kind) {
    case 0: return x * sigmoid(x);
    case 1: {
        const float inner = (0.7978846 * x) * fused(0.044715, x * x, 1.0);
        return (0.5 * x) * (1.0 + hyperbolic_tangent(inner));
    }
    case 2: return (0.5 * x) * (1.0 + error_function(x * 0.707106781186547524400));
    case 3: return x * sigmoid(x * 1.702);
    case 4: return greater(0.0, x);
    case 5: {
        const float positive = greater(0.0, x);
        return positive * positive;
    }
    case 6: return sigmoid(x);
    case 7: return hyperbolic_tangent(x);
    case 8: {
        const float y = lesser(7.0, x);
        return y * sigmoid(y * 1.702);
    }
    default: {
        const float above = greater(0.0, x), below = lesser(0.0, x);
        const float bent = (exponential(below) - 1.0) - below;
        const float line = fused(f.negative, bent, f.slope * x);
        return fused(f.positive * above, above, line);
    }
    }
}

// What the activated gate multiplies.
float gated(Activation f, float gate, float up) {
    const float y = activate(f, gate);
    if (f.kind != 8) return y * up;
    const float clamped = up < -7.0 ? -7.0 : up > 7.0 ? 7.0 : up;
    return y * (clamped + 1.0);
}
