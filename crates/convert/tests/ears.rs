//! Models that hear: quantized files of whisper.cpp, written here as its own program lays them out, and folders of tiny
//! Wav2Vec2 and HuBERT models, saved by `transformers`, against golden files of the same (`tools/golden_ctc.py`).

use std::fs;
use std::path::Path;

use strata_convert::{Folder, FolderError, Mix, Options, Plan};
use strata_platform::Inline;
use strata_weights::{GgmlType, Gguf, Tensor, Value};

fn convert(path: &Path, mix: Option<Mix>) -> Result<Vec<u8>, FolderError> {
    let folder = Folder::open(path)?;
    let config = folder.config()?;
    let vocabulary = folder.vocabulary()?;
    let tensors = folder.tensors()?;
    let options = Options { mix, name: None };
    let plan = Plan::new(&config, &tensors, vocabulary.as_ref(), &options)?;
    let mut out = Vec::new();
    let done = folder.convert(&plan, &mut out, &Inline, &mut |_, _| {});
    done.expect("memory can be written to");
    Ok(out)
}

fn floats(tensor: &Tensor<'_>) -> Vec<f32> {
    let mut values = vec![0.0; tensor.dims.elements().unwrap() as usize];
    strata_quant::dequantize(tensor.ty, tensor.data, &mut values).unwrap();
    values
}

/// A file of whisper.cpp with one layer each way, 32 wide, whose matrices have a type; and its matrices' blocks.
fn quantized_speech(ty: GgmlType) -> (Vec<u8>, Vec<Vec<u8>>) {
    let (width, inner, words, audio, text) = (32u32, 64u32, 256u32, 50u32, 32u32);
    let vocabulary = words + 100 + 8 + audio + 1;
    let mut out = Vec::new();
    let numbers = |out: &mut Vec<u8>, list: &[u32]| {
        list.iter()
            .for_each(|number| out.extend(number.to_le_bytes()));
    };
    numbers(&mut out, &[0x6767_6d6c, vocabulary, audio, width, 2, 1]);
    numbers(&mut out, &[text, width, 2, 1, 80, 2007, 80, 201]);
    out.extend([0; 4 * 80 * 201]);
    numbers(&mut out, &[words]);
    for word in 0..words {
        numbers(&mut out, &[1]);
        out.push(word as u8);
    }
    let mut blocks = Vec::new();
    let mut tensor = |name: &str, dims: &[u32]| {
        let matrix = dims.len() == 2 && !name.contains("bias") && !name.contains("positional");
        let ty = if matrix { ty } else { GgmlType::F32 };
        numbers(&mut out, &[dims.len() as u32, name.len() as u32, ty.id()]);
        numbers(&mut out, dims);
        out.extend(name.as_bytes());
        let count = dims.iter().product::<u32>() as usize;
        let values: Vec<f32> = (0..count).map(|i| (i as f32 * 0.37).sin()).collect();
        let row = dims[0] as usize;
        let mut bytes = vec![0; ty.row_bytes(row as u64).unwrap() as usize * (count / row)];
        strata_quant::quantize(ty, &values, None, &mut bytes).unwrap();
        out.extend(&bytes);
        if matrix {
            blocks.push(bytes);
        }
    };
    tensor("encoder.positional_embedding", &[width, audio]);
    tensor("encoder.conv1.weight", &[3, 80, width]);
    tensor("encoder.conv1.bias", &[1, width]);
    tensor("encoder.conv2.weight", &[3, width, width]);
    tensor("encoder.conv2.bias", &[1, width]);
    tensor("encoder.ln_post.weight", &[width]);
    tensor("encoder.ln_post.bias", &[width]);
    tensor("decoder.positional_embedding", &[width, text]);
    tensor("decoder.token_embedding.weight", &[width, vocabulary]);
    tensor("decoder.ln.weight", &[width]);
    tensor("decoder.ln.bias", &[width]);
    for (part, attentions) in [
        ("encoder", &["attn"][..]),
        ("decoder", &["attn", "cross_attn"]),
    ] {
        let block = format!("{part}.blocks.0");
        for name in attentions {
            tensor(&format!("{block}.{name}_ln.weight"), &[width]);
            tensor(&format!("{block}.{name}_ln.bias"), &[width]);
            for matrix in ["query", "key", "value", "out"] {
                tensor(&format!("{block}.{name}.{matrix}.weight"), &[width, width]);
                if matrix != "key" {
                    tensor(&format!("{block}.{name}.{matrix}.bias"), &[width]);
                }
            }
        }
        tensor(&format!("{block}.mlp_ln.weight"), &[width]);
        tensor(&format!("{block}.mlp_ln.bias"), &[width]);
        tensor(&format!("{block}.mlp.0.weight"), &[width, inner]);
        tensor(&format!("{block}.mlp.0.bias"), &[inner]);
        tensor(&format!("{block}.mlp.2.weight"), &[inner, width]);
        tensor(&format!("{block}.mlp.2.bias"), &[width]);
    }
    (out, blocks)
}

#[test]
fn quantized_files_of_whisper_cpp_keep_their_blocks() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("ggml-tiny.bin");
    for ty in [
        GgmlType::Q4_0,
        GgmlType::Q4_1,
        GgmlType::Q5_0,
        GgmlType::Q5_1,
        GgmlType::Q8_0,
    ] {
        let (bytes, blocks) = quantized_speech(ty);
        fs::write(&path, &bytes).unwrap();
        let file = convert(&path, None).unwrap();
        let file = Gguf::parse(&file).unwrap();
        let own: Vec<&Tensor<'_>> = file.tensors().iter().filter(|t| t.ty == ty).collect();
        assert_eq!(own.len(), blocks.len(), "{ty:?}");
        for (tensor, bytes) in own.iter().zip(&blocks) {
            assert!(tensor.data == &bytes[..], "{ty:?}: {}", tensor.name);
        }
        // Another type is made of what the blocks mean.
        let plain = convert(&path, Some(Mix::F32)).unwrap();
        let plain = Gguf::parse(&plain).unwrap();
        for (tensor, own) in plain.tensors().iter().zip(file.tensors()) {
            assert_eq!((tensor.name, tensor.ty), (own.name, GgmlType::F32));
            assert_eq!(floats(tensor), floats(own), "{ty:?}: {}", tensor.name);
        }
        fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert!(convert(&path, None).is_err());
    }
}

fn shown(value: Value<'_>) -> String {
    match value {
        Value::Array(array) => format!("{:?}", array.iter().collect::<Vec<_>>()),
        value => format!("{value:?}"),
    }
}

#[test]
fn models_with_letters_become_the_documented_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for name in ["wav2vec2", "wav2vec2-layer", "hubert"] {
        let folder = root.join("tests/ears").join(name);
        let file = convert(&folder, None).unwrap();
        let golden = root.join(format!("../model/tests/golden_speech/{name}.gguf"));
        let expected = fs::read(golden).unwrap();
        let (file, expected) = (Gguf::parse(&file).unwrap(), Gguf::parse(&expected).unwrap());
        assert_eq!(file.tensors().len(), expected.tensors().len(), "{name}");
        for tensor in expected.tensors() {
            let all = file.tensors().iter();
            let found = all.clone().find(|found| found.name == tensor.name);
            let found = found.unwrap_or_else(|| panic!("no {}", tensor.name));
            assert_eq!(found.dims, tensor.dims, "{}", tensor.name);
            let (found, expected) = (floats(found), floats(tensor));
            // Directions and lengths are joined here in another order.
            let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-6;
            assert!(found.iter().zip(&expected).all(near), "{}", tensor.name);
        }
        for (key, value) in expected.metadata().iter() {
            let found = file.metadata().get(key);
            let found = found.unwrap_or_else(|| panic!("{name} has no {key}"));
            let list = |value: Value<'_>| -> Option<Vec<i128>> {
                Some(value.as_array()?.integers()?.collect())
            };
            match list(value) {
                Some(numbers) => assert_eq!(list(found), Some(numbers), "{key}"),
                None => assert_eq!(shown(found), shown(value), "{key}"),
            }
        }
        let small = convert(&folder, Some(Mix::F16)).unwrap();
        let small = Gguf::parse(&small).unwrap();
        let types = |name: &str| small.tensors().iter().find(|t| t.name == name).unwrap().ty;
        assert_eq!(types("blk.0.attn_q.weight"), GgmlType::F16);
        assert_eq!(types("feat.conv.1.weight"), GgmlType::F32);
        assert_eq!(types("position_conv.weight"), GgmlType::F32);
    }
}

/// A folder of the model with letters in which one file is something else.
fn with_letters_and(file: &str, text: Option<&str>) -> String {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ears/wav2vec2");
    let place = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(own).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), place.path().join(entry.file_name())).unwrap();
    }
    match text {
        Some(text) => fs::write(place.path().join(file), text).unwrap(),
        None => fs::remove_file(place.path().join(file)).unwrap(),
    }
    match convert(place.path(), None) {
        Ok(_) => panic!("{file} was not refused"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn letters_that_cannot_be_read_are_refused_by_name() {
    assert!(with_letters_and("vocab.json", None).contains("vocab.json"));
    let languages = with_letters_and("vocab.json", Some(r#"{"eng": {"a": 1}}"#));
    assert!(languages.contains("several languages"), "{languages}");
    let blank = with_letters_and("tokenizer_config.json", Some(r#"{"pad_token": "[PAD]"}"#));
    assert!(blank.contains("[PAD]"), "{blank}");
    let rate = with_letters_and(
        "preprocessor_config.json",
        Some(r#"{"sampling_rate": 8000}"#),
    );
    assert!(
        rate.contains("sampling_rate") && rate.contains("8000"),
        "{rate}"
    );
    let config = |from: &str, to: &str| {
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ears/wav2vec2/config.json");
        let text = fs::read_to_string(own).unwrap();
        assert!(text.contains(from));
        with_letters_and("config.json", Some(&text.replace(from, to)))
    };
    let adapter = config("\"add_adapter\": false", "\"add_adapter\": true");
    assert!(adapter.contains("add_adapter"), "{adapter}");
    let norm = config(
        "\"feat_extract_norm\": \"group\"",
        "\"feat_extract_norm\": \"batch\"",
    );
    assert!(norm.contains("batch"), "{norm}");
    let groups = config(
        "\"num_conv_pos_embedding_groups\": 4",
        "\"num_conv_pos_embedding_groups\": 5",
    );
    assert!(groups.contains("pos_conv_embed"), "{groups}");
}
