//! Half floats and scale bytes, over all their patterns, against arithmetic in f64.

use strata_quant::number::{BF16, E8M0, F16, UE4M3};

/// What IEEE says a pattern with these field widths means, without NaN and infinity.
fn meaning(bits: u16, mantissa_bits: u32, bias: i32) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let mantissa = f64::from(bits & ((1 << mantissa_bits) - 1)) / f64::from(1 << mantissa_bits);
    match i32::from((bits & 0x7fff) >> mantissa_bits) {
        0 => sign * mantissa * 2f64.powi(1 - bias),
        exponent => sign * (1.0 + mantissa) * 2f64.powi(exponent - bias),
    }
}

#[test]
fn every_f16_has_its_value_and_comes_back() {
    for bits in 0..=u16::MAX {
        let value = F16::from_bits(bits).to_f32();
        match bits & 0x7fff {
            0x7c00 => assert!(value.is_infinite() && value.is_sign_negative() == (bits >> 15 == 1)),
            0x7c01.. => {
                assert!(value.is_nan());
                // Quiet, with the payload kept.
                assert_eq!(F16::from_f32(value).to_bits(), bits | 0x200);
                continue;
            }
            _ => assert_eq!(f64::from(value), meaning(bits, 10, 15), "{bits:#x}"),
        }
        assert_eq!(value.is_sign_negative(), bits >> 15 == 1, "{bits:#x}");
        assert_eq!(F16::from_f32(value).to_bits(), bits, "{bits:#x}");
    }
}

#[test]
fn every_bf16_has_its_value_and_comes_back() {
    for bits in 0..=u16::MAX {
        let value = BF16::from_bits(bits).to_f32();
        match bits & 0x7fff {
            0x7f80 => assert!(value.is_infinite()),
            0x7f81.. => {
                assert!(value.is_nan());
                assert_eq!(BF16::from_f32(value).to_bits(), bits | 0x40);
                continue;
            }
            _ => assert_eq!(f64::from(value), meaning(bits, 7, 127), "{bits:#x}"),
        }
        assert_eq!(BF16::from_f32(value).to_bits(), bits, "{bits:#x}");
    }
}

/// Between each two neighbours: the middle goes to the even one, and what is just beside it to the nearer one.
fn check_rounding(infinity: u16, to_f32: fn(u16) -> f32, from_f32: fn(f32) -> u16) {
    for low in 0..infinity - 1 {
        let (a, b) = (to_f32(low), to_f32(low + 1));
        let middle = ((f64::from(a) + f64::from(b)) / 2.0) as f32;
        let even = low + (low & 1);
        for sign in [0, 0x8000] {
            let signed = |x: f32| if sign == 0 { x } else { -x };
            assert_eq!(from_f32(signed(middle)), even | sign, "{low:#x}");
            assert_eq!(from_f32(signed(middle.next_down())), low | sign, "{low:#x}");
            assert_eq!(
                from_f32(signed(middle.next_up())),
                (low + 1) | sign,
                "{low:#x}"
            );
        }
    }
    // Half a step beyond the largest is the first that becomes infinite.
    let largest = to_f32(infinity - 1);
    let half_step = f64::from(largest - to_f32(infinity - 2)) / 2.0;
    let edge = (f64::from(largest) + half_step) as f32;
    assert_eq!(from_f32(edge), infinity);
    assert_eq!(from_f32(edge.next_down()), infinity - 1);
    assert_eq!(from_f32(f32::MAX), infinity);
    assert_eq!(from_f32(f32::NEG_INFINITY), infinity | 0x8000);
    assert_eq!(from_f32(f32::from_bits(1)), 0);
    assert_eq!(from_f32(-f32::from_bits(1)), 0x8000);
}

#[test]
fn f16_rounds_to_nearest_even() {
    check_rounding(
        0x7c00,
        |bits| F16::from_bits(bits).to_f32(),
        |x| F16::from_f32(x).to_bits(),
    );
}

#[test]
fn bf16_rounds_to_nearest_even() {
    check_rounding(
        0x7f80,
        |bits| BF16::from_bits(bits).to_f32(),
        |x| BF16::from_f32(x).to_bits(),
    );
}

#[test]
fn scale_bytes_have_their_values() {
    for byte in 0..=255u8 {
        let half = 2f64.powi(i32::from(byte) - 128);
        assert_eq!(f64::from(E8M0(byte).to_f32_half()), half, "{byte}");
        let expected = if byte == 0x7f {
            0.0
        } else {
            meaning(u16::from(byte & 0x7f), 3, 7) / 2.0
        };
        assert_eq!(f64::from(UE4M3(byte).to_f32_half()), expected, "{byte}");
    }
    assert_eq!(UE4M3::MAX.to_f32_half(), 224.0);
}
