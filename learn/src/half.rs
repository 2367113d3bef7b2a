//! Half-precision floats, from their bits and back.

// ANCHOR: power_of_2
/// 2^exponent, for exponents from -126 to 127: the exponent bits of an f32 and nothing else.
pub fn power_of_2(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << 23)
}
// ANCHOR_END: power_of_2

// ANCHOR: f16_to_f32
/// The value of a half float. Every one of them is an f32 too, so nothing is rounded.
pub fn f16_to_f32(bits: u16) -> f32 {
    let exponent = i32::from(bits >> 10 & 31);
    let fraction = f32::from(bits & 1023);
    let magnitude = match exponent {
        0 => fraction * power_of_2(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1024.0 + fraction) * power_of_2(exponent - 25),
    };
    if bits & 0x8000 == 0 {
        magnitude
    } else {
        -magnitude
    }
}
// ANCHOR_END: f16_to_f32

// ANCHOR: f32_to_f16
/// The half float nearest to a number; of two equally near, the even one.
pub fn f32_to_f16(x: f32) -> u16 {
    let sign = (x.to_bits() >> 16) as u16 & 0x8000;
    let magnitude = x.abs();
    if x.is_nan() {
        return sign | 0x7e00;
    }
    if magnitude >= 65520.0 {
        return sign | 0x7c00; // infinity
    }
    if magnitude < power_of_2(-14) {
        // Below the normal half floats the step is 2^-24.
        return sign | (magnitude * power_of_2(24)).round_ties_even() as u16;
    }
    let bits = magnitude.to_bits();
    // 13 bits of the fraction go. A carry runs into the exponent, where it belongs.
    let rounded = bits + 0x0fff + (bits >> 13 & 1);
    // The exponent counts from -15 instead of -127.
    sign | ((rounded >> 13) - (112 << 10)) as u16
}
// ANCHOR_END: f32_to_f16
