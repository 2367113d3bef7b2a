//! Ten thousand mutants of valid files, from a fixed seed: each is refused with an error or is a file
//! whose every promise holds, in little memory, and never a panic.

mod content;
mod peak_memory;

use std::collections::HashSet;
use std::mem::discriminant;
use std::time::{Duration, Instant};

use content::{rewrite, sample};
use peak_memory::peak_of;
use strata_weights::Value;
use strata_weights::gguf::{Gguf, GgufError, GgufSet};

const MUTANTS: u64 = 10_000;

/// What a stretch of a valid file's header means.
#[derive(Copy, Clone)]
struct Field {
    at: usize,
    width: usize,
}

/// A valid file and its anatomy.
struct Seed {
    bytes: Vec<u8>,
    /// Numbers: version, counts, lengths, type ids, dimensions, offsets, values.
    numbers: Vec<Field>,
    /// Text: keys, strings, names.
    texts: Vec<Field>,
    /// Whole pairs, and whole tensor descriptions.
    entries: [Vec<Field>; 2],
    header_len: usize,
}

/// Walks a file that is known to be valid.
struct Dissector<'a> {
    bytes: &'a [u8],
    at: usize,
    numbers: Vec<Field>,
    texts: Vec<Field>,
}

impl Dissector<'_> {
    fn number(&mut self, width: usize) -> u64 {
        let field = Field { at: self.at, width };
        self.numbers.push(field);
        self.at += width;
        read(self.bytes, field)
    }

    fn text(&mut self) {
        let width = self.number(8) as usize;
        self.texts.push(Field { at: self.at, width });
        self.at += width;
    }

    fn value(&mut self, ty: u64) {
        match ty {
            0 | 1 | 7 => drop(self.number(1)),
            2 | 3 => drop(self.number(2)),
            4..=6 => drop(self.number(4)),
            10..=12 => drop(self.number(8)),
            8 => self.text(),
            _ => {
                let (element, len) = (self.number(4), self.number(8));
                (0..len).for_each(|_| self.value(element));
            }
        }
    }

    fn pair(&mut self) {
        self.text();
        let ty = self.number(4);
        self.value(ty);
    }

    fn tensor(&mut self) {
        self.text();
        for _ in 0..self.number(4) {
            self.number(8);
        }
        self.number(4);
        self.number(8);
    }
}

fn read(bytes: &[u8], field: Field) -> u64 {
    let mut value = [0; 8];
    value[..field.width].copy_from_slice(&bytes[field.at..field.at + field.width]);
    u64::from_le_bytes(value)
}

fn dissect(bytes: Vec<u8>) -> Seed {
    let mut walk = Dissector {
        bytes: &bytes,
        at: 4,
        numbers: Vec::new(),
        texts: Vec::new(),
    };
    walk.number(4);
    let counts = [walk.number(8), walk.number(8)];
    let mut entries = [Vec::new(), Vec::new()];
    for (kind, count) in [(0, counts[1]), (1, counts[0])] {
        for _ in 0..count {
            let at = walk.at;
            if kind == 0 {
                walk.pair();
            } else {
                walk.tensor();
            };
            entries[kind].push(Field {
                at,
                width: walk.at - at,
            });
        }
    }
    let Dissector {
        at: header_len,
        numbers,
        texts,
        ..
    } = walk;
    Seed {
        bytes,
        numbers,
        texts,
        entries,
        header_len,
    }
}

/// Marsaglia's xorshift64*.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn pick<'i, T>(&mut self, items: &'i [T]) -> Option<&'i T> {
        items.get(self.below(items.len()))
    }

    /// A number that parsers get wrong, or one near the number that was there.
    fn nasty(&mut self, was: u64) -> u64 {
        match self.below(8) {
            0 => self.below(48) as u64,
            1 => 1 << self.below(64),
            2 => (1u64 << self.below(64)).wrapping_sub(1),
            3 => u64::MAX - self.below(64) as u64,
            4 => (u64::MAX / [2, 4, 8, 14, 33][self.below(5)]).wrapping_add(self.below(3) as u64),
            5 => was.wrapping_add(self.below(5) as u64).wrapping_sub(2),
            6 => was.wrapping_mul(2 + self.below(3) as u64),
            _ => self.next(),
        }
    }
}

fn write(bytes: &mut [u8], field: Field, value: u64) {
    if let Some(place) = bytes.get_mut(field.at..field.at + field.width) {
        place.copy_from_slice(&value.to_le_bytes()[..field.width]);
    }
}

/// Applies one change. Later changes may miss their mark in a file that an earlier one shifted; so much the better.
fn mutate(rng: &mut Rng, seed: &Seed, others: &[Seed], bytes: &mut Vec<u8>) {
    match rng.below(12) {
        0..=4 => {
            let Some(&field) = rng.pick(&seed.numbers) else {
                return;
            };
            let value = rng.nasty(read(&seed.bytes, field));
            write(bytes, field, value);
        }
        5 => {
            let (Some(&to), Some(&from)) = (rng.pick(&seed.numbers), rng.pick(&seed.numbers))
            else {
                return;
            };
            write(bytes, to, read(&seed.bytes, from));
        }
        6 => {
            let Some(&text) = rng.pick(&seed.texts) else {
                return;
            };
            let at = text.at + rng.below(text.width);
            if let Some(byte) = bytes.get_mut(at) {
                *byte = rng.next() as u8;
            }
        }
        7 => repeat_entry(rng, seed, bytes),
        8 => bytes.truncate(rng.below(bytes.len())),
        9 => {
            let at = rng.below(bytes.len().min(seed.header_len));
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << rng.below(8);
            }
        }
        10 => {
            let at = rng.below(bytes.len());
            let end = (at + rng.below(24)).min(bytes.len());
            bytes.drain(at..end);
        }
        _ => {
            let Some(donor) = rng.pick(others) else {
                return;
            };
            let from = rng.below(donor.bytes.len());
            let end = (from + rng.below(64)).min(donor.bytes.len());
            let at = rng.below(bytes.len().min(seed.header_len));
            bytes.splice(at..at, donor.bytes[from..end].iter().copied());
        }
    }
}

/// Puts a copy of a pair or tensor description behind it, and counts it; half of the time with another name.
fn repeat_entry(rng: &mut Rng, seed: &Seed, bytes: &mut Vec<u8>) {
    let kind = rng.below(2);
    let Some(&entry) = rng.pick(&seed.entries[kind]) else {
        return;
    };
    let end = entry.at + entry.width;
    if end > bytes.len() {
        return;
    }
    let mut copy = seed.bytes[entry.at..end].to_vec();
    if rng.below(2) == 0 {
        copy[8] = b'A' + rng.below(26) as u8;
    }
    bytes.splice(end..end, copy);
    let count = Field {
        at: if kind == 0 { 16 } else { 8 },
        width: 8,
    };
    let counted = read(bytes, count).wrapping_add(1);
    write(bytes, count, counted);
}

/// Looks at everything in a file that was accepted.
fn walk(file: &[u8], gguf: &Gguf<'_>) {
    for (key, value) in gguf.metadata().iter() {
        assert!(
            gguf.metadata()
                .get(key)
                .is_some_and(|found| same(found, value))
        );
        if let Value::Array(array) = value {
            assert_eq!(array.iter().count(), array.len());
            assert!(
                array
                    .iter()
                    .all(|element| element.value_type() == array.element_type())
            );
        }
    }
    let base = gguf.data_offset();
    assert_eq!(base % gguf.alignment(), 0);
    let mut extents = Vec::new();
    for tensor in gguf.tensors() {
        assert_eq!(
            gguf.tensor(tensor.name).map(|found| found.offset),
            Some(tensor.offset)
        );
        assert_eq!(tensor.offset % gguf.alignment(), 0);
        let blocks = tensor.dims.iter().product::<u64>() / tensor.ty.block_len() as u64;
        assert_eq!(
            tensor.data.len() as u64,
            blocks * tensor.ty.block_bytes() as u64
        );
        let start = (base + tensor.offset) as usize;
        assert_eq!(tensor.data, &file[start..start + tensor.data.len()]);
        extents.push((start, start + tensor.data.len()));
    }
    extents.sort_unstable();
    assert!(
        extents.windows(2).all(|pair| pair[0].1 <= pair[1].0),
        "tensors overlap"
    );
}

fn same(a: Value<'_>, b: Value<'_>) -> bool {
    match (a, b) {
        (Value::F32(a), Value::F32(b)) => a.to_bits() == b.to_bits(),
        (Value::F64(a), Value::F64(b)) => a.to_bits() == b.to_bits(),
        _ => a == b,
    }
}

/// The writer takes what the reader took, and the reader gives it back.
fn check_rewritten(gguf: &Gguf<'_>) {
    let file = rewrite(gguf);
    let again = Gguf::parse(&file).expect("what was written can be read");
    assert_eq!(again.alignment(), gguf.alignment());
    assert_eq!(again.metadata().len(), gguf.metadata().len());
    let pairs = again.metadata().iter().zip(gguf.metadata().iter());
    assert!(pairs.into_iter().all(|(a, b)| a.0 == b.0 && same(a.1, b.1)));
    assert_eq!(again.tensors().len(), gguf.tensors().len());
    for (a, b) in again.tensors().iter().zip(gguf.tensors()) {
        assert_eq!(
            (a.name, a.ty, a.dims, a.data),
            (b.name, b.ty, b.dims, b.data)
        );
    }
}

#[test]
fn mutants_are_refused_or_sound() {
    let names = [
        "all_types.gguf",
        "aligned_8.gguf",
        "aligned_256.gguf",
        "vocabulary.gguf",
        "split-00001-of-00003.gguf",
        "split-00002-of-00003.gguf",
    ];
    let seeds: Vec<Seed> = names.iter().map(|name| dissect(sample(name))).collect();
    let rest = ["split-00002-of-00003.gguf", "split-00003-of-00003.gguf"].map(sample);
    let mut rng = Rng(0x5eed_0f5e_ed0f_5eed);
    let (mut accepted, mut errors) = (0, HashSet::new());
    for round in 0..MUTANTS {
        let seed = &seeds[round as usize % seeds.len()];
        let mut file = seed.bytes.clone();
        for _ in 0..1 + rng.below(3) {
            mutate(&mut rng, seed, &seeds, &mut file);
        }
        let start = Instant::now();
        let (result, peak) = peak_of(|| Gguf::parse(&file));
        assert!(
            start.elapsed() < Duration::from_secs(1),
            "mutant {round} took {:?}",
            start.elapsed()
        );
        assert!(
            peak <= 16 * file.len() + 1024,
            "mutant {round} took {peak} bytes"
        );
        match result {
            Ok(gguf) => {
                accepted += 1;
                walk(&file, &gguf);
                check_rewritten(&gguf);
                let mut parts = vec![gguf];
                let _ = GgufSet::new(parts.clone());
                parts.extend(rest.iter().filter_map(|file| Gguf::parse(file).ok()));
                let _ = GgufSet::new(parts);
            }
            Err(error) => {
                assert!(error.to_string().len() < 400);
                errors.insert(discriminant::<GgufError>(&error));
            }
        }
    }
    // The mutants must neither all die at the door nor all live.
    eprintln!(
        "{accepted} of {MUTANTS} mutants accepted, {} kinds of error",
        errors.len()
    );
    assert!((500..9_000).contains(&accepted), "{accepted} accepted");
    assert!(errors.len() >= 18, "{} kinds of error", errors.len());
}
