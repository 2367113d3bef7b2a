//! Folders of tiny models, saved by `transformers` in half floats, against the golden files of the same models, which
//! another program wrote and llama.cpp has checked. `tools/convert_check.py` made the folders and goes further.

use std::fs;
use std::path::{Path, PathBuf};

use strata_convert::{ConvertError, Direct, Folder, FolderError, Mix, Options, Plan};
use strata_platform::Inline;
use strata_tokenizer::{EncodeOptions, Tokenizer};
use strata_weights::{GgmlType, Gguf, GgufSet, Metadata, Tensor, Value};

fn folders() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/folders")
}

fn names() -> Vec<String> {
    let entries = fs::read_dir(folders()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

fn convert(path: &Path, mix: Option<Mix>) -> Result<Vec<u8>, FolderError> {
    let folder = Folder::open(path)?;
    let config = folder.config()?;
    let vocabulary = folder.vocabulary()?;
    let tensors = folder.tensors()?;
    let options = Options { mix, name: None };
    let plan = Plan::new(&config, &tensors, vocabulary.as_ref(), &options)?;
    let mut out = Vec::new();
    folder
        .convert(&plan, &mut out, &Inline, &mut |_, _| {})
        .expect("memory can be written to");
    assert_eq!(out.len() as u64, plan.layout().total_len);
    Ok(out)
}

fn floats(tensor: &Tensor<'_>) -> Vec<f32> {
    let mut values = vec![0.0; tensor.dims.elements().unwrap() as usize];
    strata_quant::dequantize(tensor.ty, tensor.data, &mut values).unwrap();
    values
}

/// Everything but the vocabulary, which the golden files have of their own.
fn about_the_model<'a>(metadata: &Metadata<'a>) -> Vec<(&'a str, Value<'a>)> {
    let mut pairs: Vec<_> = metadata
        .iter()
        .filter(|(key, _)| !key.starts_with("tokenizer.") && !key.starts_with("general."))
        .collect();
    pairs.sort_by_key(|(key, _)| *key);
    pairs
}

/// A value with its type, and an array with its elements.
fn shown(value: Value<'_>) -> String {
    match value {
        Value::Array(array) => format!("{array:?} {:?}", array.iter().collect::<Vec<_>>()),
        value => format!("{value:?}"),
    }
}

/// Whether arrays of floats differ by no more than half floats round.
fn close(a: Value<'_>, b: Value<'_>) -> bool {
    let floats =
        |value: Value<'_>| -> Option<Vec<f32>> { Some(value.as_array()?.f32s()?.collect()) };
    let (Some(a), Some(b)) = (floats(a), floats(b)) else {
        return false;
    };
    let alike = |(a, b): (&f32, &f32)| a == b || (a - b).abs() <= 2e-2 * b.abs();
    a.len() == b.len() && a.iter().zip(&b).all(alike)
}

/// What of a folder's conversion is not as in the golden file of the same model.
fn differences(name: &str) -> Result<Vec<String>, FolderError> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests");
    let read = |folder: &str| fs::read(tests.join(folder).join(format!("{name}.gguf")));
    let golden = read("golden").or_else(|_| read("golden_states")).unwrap();
    let golden = Gguf::parse(&golden).unwrap();
    let file = convert(&folders().join(name), Some(Mix::F32))?;
    let gguf = Gguf::parse(&file).unwrap();
    let mut differences = Vec::new();
    for want in golden.tensors() {
        if gguf.tensor(want.name).is_none() {
            differences.push(format!("{} is missing", want.name));
        }
    }
    for tensor in gguf.tensors() {
        let Some(want) = golden.tensor(tensor.name) else {
            differences.push(format!("{} is too much", tensor.name));
            continue;
        };
        let squeezed = |tensor: &Tensor<'_>| {
            let dims = tensor.dims.iter().copied().filter(|&dim| dim != 1);
            dims.collect::<Vec<_>>()
        };
        if squeezed(tensor) != squeezed(want) {
            differences.push(format!("{} is {:?}", tensor.name, tensor.dims));
            continue;
        }
        let (ours, theirs) = (floats(tensor), floats(want));
        let far = |(a, b): &(&f32, &f32)| (*a - *b).abs() > 1e-3 * b.abs().max(0.1);
        if let Some((a, b)) = ours.iter().zip(&theirs).find(far) {
            differences.push(format!("{}: {a} is not {b}", tensor.name));
        }
    }
    let ours = about_the_model(gguf.metadata());
    for (key, want) in about_the_model(golden.metadata()) {
        let found = ours.iter().find(|(name, _)| *name == key);
        let close = found.is_some_and(|found| close(found.1, want));
        let found = found.map(|found| shown(found.1));
        if !close && found.as_ref() != Some(&shown(want)) {
            differences.push(format!("{key} is {found:?}, not {}", shown(want)));
        }
    }
    Ok(differences)
}

#[test]
fn tensors_and_metadata_are_those_of_the_golden_files() {
    assert!(names().len() >= 40);
    let mut failures = Vec::new();
    for name in names() {
        let found = differences(&name).unwrap_or_else(|error| vec![error.to_string()]);
        failures.extend(found.iter().map(|found| format!("{name}: {found}")));
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

#[test]
fn folders_run_as_they_are_with_the_bytes_of_their_conversion() {
    for name in names() {
        for mix in [None, Some(Mix::Q8_0)] {
            let path = folders().join(&name);
            let file = convert(&path, mix).unwrap();
            let converted = GgufSet::new(vec![Gguf::parse(&file).unwrap()]).unwrap();
            let folder = Folder::open(&path).unwrap();
            let options = Options { mix, name: None };
            let direct = Direct::new(folder, &options, &Inline, &mut |_, _| {}).unwrap();
            let direct_set = direct.parse().unwrap();
            assert_eq!(direct_set.tensors().len(), converted.tensors().len());
            for tensor in converted.tensors() {
                let other = direct_set.tensor(tensor.name).unwrap();
                assert_eq!((tensor.ty, tensor.dims), (other.ty, other.dims));
                assert!(tensor.data == other.data, "{name}: {}", tensor.name);
            }
            let pairs =
                |set: &GgufSet<'_>| format!("{:?}", set.metadata().iter().collect::<Vec<_>>());
            assert_eq!(pairs(&direct_set), pairs(&converted));
            // Half floats that need no change are used where they lie.
            let whole: usize = converted.tensors().iter().map(|t| t.data.len()).sum();
            if mix.is_none() {
                assert!(direct.made_bytes() < whole, "{name}");
            }
        }
    }
}

#[test]
fn a_folder_without_a_type_keeps_its_own() {
    let file = convert(&folders().join("gemma"), None).unwrap();
    let gguf = Gguf::parse(&file).unwrap();
    let ty = |name| gguf.tensor(name).unwrap().ty;
    assert_eq!(ty("token_embd.weight"), GgmlType::F16);
    assert_eq!(ty("blk.0.ffn_up.weight"), GgmlType::F16);
    assert_eq!(ty("blk.0.attn_norm.weight"), GgmlType::F32);
    assert_eq!(gguf.metadata().u32("general.file_type"), Ok(Some(1)));
}

#[test]
fn the_vocabulary_comes_along() {
    let file = convert(&folders().join("gpt2"), None).unwrap();
    let gguf = Gguf::parse(&file).unwrap();
    let tokenizer = Tokenizer::from_gguf(gguf.metadata()).unwrap();
    let options = EncodeOptions {
        add_special: true,
        parse_special: true,
    };
    assert_eq!(tokenizer.encode("! A</s>", options), [1, 4, 45, 2]);
    assert_eq!(tokenizer.vocab_size(), 48);
    let template = gguf.metadata().str("tokenizer.chat_template").unwrap();
    assert!(template.is_some_and(|text| text.contains("messages")));
}

/// A copy of a folder with one file changed.
fn changed(name: &str, file: &str, change: impl Fn(Vec<u8>) -> Vec<u8>) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(folders().join(name)).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    let path = copy.path().join(file);
    let bytes = change(fs::read(&path).unwrap_or_default());
    fs::write(path, bytes).unwrap();
    copy
}

#[test]
fn recommended_sampling_comes_along() {
    let copy = changed("gpt2", "generation_config.json", |_| {
        br#"{"temperature": 0.6, "top_k": 20, "top_p": 0.95, "repetition_penalty": 1.05, "do_sample": true}"#.to_vec()
    });
    let file = convert(copy.path(), None).unwrap();
    let gguf = Gguf::parse(&file).unwrap();
    let float = |key: &str| gguf.metadata().f32(&format!("general.sampling.{key}"));
    assert_eq!(float("temp"), Ok(Some(0.6)));
    assert_eq!(float("top_p"), Ok(Some(0.95)));
    assert_eq!(float("penalty_repeat"), Ok(Some(1.05)));
    assert_eq!(float("min_p"), Ok(None));
    let top_k = gguf.metadata().i32("general.sampling.top_k");
    assert_eq!(top_k, Ok(Some(20)));
    let broken = changed("gpt2", "generation_config.json", |_| b"{".to_vec());
    assert!(convert(broken.path(), None).is_err());
}

fn config_error(from: &str, to: &str) -> ConvertError {
    let copy = changed("gpt2", "config.json", |bytes| {
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains(from), "{from}");
        text.replace(from, to).into_bytes()
    });
    match convert(copy.path(), None).unwrap_err() {
        FolderError::Convert(error) => error,
        error => panic!("{error}"),
    }
}

#[test]
fn configs_that_cannot_be_honoured_are_refused() {
    use ConvertError as E;
    let error = config_error("\"gelu_new\"", "\"relu\"");
    let refused = matches!(&error, E::Unsupported { key: "activation_function", found } if &**found == "\"relu\"");
    assert!(refused, "{error}");
    assert!(matches!(
        config_error("GPT2LMHeadModel", "NoSuchModel"),
        E::Class { .. }
    ));
    assert!(matches!(
        config_error("\"n_head\": 3", "\"n_head\": -3"),
        E::Value { .. }
    ));
    assert!(matches!(
        config_error("\"n_head\": 3", "\"n_head\": 0"),
        E::Missing { .. }
    ));
    assert!(matches!(
        config_error("\"n_layer\": 2", "\"x\": 2"),
        E::Missing {
            key: "num_hidden_layers"
        }
    ));
    assert!(matches!(config_error("{", "["), E::Json { .. }));
}

#[test]
fn tensors_that_nobody_knows_or_that_are_missing_are_refused() {
    let rename = |from: &'static [u8], to: &'static [u8]| {
        changed("mixtral", "model.safetensors", move |mut bytes| {
            let at = bytes
                .windows(from.len())
                .position(|window| window == from)
                .unwrap();
            bytes[at..at + from.len()].copy_from_slice(to);
            bytes
        })
    };
    let error = |copy: tempfile::TempDir| convert(copy.path(), None).unwrap_err().to_string();
    let unknown = error(rename(
        b"layers.0.input_layernorm",
        b"layers.0.import_layernor",
    ));
    assert!(unknown.contains("import_layernor"), "{unknown}");
    let missing = error(rename(
        b"layers.0.block_sparse_moe.experts.1.w1",
        b"layers.9.block_sparse_moe.experts.1.w1",
    ));
    assert!(missing.contains("is missing"), "{missing}");
    let twice = error(rename(
        b"layers.0.block_sparse_moe.experts.1.w1",
        b"layers.0.block_sparse_moe.experts.0.w1",
    ));
    assert!(twice.contains("there twice"), "{twice}");
}

#[test]
fn hostile_folders_end_in_an_error() {
    let copy = changed("gpt2", "model.safetensors.index.json", |_| {
        br#"{"weight_map": {"a": "../../secret.safetensors"}}"#.to_vec()
    });
    let error = Folder::open(copy.path()).unwrap_err();
    assert!(matches!(error, FolderError::Index { .. }), "{error}");
    let copy = changed("gpt2", "model.safetensors", |bytes| bytes[..1000].to_vec());
    let error = convert(copy.path(), None).unwrap_err();
    assert!(matches!(error, FolderError::Safetensors { .. }), "{error}");
    let error = Folder::open(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap_err();
    assert!(matches!(error, FolderError::NoCheckpoint { .. }), "{error}");
    // A weight that is no number must not get into a file.
    let copy = changed("gpt2", "model.safetensors", |mut bytes| {
        let end = bytes.len();
        bytes[end - 2..].copy_from_slice(&0x7e00u16.to_le_bytes());
        bytes
    });
    let folder = Folder::open(copy.path()).unwrap();
    let tensors = folder.tensors().unwrap();
    let options = Options {
        mix: Some(Mix::F32),
        name: None,
    };
    let plan = Plan::new(&folder.config().unwrap(), &tensors, None, &options).unwrap();
    let result = folder.convert(&plan, Vec::new(), &Inline, &mut |_, _| {});
    assert!(result.unwrap_err().to_string().contains("not finite"));
}

#[test]
fn eyes_become_the_file_that_the_converter_of_llama_cpp_writes() {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/eyes");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/golden_vision");
    for name in [
        "gemma3",
        "qwen2vl",
        "qwen2.5vl",
        "mistral3",
        "qwen3vl",
        "gemma4",
        "gemma4-small",
        "llama4",
        "llava",
        "llava-next",
        "idefics3",
        "internvl",
        "pixtral",
        "minicpmv",
    ] {
        let folder = Folder::open(&folders.join(name)).unwrap();
        let (config, checkpoint) = (folder.config().unwrap(), folder.tensors().unwrap());
        let plan = folder.projector(&config, &checkpoint).unwrap().unwrap();
        let mut file = Vec::new();
        folder
            .convert(&plan, &mut file, &Inline, &mut |_, _| {})
            .unwrap();
        let expected = fs::read(golden.join(format!("{name}.mmproj.gguf"))).unwrap();
        let (file, expected) = (Gguf::parse(&file).unwrap(), Gguf::parse(&expected).unwrap());
        assert_eq!(file.tensors().len(), expected.tensors().len(), "{name}");
        for tensor in expected.tensors() {
            let mut found = file.tensors().iter();
            let found = found.find(|found| found.name == tensor.name);
            let found = found.unwrap_or_else(|| panic!("{name}: no {}", tensor.name));
            assert_eq!(found.dims, tensor.dims, "{name}: {}", tensor.name);
            assert!(found.data == tensor.data, "{name}: {}", tensor.name);
        }
        let free = [
            "clip.vision.image_size",
            "general.name",
            // Published models have heads of 128, so their configs do not say how many there are.
            "clip.vision.projector.head_count",
        ];
        for (key, value) in expected.metadata().iter() {
            if free.contains(&key) {
                continue;
            }
            let found = file.metadata().get(key);
            assert_eq!(
                found.map(|value| format!("{value:?}")),
                Some(format!("{value:?}")),
                "{name}: {key}"
            );
        }
    }
}

#[test]
fn minicpm_v_holds_the_text_model_that_its_version_says() {
    let plain = "llama-llama3-rope";
    let holder = |version: &str| {
        changed(plain, "config.json", |bytes| {
            let kind = format!("\"minicpmv\", \"version\": {version}");
            let text = String::from_utf8(bytes).unwrap();
            let text = text.replace("LlamaForCausalLM", "MiniCPMV");
            text.replace("\"llama\"", &kind).into()
        })
    };
    let folder = holder("\"2.5\"");
    let path = folder.path().join("model.safetensors");
    let bytes = fs::read(&path).unwrap();
    let end = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let names = std::str::from_utf8(&bytes[8..end]).unwrap();
    let names = names.replace("\"model.", "\"llm.model.");
    let len = (names.len() as u64).to_le_bytes();
    fs::write(&path, [&len, names.as_bytes(), &bytes[end..]].concat()).unwrap();
    let found = convert(folder.path(), None).unwrap();
    let expected = convert(&folders().join(plain), None).unwrap();
    let (found, expected) = (
        Gguf::parse(&found).unwrap(),
        Gguf::parse(&expected).unwrap(),
    );
    let tensors = |file: &Gguf<'_>| -> Vec<(String, Vec<u8>)> {
        let tensors = file.tensors().iter();
        tensors
            .map(|tensor| (tensor.name.to_string(), tensor.data.to_vec()))
            .collect()
    };
    assert!(tensors(&found) == tensors(&expected));
    assert_eq!(
        about_the_model(found.metadata()),
        about_the_model(expected.metadata())
    );
    let error = convert(holder("2").path(), None).unwrap_err().to_string();
    let said = "config.json has a version of 2, which cannot be used";
    assert!(error.contains(said), "{error}");
}

#[test]
fn ears_become_the_file_that_the_converter_of_llama_cpp_writes() {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/listeners");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/golden_audio");
    let same = |name: &str, file: &[u8], expected: &[u8]| {
        let (file, expected) = (Gguf::parse(file).unwrap(), Gguf::parse(expected).unwrap());
        assert_eq!(file.tensors().len(), expected.tensors().len(), "{name}");
        for tensor in expected.tensors() {
            let mut found = file.tensors().iter();
            let found = found.find(|found| found.name == tensor.name);
            let found = found.unwrap_or_else(|| panic!("{name}: no {}", tensor.name));
            assert_eq!(found.dims, tensor.dims, "{name}: {}", tensor.name);
            // The checkpoint has 16 bits, and so has the file; both have the same numbers.
            let floats = |tensor: &Tensor<'_>| {
                let mut values = vec![0.0f32; tensor.dims.elements().unwrap() as usize];
                strata_quant::dequantize(tensor.ty, tensor.data, &mut values).unwrap();
                values
            };
            assert!(floats(found) == floats(tensor), "{name}: {}", tensor.name);
        }
        for (key, value) in expected.metadata().iter() {
            if key.starts_with("clip.") || key == "general.architecture" {
                let found = file.metadata().get(key).map(|value| format!("{value:?}"));
                assert_eq!(found, Some(format!("{value:?}")), "{name}: {key}");
            }
        }
    };
    for name in ["qwen2audio", "ultravox", "voxtral"] {
        let folder = Folder::open(&folders.join(name)).unwrap();
        let (config, checkpoint) = (folder.config().unwrap(), folder.tensors().unwrap());
        let plan = folder.projector(&config, &checkpoint).unwrap().unwrap();
        let mut file = Vec::new();
        let done = folder.convert(&plan, &mut file, &Inline, &mut |_, _| {});
        done.unwrap();
        let expected = fs::read(golden.join(format!("{name}.mmproj.gguf"))).unwrap();
        same(name, &file, &expected);
        // Ultravox's text model is a folder of its own.
        if name != "ultravox" {
            let text = convert(&folders.join(name), None).unwrap();
            let expected = fs::read(golden.join(format!("{name}.gguf"))).unwrap();
            same(name, &text, &expected);
        }
    }
}

#[test]
fn whisper_becomes_the_documented_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = convert(&root.join("tests/ears/whisper"), None).unwrap();
    let expected = fs::read(root.join("../model/tests/golden_speech/whisper.gguf")).unwrap();
    let (file, expected) = (Gguf::parse(&file).unwrap(), Gguf::parse(&expected).unwrap());
    assert_eq!(file.tensors().len(), expected.tensors().len());
    for tensor in expected.tensors() {
        let found = file
            .tensors()
            .iter()
            .find(|found| found.name == tensor.name);
        let found = found.unwrap_or_else(|| panic!("no {}", tensor.name));
        assert_eq!(found.dims, tensor.dims, "{}", tensor.name);
        assert!(found.data == tensor.data, "{}", tensor.name);
    }
    for (key, value) in expected.metadata().iter() {
        let own = key.starts_with("whisper.") || key == "general.architecture";
        if let (true, found) = (own, file.metadata().get(key)) {
            let integers = |value: Value<'_>| -> Option<Vec<i128>> {
                Some(value.as_array()?.integers()?.collect())
            };
            let (found, value) = (found.unwrap(), value);
            match integers(value) {
                Some(list) => assert_eq!(integers(found), Some(list), "{key}"),
                None => assert_eq!(format!("{found:?}"), format!("{value:?}"), "{key}"),
            }
        }
    }
    let small = convert(&root.join("tests/ears/whisper"), Some(Mix::F16)).unwrap();
    let small = Gguf::parse(&small).unwrap();
    let types = |name: &str| small.tensors().iter().find(|t| t.name == name).unwrap().ty;
    assert_eq!(types("enc.blk.0.attn_q.weight"), GgmlType::F16);
    assert_eq!(types("enc.position_embd.weight"), GgmlType::F32);
}

#[test]
fn a_file_of_whisper_cpp_becomes_the_same_model() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ears/whisper");
    let file = convert(&root.join("whisper.bin"), None).unwrap();
    let folder = convert(&root, Some(Mix::F16)).unwrap();
    let (file, folder) = (Gguf::parse(&file).unwrap(), Gguf::parse(&folder).unwrap());
    assert_eq!(file.tensors().len(), folder.tensors().len());
    for tensor in folder.tensors() {
        let found = file
            .tensors()
            .iter()
            .find(|found| found.name == tensor.name);
        let found = found.unwrap_or_else(|| panic!("no {}", tensor.name));
        assert_eq!(found.dims, tensor.dims, "{}", tensor.name);
        let (found, expected) = (floats(found), floats(tensor));
        let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-3 * b.abs().max(1.0);
        assert!(found.iter().zip(&expected).all(near), "{}", tensor.name);
    }
    let about = |file: &Gguf<'_>| {
        let pairs = about_the_model(file.metadata()).into_iter();
        // What whisper.cpp's files do not say.
        let silent = ["suppress", "alignment", "first_stamp", "multilingual"];
        let pairs = pairs.filter(|(key, _)| !silent.iter().any(|part| key.contains(part)));
        pairs
            .map(|(key, value)| format!("{key} {}", shown(value)))
            .collect::<Vec<_>>()
    };
    assert_eq!(about(&file), about(&folder));
    let tokenizer = |file: &Gguf<'_>| Tokenizer::from_gguf(file.metadata()).unwrap();
    let (found, expected) = (tokenizer(&file), tokenizer(&folder));
    for text in [
        "the other in reason",
        " then the rain on the train",
        "ünïcode 日本",
    ] {
        let options = EncodeOptions::default();
        assert_eq!(found.encode(text, options), expected.encode(text, options));
    }
    let names = ["<|endoftext|>", "<|zh|>", "<|notimestamps|>"];
    for name in names {
        assert_eq!(found.token_id(name), expected.token_id(name), "{name}");
    }
}

#[test]
fn damaged_files_of_whisper_cpp_are_refused() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ears/whisper");
    let whole = fs::read(root.join("whisper.bin")).unwrap();
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("ggml.bin");
    for end in [8, 60, 7000, whole.len() - 1] {
        fs::write(&path, &whole[..end]).unwrap();
        assert!(convert(&path, None).is_err(), "{end}");
    }
    let typed = |ty: u32| {
        let mut bytes = whole.clone();
        let name = b"decoder.token_embedding.weight";
        let at = whole.windows(name.len()).position(|w| w == name).unwrap();
        bytes[at - 12..at - 8].copy_from_slice(&ty.to_le_bytes());
        fs::write(&path, &bytes).unwrap();
        convert(&path, None).unwrap_err().to_string()
    };
    // Its rows of 16 are no blocks of 32.
    let error = typed(GgmlType::Q8_0.id());
    assert!(error.contains("rows of 16"), "{error}");
    assert!(typed(GgmlType::IQ2_S.id()).contains("type 22"));
    assert!(typed(999).contains("type 999"));
}
