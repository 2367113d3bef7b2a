//! Hugging Face folders: converted, and run as they are.

use crate::program::{Scratch, fails, scratch, strata};

fn folder(name: &str) -> String {
    format!(
        "{}/../convert/tests/folders/{name}",
        env!("CARGO_MANIFEST_DIR")
    )
}

/// The scores of every position.
fn logits(model: &str, more: &[&str]) -> Vec<u8> {
    let out = Scratch(scratch("logits"));
    let arguments = [
        &["logits", model, "--tokens", "1,5,9,7", "--out", out.path()],
        more,
    ]
    .concat();
    strata(&arguments).text();
    std::fs::read(&out.0).expect("logits were written")
}

#[test]
fn a_folder_runs_with_the_bits_of_its_conversion() {
    for name in ["llama-llama3-rope", "mixtral", "gpt2"] {
        for mix in ["f16", "q8_0"] {
            let gguf = Scratch(scratch(&format!("{name}-{mix}.gguf")));
            strata(&["convert", &folder(name), "-o", gguf.path(), "--type", mix]).text();
            let converted = logits(gguf.path(), &[]);
            assert!(!converted.is_empty());
            assert!(
                logits(&folder(name), &["--quant", mix]) == converted,
                "{name} {mix}"
            );
        }
    }
}

#[test]
fn the_summary_can_be_read_by_a_script() {
    let gguf = Scratch(scratch("summary.gguf"));
    let text = strata(&["convert", &folder("gemma"), "-o", gguf.path(), "--json"]).text();
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(value["type"], "f16");
    assert_eq!(value["tokens"], 48);
    let bytes = std::fs::metadata(&gguf.0).expect("the file is there").len();
    assert_eq!(value["bytes"], bytes);
}

#[test]
fn a_folder_answers() {
    let run = [
        "run",
        &folder("gemma"),
        "AB",
        "-n",
        "4",
        "--temp",
        "0",
        "--raw",
    ];
    let (first, second) = (strata(&run).text(), strata(&run).text());
    assert_eq!(first, second);
}

#[test]
fn an_adapter_of_peft_changes_the_answer_and_one_for_another_model_is_refused() {
    let adapter = |name: &str| folder(&format!("../adapters/{name}"));
    let (llama, own) = (folder("llama-llama3-rope"), adapter("llama"));
    let run = |more: &[&str]| {
        let run = ["run", &llama, "AB", "-n", "12", "--temp", "0", "--raw"];
        strata(&[&run[..], more].concat()).text()
    };
    let (plain, with) = (run(&[]), run(&["--lora", &own]));
    assert_ne!(plain, with);
    assert_eq!(with, run(&["--lora", &format!("{own}=1.0")]));
    assert_eq!(plain, run(&["--lora", &format!("{own}=0")]));
    let gpt2 = adapter("gpt2");
    fails(
        3,
        &["gpt2", "lora"],
        &["run", &llama, "AB", "--raw", "--lora", &gpt2],
    );
    let strength = format!("{own}=much");
    fails(
        2,
        &["much"],
        &["run", &llama, "AB", "--raw", "--lora", &strength],
    );
}

#[test]
fn what_cannot_be_converted_is_said() {
    let out = Scratch(scratch("no.gguf"));
    fails(
        1,
        &["no-such-folder"],
        &["convert", "no-such-folder", "-o", out.path()],
    );
    let torch = format!(
        "{}/../weights/tests/torch_files/bad_call.bin",
        env!("CARGO_MANIFEST_DIR")
    );
    fails(1, &["config.json"], &["convert", &torch, "-o", out.path()]);
    fails(
        2,
        &["q4_k_m"],
        &[
            "convert",
            &folder("gemma"),
            "-o",
            out.path(),
            "--type",
            "q9",
        ],
    );
    assert!(!out.0.exists());
    let gguf = Scratch::new("plain.gguf", b"GGUF");
    fails(
        2,
        &["--quant"],
        &["logits", gguf.path(), "--tokens", "1", "--quant", "q8_0"],
    );
}

/// A copy of a folder whose `config.json` says something else.
fn changed(name: &str, change: &[(&str, serde_json::Value)]) -> tempfile::TempDir {
    let copy = tempfile::tempdir().expect("a folder");
    for entry in std::fs::read_dir(folder(name)).expect("the folder") {
        let path = entry.expect("an entry").path();
        if path.is_file() {
            let to = copy.path().join(path.file_name().expect("a name"));
            std::fs::copy(&path, to).expect("a copy");
        }
    }
    let config = copy.path().join("config.json");
    let text = std::fs::read(&config).expect("the config");
    let mut value: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    for (key, change) in change {
        value[key] = change.clone();
    }
    std::fs::write(config, value.to_string()).expect("written");
    copy
}

#[test]
fn what_would_not_run_is_not_converted() {
    let changes = [
        // A layer that the checkpoint does not have, and one that it has too many.
        ("num_hidden_layers", 3.into(), "blk.2"),
        ("num_hidden_layers", 1.into(), "blk.1"),
        ("intermediate_size", 41.into(), "ffn"),
    ];
    for (key, value, expected) in changes {
        let copy = changed("llama-llama3-rope", &[(key, value)]);
        let source = copy.path().to_str().expect("a text");
        let out = Scratch(scratch("refused.gguf"));
        let run = ["run", source, "AB", "--raw", "-n", "1"];
        fails(3, &[expected], &run);
        let refusal = strata(&run).err;
        let sentence = refusal.lines().find(|line| line.starts_with("error: "));
        let sentence = sentence.expect("an error");
        fails(3, &[sentence], &["convert", source, "-o", out.path()]);
        fails(
            3,
            &[expected],
            &["quantize", source, "q8_0", "-o", out.path()],
        );
        assert!(!out.0.exists(), "{key}");
    }
}
