//! Checkpoints as Hugging Face publishes them: safetensors, PyTorch's zip archives and pickles, `config.json`.

use crate::outcome::magnitude;
use crate::{Outcome, Target, corpus};
use strata_convert::{HfConfig, Options, Plan};
use strata_weights::{CheckpointTensor, safetensors, shard_files, torch};

pub(super) const SAFETENSORS: Target = Target {
    more_seeds: &[
        (
            "crates/convert/tests/folders/llama-llama3-rope",
            ".safetensors",
        ),
        ("crates/convert/tests/folders/gpt2", ".safetensors"),
    ],
    words: &[
        "{",
        "}",
        "\"dtype\"",
        "\"shape\"",
        "\"data_offsets\"",
        "\"__metadata__\"",
        "F32",
        "BF16",
        "F8_E4M3",
        "[0,",
        "\"weight_map\"",
        "../",
        ",",
        ":",
    ],
    ..Target::new(
        "safetensors",
        "a file to the reader of safetensors and of the indices of split ones; what it accepts is read row by row",
        safetensors,
    )
};

pub(super) const ZIP: Target = Target {
    more_seeds: &[("crates/weights/tests/torch_files", ".bin")],
    words: &[
        "PK\u{1}\u{2}",
        "PK\u{3}\u{4}",
        "PK\u{5}\u{6}",
        "PK\u{6}\u{6}",
        "PK\u{6}\u{7}",
        "archive/",
        "data.pkl",
        "data/0",
        "byteorder",
        "little",
    ],
    ..Target::new(
        "zip",
        "a file to the reader of PyTorch's archives; what it accepts is read column by column",
        zip,
    )
};

pub(super) const PICKLE: Target = Target {
    made_seeds: pickles,
    words: &[
        "ctorch._utils\n_rebuild_tensor_v2\n",
        "ccollections\nOrderedDict\n",
        "ctorch\nFloatStorage\n",
        "X\u{7}\0\0\0storage",
        "(",
        ")",
        "t",
        "Q",
        "R",
        "}",
        "u",
        "s",
        ".",
        "q\0",
        "h\0",
        "K\u{1}",
        "M\u{1}\u{2}",
        "]",
        "a",
        "e",
        "b",
        "\u{85}",
        "\u{8c}",
        "N",
    ],
    ..Target::new(
        "pickle",
        "a pickle, in an archive that is in order, to the interpreter of pickles",
        pickle,
    )
};

pub(super) const CONFIG: Target = Target {
    made_seeds: configs,
    words: &[
        "\"architectures\"",
        "\"model_type\"",
        "\"rope_scaling\"",
        "\"rope_parameters\"",
        "\"num_hidden_layers\"",
        "\"hidden_size\"",
        "\"vocab_size\"",
        "\"layer_types\"",
        "\"head_dim\"",
        "null",
        "true",
        "[",
        "{",
        "}",
        "]",
        ",",
    ],
    ..Target::new(
        "config",
        "config.json, generation_config.json and a pooling's config to the converter",
        config,
    )
};

fn safetensors(bytes: &[u8]) -> Outcome {
    let shards = shard_files(bytes);
    match safetensors::parse(bytes) {
        Ok(tensors) => read_all(&tensors, CheckpointTensor::rows),
        Err(error) => match shards {
            Ok(names) => Outcome::taken(magnitude(names.len())),
            Err(_) => Outcome::refused(&error),
        },
    }
}

fn zip(bytes: &[u8]) -> Outcome {
    match torch::parse(bytes) {
        Ok(tensors) => read_all(&tensors, |tensor| {
            tensor.rows().map(|rows| rows.transposed())
        }),
        Err(error) => Outcome::refused(&error),
    }
}

fn read_all<'a>(
    tensors: &[CheckpointTensor<'a>],
    rows: impl Fn(&CheckpointTensor<'a>) -> Result<strata_weights::Rows<'a>, strata_weights::ReadError>,
) -> Outcome {
    let mut read = 0;
    for tensor in tensors {
        let Ok(rows) = rows(tensor) else { continue };
        read += 1;
        let mut row = vec![0.0; rows.columns()];
        for index in 0..rows.len() {
            rows.read(index, &mut row).expect("a row of a parsed file");
        }
    }
    Outcome::taken((magnitude(tensors.len()), magnitude(read)))
}

fn pickle(bytes: &[u8]) -> Outcome {
    let storage: Vec<u8> = (0..=255).collect();
    let numbers: Vec<String> = (0..8)
        .map(|number| format!("archive/data/{number}"))
        .collect();
    let mut entries = vec![
        ("archive/data.pkl", bytes),
        ("archive/byteorder", &b"little"[..]),
    ];
    entries.extend(numbers.iter().map(|name| (name.as_str(), &storage[..])));
    zip(&archive(&entries))
}

/// An archive of stored entries. A checksum of 0 says that none was recorded.
fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes) in entries {
        let offset = file.len() as u32;
        let size = (bytes.len() as u32).to_le_bytes();
        // Flags, method, time and date, checksum: all 0.
        let fields = [
            &[0; 12][..],
            &size,
            &size,
            &(name.len() as u16).to_le_bytes(),
            &[0; 2],
        ]
        .concat();
        file.extend(b"PK\x03\x04\x0a\0");
        file.extend(&fields);
        file.extend(name.as_bytes());
        file.extend(*bytes);
        directory.extend(b"PK\x01\x02\x0a\0\x0a\0");
        directory.extend(&fields);
        // Comment, disk and attributes.
        directory.extend([0; 10]);
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (start, count) = (file.len() as u32, entries.len() as u16);
    file.extend(&directory);
    file.extend(b"PK\x05\x06\0\0\0\0");
    file.extend([count.to_le_bytes(), count.to_le_bytes()].concat());
    file.extend((directory.len() as u32).to_le_bytes());
    file.extend(start.to_le_bytes());
    file.extend([0; 2]);
    file
}

/// The pickles of PyTorch's own archives, which store them as they are.
fn pickles() -> Vec<Vec<u8>> {
    let folder = corpus::repository().join("crates/weights/tests/torch_files");
    let names = [
        "good",
        "nested",
        "bad_call",
        "bad_call_4",
        "bad_getattr",
        "bad_storage",
    ];
    let pickle = |name: &&str| {
        let file = std::fs::read(folder.join(format!("{name}.bin"))).ok()?;
        let start = file
            .windows(2)
            .position(|two| two == b"\x80\x02" || two == b"\x80\x04")?;
        let end = file[start..]
            .windows(4)
            .position(|four| four == b"PK\x03\x04")?;
        Some(file[start..start + end].to_vec())
    };
    names.iter().filter_map(pickle).collect()
}

/// The configs of the converter's own test folders.
fn configs() -> Vec<Vec<u8>> {
    let folders = corpus::repository().join("crates/convert/tests/folders");
    let mut names: Vec<_> = std::fs::read_dir(folders)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    names.sort();
    let files = names
        .iter()
        .flat_map(|path| [path.join("config.json"), path.join("1_Pooling/config.json")]);
    files.filter_map(|path| std::fs::read(path).ok()).collect()
}

fn config(bytes: &[u8]) -> Outcome {
    let config = HfConfig::parse(bytes)
        .and_then(|config| config.with_generation(bytes))
        .and_then(|config| config.with_pooling(bytes));
    let config = match config.or_else(|_| HfConfig::parse(bytes)) {
        Ok(config) => config,
        Err(error) => return Outcome::refused(&error),
    };
    match Plan::new(&config, &[], None, &Options::default()) {
        Ok(plan) => Outcome::taken(magnitude(plan.tensors().len())),
        Err(error) => Outcome::refused(&error),
    }
}
