//! What is chosen for speed never shows in a result. A program of its own, because choices hold for a whole process.

mod support;

use std::sync::{Mutex, MutexGuard, PoisonError};
use strata_kernels::{
    ActFormat, ActRows, Choice, CpuFeatures, Isa, Kernels, Panels, TileMut, Tiles, act_format,
};
use strata_quant::GgmlType;
use support::{Random, assert_same, others, pack, quantize, sane_rows, scalar};

/// Tests that choose take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A matrix and tokens to multiply.
struct Case {
    ty: GgmlType,
    rows: usize,
    cols: usize,
    w: Vec<u8>,
    x: Vec<u8>,
}

impl Case {
    fn new(random: &mut Random, ty: GgmlType, rows: usize, cols: usize, tokens: usize) -> Self {
        let w = pack(ty, rows, cols, &sane_rows(random, ty, rows, cols));
        let x = random.floats(tokens * cols);
        let x = quantize(scalar(), act_format(ty), cols, &x);
        Self {
            ty,
            rows,
            cols,
            w,
            x,
        }
    }

    fn multiply(&self, kernels: &Kernels) -> Vec<f32> {
        let x = ActRows::new(act_format(self.ty), self.cols, &self.x);
        let mut out = vec![f32::NAN; x.tokens() * self.rows];
        let tile = TileMut::from_slice(&mut out, x.tokens(), self.rows);
        kernels.matmul(Panels::new(self.ty, self.rows, self.cols, &self.w), x, tile);
        out
    }
}

/// Types in integer blocks.
fn integer_types() -> impl Iterator<Item = GgmlType> {
    let all = GgmlType::ALL.iter().copied();
    all.filter(|&ty| strata_kernels::is_packed(ty) && act_format(ty) != ActFormat::F32)
}

#[test]
fn every_choice_gives_the_same_bits() {
    let _turn = turn();
    let mut random = Random::new(21);
    for ty in integer_types().chain([GgmlType::F16]) {
        for tokens in [1, 8, 19] {
            let case = Case::new(&mut random, ty, 35, 17 * 256, tokens);
            let expected = case.multiply(scalar());
            for kernels in others() {
                for choice in 0..Choice::DISTANCES.len() {
                    let chosen = Choice {
                        distance: Choice::DISTANCES[choice],
                        pass: Choice::PASSES[choice % 2],
                        resident_kib: Choice::RESIDENTS_KIB[choice],
                        ..Choice::default()
                    };
                    kernels.policy().set(ty, chosen);
                    assert_eq!(kernels.policy().get(ty), chosen);
                    let what = format!("{ty}, {tokens} tokens, {chosen:?}, {}", kernels.isa());
                    assert_same(&case.multiply(kernels), &expected, &what);
                }
                kernels.policy().set(ty, Choice::default());
            }
        }
    }
}

#[test]
fn choices_out_of_range_are_kept_within() {
    let _turn = turn();
    let policy = scalar().policy();
    let wild = Choice {
        distance: usize::MAX,
        pass: 0,
        resident_kib: 0,
        tiles_from: usize::MAX,
    };
    policy.set(GgmlType::Q4_0, wild);
    let kept = policy.get(GgmlType::Q4_0);
    assert_eq!((kept.pass, kept.resident_kib), (1, 1));
    assert_eq!(kept.tiles_from, Choice::NEVER);
    let case = Case::new(&mut Random::new(22), GgmlType::Q4_0, 17, 64, 5);
    let tight = case.multiply(scalar());
    policy.set(GgmlType::Q4_0, Choice::default());
    assert_same(&case.multiply(scalar()), &tight, "one token at a time");
}

#[test]
fn tiles_give_the_same_bits() {
    let _turn = turn();
    let mut random = Random::new(23);
    let mut units = vec![(scalar(), Tiles::Emulated)];
    if let Some(kernels) = Kernels::for_isa(Isa::Avx512Vnni) {
        units.extend([(kernels, Tiles::Emulated), (kernels, Tiles::Amx)]);
    }
    for ty in integer_types() {
        let shapes = [
            (16, 256, 16),
            (1, 256, 17),
            (33, 512, 31),
            (24, 1280, 33),
            (80, 2304, 50),
        ];
        for (rows, cols, tokens) in shapes {
            let case = Case::new(&mut random, ty, rows, cols, tokens);
            let expected = case.multiply(scalar());
            for &(kernels, tiles) in &units {
                let from = Choice {
                    tiles_from: 16,
                    ..Choice::default()
                };
                kernels.policy().set(ty, from);
                if kernels.use_tiles(tiles) == tiles {
                    let what = format!("{ty} {rows} × {cols}, {tokens} tokens, {tiles:?}");
                    assert_same(&case.multiply(kernels), &expected, &what);
                }
                kernels.use_tiles(Tiles::Off);
                kernels.policy().set(ty, Choice::default());
            }
        }
    }
}

#[test]
fn tiles_of_extreme_numbers_give_the_same_bits() {
    let _turn = turn();
    let kernels = Kernels::for_isa(Isa::Avx512Vnni).unwrap_or(scalar());
    let mut random = Random::new(24);
    for ty in integer_types() {
        for fill in [0x00, 0x7f, 0x80, 0xff] {
            let mut case = Case::new(&mut random, ty, 32, 512, 32);
            let bytes = vec![fill; case.w.len()];
            case.w = bytes;
            let expected = case.multiply(scalar());
            kernels.use_tiles(Tiles::Emulated);
            let got = case.multiply(kernels);
            kernels.use_tiles(Tiles::Off);
            assert_same(&got, &expected, &format!("{ty} of {fill:#x}"));
        }
        let mut case = Case::new(&mut random, ty, 32, 512, 32);
        let mut x = random.floats(32 * 512);
        (x[3], x[700]) = (f32::NAN, f32::INFINITY);
        x[1024..1536].fill(1e-42);
        case.x = quantize(scalar(), act_format(ty), 512, &x);
        let expected = case.multiply(scalar());
        kernels.use_tiles(Tiles::Emulated);
        let got = case.multiply(kernels);
        kernels.use_tiles(Tiles::Off);
        assert_same(&got, &expected, &format!("{ty} with what is not finite"));
    }
}

#[test]
fn amx_is_used_only_where_it_can_be() {
    let _turn = turn();
    for kernels in others() {
        let got = kernels.use_tiles(Tiles::Amx);
        if !CpuFeatures::detect().has_amx() || kernels.isa() != Isa::Avx512Vnni {
            assert_eq!(got, Tiles::Off, "{}", kernels.isa());
        }
        assert_eq!(kernels.policy().tiles(), got);
        kernels.use_tiles(Tiles::Off);
    }
    if !CpuFeatures::detect().has_amx() {
        eprintln!("skipped: this processor has no AMX");
    }
}
