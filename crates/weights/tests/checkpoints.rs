//! Checkpoints of other people: safetensors and PyTorch files, right, wrong, and broken in ten thousand ways.

mod peak_memory;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use peak_memory::peak_of;
use strata_weights::safetensors::{self, SafetensorsError};
use strata_weights::torch::{self, PickleError, TorchError, ZipError};
use strata_weights::{CheckpointTensor, Dtype, ReadError};

const MUTANTS: u64 = 5_000;
const ROOM: usize = 64 << 20;

fn torch_file(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/torch_files");
    std::fs::read(folder.join(name)).unwrap()
}

fn safetensors_file(header: &str, data: &[u8]) -> Vec<u8> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(data);
    file
}

fn good_safetensors() -> Vec<u8> {
    let header = r#"{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b\n":{"dtype":"BF16","shape":[2],"data_offsets":[24,28]},"e":{"dtype":"F16","shape":[0,4],"data_offsets":[28,28]},"i":{"dtype":"I64","shape":[],"data_offsets":[28,36]}}"#;
    let floats = [1.0f32, 2.0, 3.0, -4.0, 5.5, 6.0];
    let mut data: Vec<u8> = floats.iter().flat_map(|x| x.to_le_bytes()).collect();
    data.extend([0x80, 0x3f, 0x00, 0xc0, 7, 0, 0, 0, 0, 0, 0, 0]);
    safetensors_file(header, &data)
}

fn values(tensor: &CheckpointTensor<'_>) -> Result<Vec<f32>, ReadError> {
    let rows = tensor.rows()?;
    let mut all = Vec::new();
    let mut row = vec![0.0; rows.columns()];
    for index in 0..rows.len() {
        rows.read(index, &mut row).expect("a row of a parsed file");
        all.extend_from_slice(&row);
    }
    assert_eq!(rows.read(rows.len(), &mut row), None);
    Ok(all)
}

fn named<'t, 'a>(tensors: &'t [CheckpointTensor<'a>], name: &str) -> &'t CheckpointTensor<'a> {
    tensors.iter().find(|tensor| tensor.name == name).unwrap()
}

#[test]
fn safetensors_are_read() {
    let file = good_safetensors();
    let tensors = safetensors::parse(&file).unwrap();
    let names: Vec<&str> = tensors.iter().map(|tensor| &*tensor.name).collect();
    assert_eq!(names, ["a", "b\n", "e", "i"]);
    assert_eq!(
        values(&tensors[0]).unwrap(),
        [1.0, 2.0, 3.0, -4.0, 5.5, 6.0]
    );
    assert_eq!(values(&tensors[1]).unwrap(), [1.0, -2.0]);
    assert!(matches!(values(&tensors[2]), Err(ReadError::Empty { .. })));
    assert!(matches!(
        values(&tensors[3]),
        Err(ReadError::NotFloats {
            dtype: Dtype::I64,
            ..
        })
    ));
}

#[test]
fn lying_safetensors_headers_are_refused() {
    type E = SafetensorsError;
    let one = |entry: &str, len: usize| {
        let file = safetensors_file(&format!("{{\"a\":{entry}}}"), &vec![0; len]);
        safetensors::parse(&file).unwrap_err()
    };
    let at = |shape: &str, offsets: &str| {
        format!(r#"{{"dtype":"F32","shape":{shape},"data_offsets":{offsets}}}"#)
    };
    assert!(matches!(one(&at("[2]", "[0,4]"), 4), E::Length { .. }));
    assert!(matches!(one(&at("[2]", "[8,0]"), 8), E::Length { .. }));
    assert!(matches!(one(&at("[1]", "[4,8]"), 8), E::Gap { .. }));
    assert!(matches!(one(&at("[2]", "[0,8]"), 4), E::DataLength { .. }));
    assert!(matches!(one(&at("[1]", "[0,4]"), 8), E::DataLength { .. }));
    let huge = "[18446744073709551615,2]";
    assert!(matches!(one(&at(huge, "[0,4]"), 4), E::Overflow { .. }));
    let deep = "[1,1,1,1,1,1,1,1,1,1]";
    assert!(matches!(one(&at(deep, "[0,4]"), 4), E::DimCount { .. }));
    let odd = r#"{"dtype":"F31","shape":[1],"data_offsets":[0,4]}"#;
    assert!(matches!(one(odd, 4), E::UnknownType { .. }));
    for bad in [
        "1",
        "{}",
        &at("[-1]", "[0,4]"),
        &at("[1.5]", "[0,4]"),
        &at("[1]", "[0]"),
    ] {
        assert!(matches!(one(bad, 4), E::Json { .. }), "{bad}");
    }
    let twice = format!("{{\"a\":{0},\"a\":{0}}}", at("[1]", "[0,4]"));
    let error = safetensors::parse(&safetensors_file(&twice, &[0; 4])).unwrap_err();
    assert!(matches!(error, E::DuplicateTensor { .. }));
    let overlap = format!(
        "{{\"a\":{},\"b\":{}}}",
        at("[2]", "[0,8]"),
        at("[1]", "[4,8]")
    );
    let error = safetensors::parse(&safetensors_file(&overlap, &[0; 8])).unwrap_err();
    assert!(matches!(error, E::Gap { .. }));
    for claimed in [9, u64::MAX, 1 << 62] {
        let mut file = claimed.to_le_bytes().to_vec();
        file.extend(b"{}");
        let error = safetensors::parse(&file).unwrap_err();
        assert!(matches!(error, E::HeaderLength { .. }), "{error}");
    }
    assert!(matches!(safetensors::parse(b"{}"), Err(E::TooShort { .. })));
    let nested = "[".repeat(1 << 20);
    let error = safetensors::parse(&safetensors_file(&nested, &[])).unwrap_err();
    assert!(matches!(error, E::Json { .. }), "{error}");
}

#[test]
fn many_small_tensors_take_little_memory() {
    let entries: Vec<String> = (0..200_000)
        .map(|i| {
            format!(r#""{i}":{{"dtype":"U8","shape":[0,1,1,1,1,1,1,1],"data_offsets":[0,0]}}"#)
        })
        .collect();
    let file = safetensors_file(&format!("{{{}}}", entries.join(",")), &[]);
    let (result, peak) = peak_of(|| safetensors::parse(&file).map(|tensors| tensors.len()));
    assert_eq!(result, Err(SafetensorsError::TooManyTensors));
    assert!(peak <= file.len() + ROOM, "{peak} bytes");
}

#[test]
fn pytorch_files_are_read_with_all_their_strides() {
    let expected: serde_json::Value = serde_json::from_slice(&torch_file("expected.json")).unwrap();
    let expected = expected.as_object().unwrap();
    for name in ["good.bin", "deflated.bin"] {
        let file = torch_file(name);
        let tensors = torch::parse(&file).unwrap();
        assert_eq!(tensors.len(), expected.len(), "{name}");
        for (key, want) in expected {
            let tensor = named(&tensors, key);
            let shape: Vec<u64> = serde_json::from_value(want["shape"].clone()).unwrap();
            assert_eq!(tensor.shape, shape, "{name} {key}");
            let want: Vec<f32> = serde_json::from_value(want["values"].clone()).unwrap();
            match values(tensor) {
                Ok(values) => assert_eq!(values, want, "{name} {key}"),
                Err(error) => assert!(["integers", "empty"].contains(&key.as_str()), "{error}"),
            }
        }
        let [plain, shared] = ["plain", "shared"].map(|key| named(&tensors, key).plain());
        assert_eq!(plain, shared);
    }
}

#[test]
fn maps_inside_a_trainers_map_are_found() {
    let file = torch_file("nested.bin");
    let tensors = torch::parse(&file).unwrap();
    assert_eq!(tensors.len(), 1);
    assert_eq!(values(&tensors[0]).unwrap(), [1.0, 1.0]);
}

#[test]
fn pickles_that_call_anything_are_refused_by_name() {
    for (name, module, function) in [
        ("bad_call.bin", "posix", "system"),
        ("bad_call_4.bin", "posix", "system"),
        ("bad_getattr.bin", "builtins", "getattr"),
    ] {
        match torch::parse(&torch_file(name)).unwrap_err() {
            TorchError::Pickle(PickleError::Global {
                module: found,
                name: called,
                ..
            }) => assert_eq!((found.as_str(), called.as_str()), (module, function)),
            error => panic!("{name}: {error}"),
        }
    }
    let error = torch::parse(&torch_file("bad_storage.bin")).unwrap_err();
    let storage = matches!(error, TorchError::Pickle(PickleError::Storage { .. }));
    assert!(storage, "{error}");
    assert_eq!(
        torch::parse(&torch_file("legacy.bin")).unwrap_err(),
        TorchError::Legacy
    );
    let error = torch::parse(b"PK\x03\x04 but nothing else").unwrap_err();
    assert_eq!(error, TorchError::Zip(ZipError::NoDirectory));
}

/// Swaps all occurrences of a text for one of the same length.
fn renamed(mut file: Vec<u8>, from: &[u8], to: &[u8]) -> Vec<u8> {
    for at in 0..file.len() - from.len() {
        if file[at..].starts_with(from) {
            file[at..at + from.len()].copy_from_slice(to);
        }
    }
    file
}

#[test]
fn archives_that_lie_are_refused() {
    let good = torch_file("good.bin");
    let climbing = renamed(good.clone(), b"archive/byteorder", b"../hive/byteorder");
    let error = torch::parse(&climbing).unwrap_err();
    assert!(
        matches!(error, TorchError::Zip(ZipError::Path { .. })),
        "{error}"
    );
    let big = renamed(good.clone(), b"little", b"biggie");
    assert_eq!(torch::parse(&big).unwrap_err(), TorchError::BigEndian);
    // The directory's first entry claims a gigabyte out of its few bytes.
    let mut bomb = torch_file("deflated.bin");
    let at = bomb
        .windows(4)
        .position(|four| four == b"PK\x01\x02")
        .unwrap();
    bomb[at + 24..at + 28].copy_from_slice(&(1u32 << 30).to_le_bytes());
    let (error, peak) = peak_of(|| torch::parse(&bomb).unwrap_err());
    assert!(
        matches!(error, TorchError::Zip(ZipError::Ratio { .. })),
        "{error}"
    );
    assert!(peak < ROOM);
    for len in [0, 10, good.len() / 2, good.len() - 1] {
        torch::parse(&good[..len]).unwrap_err();
    }
}

#[test]
fn damaged_weights_are_noticed() {
    for name in ["good.bin", "deflated.bin"] {
        let file = torch_file(name);
        let mut noticed = 0;
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 0x10;
            let (Ok(before), Ok(after)) = (torch::parse(&file), torch::parse(&damaged)) else {
                noticed += 1;
                continue;
            };
            // What is read is what was written: damage elsewhere does no harm.
            for (before, after) in before.iter().zip(&after) {
                let (Ok(before), Ok(after)) = (values(before), values(after)) else {
                    noticed += 1;
                    break;
                };
                let same = before
                    .iter()
                    .map(|v| v.to_bits())
                    .eq(after.iter().map(|v| v.to_bits()));
                assert!(same, "{name}: byte {at}");
            }
        }
        assert!(noticed > file.len() / 4, "{name}: {noticed}");
    }
    let mut two = torch_file("good.bin");
    two = renamed(two, b"archive/byteorder", b"archiv2//data.pkl");
    assert_eq!(torch::parse(&two).unwrap_err(), TorchError::TwoPickles);
}

#[test]
fn long_pickles_end_in_little_memory() {
    // Two million maps, then two million copies of one.
    for filler in [&b"}"[..], b"h\x00", b"(", b"]("] {
        let mut pickle = b"\x80\x02}q\x00".to_vec();
        pickle.extend(filler.repeat(2 << 20));
        let name = b"x/data.pkl";
        let mut file = b"PK\x03\x04".to_vec();
        file.extend([0; 22]);
        file.extend((name.len() as u16).to_le_bytes());
        file.extend([0; 2]);
        file.extend(name);
        file.extend(&pickle);
        let directory = file.len() as u32;
        file.extend(b"PK\x01\x02");
        file.extend([0; 16]);
        file.extend((pickle.len() as u32).to_le_bytes());
        file.extend((pickle.len() as u32).to_le_bytes());
        file.extend((name.len() as u16).to_le_bytes());
        file.extend([0; 16]);
        file.extend(name);
        file.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0\0\0\0\0");
        file.extend(directory.to_le_bytes());
        file.extend([0; 2]);
        let (error, peak) = peak_of(|| torch::parse(&file).unwrap_err());
        assert_eq!(error, TorchError::Pickle(PickleError::TooLong));
        assert!(peak <= file.len() + ROOM, "{filler:?}: {peak} bytes");
    }
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

fn mutate(seed: &[u8], random: &mut Random) -> Vec<u8> {
    let mut file = seed.to_vec();
    for _ in 0..1 + random.below(4) {
        let at = random.below(file.len());
        match random.below(7) {
            0 => file[at] ^= 1 << random.below(8),
            1 => file[at] = [0, 1, 0x7f, 0x80, 0xff, b'.', b'(', b'R'][random.below(8)],
            2 => file.truncate(at.max(1)),
            3 => {
                let value = [0, 1, u64::from(u32::MAX), 1 << 40, u64::MAX][random.below(5)];
                let width = [2, 4, 8][random.below(3)].min(file.len() - at);
                file[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
            }
            4 => {
                let len = random.below(40).min(file.len() - at);
                let copy = file[at..at + len].to_vec();
                let to = random.below(file.len());
                file.splice(to..to, copy);
            }
            5 => drop(file.drain(at..(at + random.below(20)).min(file.len()))),
            _ => {
                let digit = file.iter().position(u8::is_ascii_digit).unwrap_or(at);
                file[(digit + random.below(60)).min(seed.len().min(at.max(1)) - 1)] = b'9';
            }
        }
        if file.is_empty() {
            file.push(0);
        }
    }
    file
}

fn survive(seeds: &[Vec<u8>], parse: impl Fn(&[u8]) -> Option<usize>) {
    let mut random = Random(0x5eed);
    let mut read = 0;
    for number in 0..MUTANTS {
        let seed = &seeds[number as usize % seeds.len()];
        let file = mutate(seed, &mut random);
        let start = Instant::now();
        let (result, peak) = peak_of(|| parse(&file));
        read += usize::from(result.is_some());
        assert!(start.elapsed() < Duration::from_secs(1), "mutant {number}");
        assert!(peak <= file.len() + ROOM, "mutant {number}: {peak} bytes");
    }
    let some = MUTANTS as usize / 100..MUTANTS as usize * 99 / 100;
    assert!(some.contains(&read), "{read} mutants were read");
}

/// Reads all values of all tensors.
fn read_all(tensors: &[CheckpointTensor<'_>]) -> usize {
    tensors
        .iter()
        .filter(|tensor| values(tensor).is_ok())
        .count()
}

#[test]
fn mutants_of_safetensors_are_refused_or_read() {
    survive(&[good_safetensors()], |file| {
        safetensors::parse(file)
            .ok()
            .map(|tensors| read_all(&tensors))
    });
}

#[test]
fn mutants_of_pytorch_files_are_refused_or_read() {
    let seeds = ["good.bin", "deflated.bin", "nested.bin"].map(torch_file);
    survive(&seeds, |file| {
        torch::parse(file).ok().map(|tensors| read_all(&tensors))
    });
}
