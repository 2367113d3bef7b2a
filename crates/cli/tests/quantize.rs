//! Models in other types, and the importance of their columns.

use crate::program::{Scratch, fails, scratch, strata};
use serde_json::Value;
use strata_weights::{GgmlType, Gguf};

const TALE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../models/tale/tale-q4_k_m.gguf"
);

fn folder(name: &str) -> String {
    format!(
        "{}/../convert/tests/folders/{name}",
        env!("CARGO_MANIFEST_DIR")
    )
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&strata(arguments).text()).expect("JSON")
}

/// Quantizes into a file of its own.
fn quantize(source: &str, ty: &str, more: &[&str]) -> Scratch {
    let name: String = more
        .iter()
        .map(|s| s.replace(['/', '\\', ':', '='], "_"))
        .collect();
    let out = Scratch(scratch(&format!(
        "{ty}{}.gguf",
        &name[..name.len().min(60)]
    )));
    strata(&[&["quantize", source, ty, "-o", out.path()], more].concat()).text();
    out
}

#[test]
fn a_models_own_types_are_chosen_again_and_its_tensors_copied() {
    // llama.cpp chose the types of this file.
    let out = quantize("tale", "q4_k_m", &[]);
    let (bytes, source) = (std::fs::read(&out.0).unwrap(), std::fs::read(TALE).unwrap());
    let (ours, theirs) = (Gguf::parse(&bytes).unwrap(), Gguf::parse(&source).unwrap());
    assert_eq!(ours.tensors().len(), theirs.tensors().len());
    for (a, b) in ours.tensors().iter().zip(theirs.tensors()) {
        assert_eq!((a.name, a.ty), (b.name, b.ty));
        assert!(a.data == b.data, "{}", a.name);
    }
    assert_eq!(
        ours.metadata().len(),
        theirs.metadata().len(),
        "no key is lost or made up"
    );
}

#[test]
fn a_quantized_model_runs_and_says_what_it_is() {
    let out = Scratch(scratch("summary.gguf"));
    let summary = json(&["quantize", "tale", "q8_0", "-o", out.path(), "--json"]);
    let bytes = std::fs::read(&out.0).unwrap();
    assert_eq!(summary["bytes"], bytes.len());
    assert_eq!(summary["type"], "q8_0");
    let file = Gguf::parse(&bytes).unwrap();
    let metadata = file.metadata();
    assert_eq!(metadata.u32("general.file_type"), Ok(Some(7)));
    assert_eq!(metadata.u32("general.quantization_version"), Ok(Some(2)));
    for tensor in file.tensors() {
        let wanted = if tensor.name.contains("norm") {
            GgmlType::F32
        } else {
            GgmlType::Q8_0
        };
        assert_eq!(tensor.ty, wanted, "{}", tensor.name);
    }
    let table = strata(&["logits", out.path(), "--text", "Once upon a"]).text();
    assert!(
        table.lines().next().unwrap().contains("\" time\""),
        "{table}"
    );
}

#[test]
fn threads_do_not_change_a_byte() {
    let one = quantize("tale", "q3_k_m", &["--threads", "1"]);
    let three = quantize("tale", "q3_k_m", &["--threads", "3"]);
    assert!(std::fs::read(&one.0).unwrap() == std::fs::read(&three.0).unwrap());
}

#[test]
fn a_folder_is_quantized_as_convert_does_it() {
    let source = folder("mixtral");
    let converted = Scratch(scratch("mixtral-convert.gguf"));
    strata(&["convert", &source, "-o", converted.path(), "--type", "q8_0"]).text();
    let quantized = quantize(&source, "q8_0", &[]);
    assert!(std::fs::read(&converted.0).unwrap() == std::fs::read(&quantized.0).unwrap());
}

#[test]
fn a_dry_run_shows_the_types_that_were_asked_for() {
    let here = scratch("dry.gguf");
    let run = [
        "quantize",
        "tale",
        "q4_k_m",
        "-o",
        here.to_str().unwrap(),
        "--dry-run",
        "--tensor",
        "blk.1.*attn_v=q8_0",
        "--tensor",
        "ffn_=q5_0",
        "--output-type",
        "f16",
    ];
    let table = json(&[&run[..], &["--json"]].concat());
    assert!(!here.exists());
    let tensors = table["tensors"].as_array().unwrap();
    let ty = |name: &str| {
        let found = tensors.iter().find(|tensor| tensor["name"] == name);
        found.map(|tensor| tensor["to"].as_str().unwrap().to_owned())
    };
    assert_eq!(ty("blk.1.attn_v.weight").as_deref(), Some("Q8_0"));
    assert_eq!(ty("blk.2.ffn_down.weight").as_deref(), Some("Q5_0"));
    assert_eq!(ty("blk.2.attn_q.weight").as_deref(), Some("Q4_K"));
    // The embedding is the output matrix too.
    let output = ty("output.weight").or_else(|| ty("token_embd.weight"));
    assert_eq!(output.as_deref(), Some("F16"));
    assert_eq!(ty("blk.0.ffn_norm.weight").as_deref(), Some("F32"));
    let words = strata(&run).text();
    assert!(words.contains("bits per weight") && words.contains("blk.0.attn_q.weight"));
}

#[test]
fn the_distance_from_the_source_is_measured() {
    let distance = |ty: &str| {
        let out = Scratch(scratch(&format!("verify-{ty}.gguf")));
        let run = [
            "quantize",
            "tale",
            ty,
            "-o",
            out.path(),
            "--verify",
            "--positions",
            "48",
            "--json",
        ];
        let verify = json(&run)["verify"].clone();
        assert_eq!(verify["positions"], 48);
        let top = verify["same_top"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&top));
        (verify["mean_kl"].as_f64().unwrap(), top)
    };
    let (near, same) = distance("f16");
    let (far, _) = distance("q2_k");
    assert!(near < 0.01 && same > 0.9, "{near} {same}");
    assert!(far > 10.0 * near, "{far} {near}");
}

#[test]
fn importance_is_measured_and_used() {
    let text = Scratch::new("calibration", include_bytes!("story.txt"));
    let measure = |name: &str, more: &[&str]| {
        let out = Scratch(scratch(name));
        let run = [
            "imatrix",
            "tale",
            text.path(),
            "-o",
            out.path(),
            "--ctx",
            "64",
            "--chunks",
            "2",
            "--json",
        ];
        let summary = json(&[&run[..], more].concat());
        assert_eq!(summary["chunks"], 2);
        out
    };
    let imatrix = measure("imatrix.gguf", &[]);
    let other = measure("imatrix-batch.gguf", &["--batch", "7", "-t", "1"]);
    let bytes = std::fs::read(&imatrix.0).unwrap();
    assert!(bytes == std::fs::read(&other.0).unwrap());
    let file = Gguf::parse(&bytes).unwrap();
    let metadata = file.metadata();
    assert_eq!(metadata.str("general.type"), Ok(Some("imatrix")));
    assert_eq!(metadata.u32("imatrix.chunk_size"), Ok(Some(64)));
    let counts = file.tensor("blk.0.ffn_down.weight.counts").unwrap();
    assert_eq!(counts.data, 128f32.to_le_bytes());
    assert!(file.tensor("token_embd.weight.in_sum2").is_none());

    let plain = quantize("tale", "q2_k", &[]);
    let weighed = quantize("tale", "q2_k", &["--imatrix", imatrix.path()]);
    let bytes = std::fs::read(&weighed.0).unwrap();
    assert!(bytes.len() > std::fs::metadata(&plain.0).unwrap().len() as usize);
    let metadata = Gguf::parse(&bytes).unwrap().metadata().clone();
    assert_eq!(
        metadata.str("quantize.imatrix.file"),
        Ok(Some(imatrix.path()))
    );
    assert_eq!(
        metadata.str("quantize.imatrix.dataset"),
        Ok(Some(text.path()))
    );
    assert_eq!(metadata.u32("quantize.imatrix.chunks_count"), Ok(Some(2)));
}

#[test]
fn each_experts_tokens_are_counted() {
    let text = Scratch::new("letters", "ABABBA!A".repeat(64).as_bytes());
    let out = Scratch(scratch("experts.gguf"));
    let source = folder("mixtral");
    let run = [
        "imatrix",
        &source,
        text.path(),
        "-o",
        out.path(),
        "--ctx",
        "32",
        "--chunks",
        "3",
    ];
    strata(&run).text();
    let bytes = std::fs::read(&out.0).unwrap();
    let file = Gguf::parse(&bytes).unwrap();
    let floats = |name: &str| -> Vec<f32> {
        let tensor = file.tensor(name).unwrap();
        let (words, _) = tensor.data.as_chunks::<4>();
        words.iter().map(|&word| f32::from_le_bytes(word)).collect()
    };
    let (gate, down) = ("blk.0.ffn_gate_exps.weight", "blk.0.ffn_down_exps.weight");
    let counts = floats(&format!("{gate}.counts"));
    assert!(counts.len() > 1);
    // Every token goes to two experts.
    assert_eq!(counts.iter().sum::<f32>(), 2.0 * 96.0);
    assert_eq!(counts, floats(&format!("{down}.counts")));
    let sums = floats(&format!("{down}.in_sum2"));
    for (expert, sums) in sums.chunks_exact(sums.len() / counts.len()).enumerate() {
        let reached = sums.iter().any(|&sum| sum > 0.0);
        assert_eq!(reached, counts[expert] > 0.0, "{expert}");
    }
    let out = quantize(&source, "q4_0", &["--imatrix", out.path()]);
    strata(&["logits", out.path(), "--tokens", "1,2"]).text();
}

#[test]
fn what_cannot_be_done_is_said() {
    let out = Scratch(scratch("never.gguf"));
    let out = out.path();
    let no = |code, words: &[&str], more: &[&str]| {
        fails(code, words, &[&["quantize", "tale"], more].concat());
    };
    no(
        2,
        &["no matrix", "ffn_sideways"],
        &["q8_0", "-o", out, "--tensor", "ffn_sideways=q8_0"],
    );
    no(
        1,
        &["no-such-file"],
        &["q8_0", "-o", out, "--imatrix", "no-such-file"],
    );
    let text = Scratch::new("not-imatrix", b"once upon a time there was a file");
    no(
        2,
        &["imatrix"],
        &["q8_0", "-o", out, "--imatrix", text.path()],
    );
    no(
        2,
        &["not of an importance matrix"],
        &["q8_0", "-o", out, "--imatrix", TALE],
    );
    no(
        1,
        &["no-such-folder"],
        &["q8_0", "-o", "no-such-folder/a.gguf"],
    );
    fails(
        2,
        &["both the source and the output"],
        &["quantize", TALE, "q8_0", "-o", TALE],
    );
    fails(1, &["nowhere.gguf"], &["quantize", "nowhere.gguf", "q8_0"]);
    let refused = strata(&["quantize", "tale", "q9_z"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("q4_k_m"), "{}", refused.err);
    let short = Scratch::new("short", b"Once");
    fails(
        2,
        &["tokens"],
        &["imatrix", "tale", short.path(), "-o", out],
    );
    assert!(!std::path::Path::new(out).exists());
}
