//! Logits, perplexity and speed.

mod program;

use program::{Scratch, command, finish, scratch, strata, strata_reading, tale};
use serde_json::Value;
use strata_learn::decoder::Decoder;
use strata_weights::Gguf;

/// Short stories.
const STORY: &str = include_str!("story.txt");

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&strata(arguments).text()).expect("JSON")
}

#[test]
fn logits_of_all_positions_have_the_same_bits_in_any_batch() {
    let tokens = "300,14,550,291,607,896,965,1324,2891,2336,3108,815";
    let mut files = Vec::new();
    for batch in ["1", "5", "512"] {
        let file = Scratch(scratch(&format!("logits-{batch}")));
        let table = strata(&[
            "logits",
            "tale",
            "--tokens",
            tokens,
            "--batch",
            batch,
            "--out",
            file.path(),
        ]);
        let table = table.text();
        assert_eq!(table.lines().count(), 10);
        let bytes = std::fs::read(&file.0).unwrap();
        assert_eq!(bytes.len(), 12 * 8192 * 4);
        let last: Vec<f32> = bytes[11 * 8192 * 4..]
            .as_chunks::<4>()
            .0
            .iter()
            .map(|&b| f32::from_le_bytes(b))
            .collect();
        let likeliest = (0..last.len()).max_by(|&a, &b| last[a].total_cmp(&last[b]));
        let first = table.split_whitespace().next().unwrap();
        assert_eq!(first.parse(), Ok(likeliest.unwrap()));
        files.push(bytes);
    }
    assert!(files.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn the_next_word_is_foretold() {
    let table = strata(&["logits", "tale", "--text", "Once upon a"]).text();
    let first = table.lines().next().unwrap();
    assert!(first.contains("\" time\""), "{table}");
    let probability: f32 = first.split_whitespace().last().unwrap().parse().unwrap();
    assert!(probability > 0.8, "{table}");
}

/// The perplexity that plain arithmetic finds, in chunks of which the second half is scored.
fn plain_perplexity(text: &str, chunk: usize) -> f64 {
    let tokens = strata(&["tokenize", "tale", "--json", text]).text();
    let tokens: Vec<u32> = serde_json::from_str(&tokens).unwrap();
    let file = std::fs::read(tale()).unwrap();
    let mut decoder = Decoder::from_gguf(&Gguf::parse(&file).unwrap()).unwrap();
    let (mut total, mut count) = (0.0, 0);
    for chunk in tokens.chunks_exact(chunk) {
        for (position, pair) in chunk.windows(2).enumerate() {
            let logits = decoder.forward(pair[0], position);
            if position < chunk.len() / 2 {
                continue;
            }
            let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let sum: f64 = logits.iter().map(|x| f64::from(x - max).exp()).sum();
            total += f64::from(max) + sum.ln() - f64::from(logits[pair[1] as usize]);
            count += 1;
        }
    }
    (total / f64::from(count)).exp()
}

#[test]
fn perplexity_is_that_of_plain_arithmetic() {
    let story: String = STORY.chars().take(1200).collect();
    let text = Scratch::new("story", story.as_bytes());
    let run = ["perplexity", "tale", text.path(), "--ctx", "64", "-t", "1"];
    let measured = json(&[&run[..], &["--json"]].concat());
    let perplexity = measured["perplexity"].as_f64().unwrap();
    let plain = plain_perplexity(&story, 64);
    assert!(
        (perplexity / plain - 1.0).abs() < 0.01,
        "{perplexity} {plain}"
    );
    assert!(measured["error"].as_f64().unwrap() > 0.0);
    let other = [
        "perplexity",
        "tale",
        text.path(),
        "--ctx",
        "64",
        "--batch",
        "7",
    ];
    assert_eq!(json(&[&other[..], &["--json"]].concat()), measured);
    let lines = strata(&run).text();
    let last = lines.lines().last().unwrap();
    assert!(
        last.contains(&format!("perplexity {perplexity:.4} ±")),
        "{lines}"
    );
}

#[test]
fn bench_reports_what_it_measured() {
    let mut scalar = command();
    let run = [
        "bench", "tale", "-p", "16", "-n", "4", "-t", "1", "--repeat", "1", "--json",
    ];
    scalar.args(run).env("STRATA_ISA", "scalar");
    let report: Value = serde_json::from_str(&finish(scalar).text()).unwrap();
    for key in ["prefill_tok_s", "decode_tok_s", "peak_rss_bytes", "load_s"] {
        assert!(report[key].as_f64().unwrap() > 0.0, "{key}: {report}");
    }
    assert_eq!(report["isa"], "scalar");
    assert_eq!(report["threads"], 1);
    assert_eq!(report["model"], "tale");
    let words = strata(&["bench", "tale", "-p", "8", "-n", "2", "--repeat", "2"]).text();
    assert!(
        words.contains("prefill") && words.contains("decode"),
        "{words}"
    );
}

/// A folder of its own with a synthetic model in it.
fn synthetic(shape: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model.gguf");
    let model = model.to_str().unwrap().to_owned();
    strata(&["synth", model.as_str(), "--shape", shape, "--mix", "q8_0"]).text();
    (folder, model)
}

#[test]
fn bench_follows_an_image_from_its_file_to_logits() {
    let (folder, model) = synthetic("tiny-vision");
    let model = model.as_str();
    let found = json(&[
        "bench",
        model,
        "--image",
        "--repeat",
        "1",
        "-t",
        "1",
        "--float-peak",
        "--json",
    ]);
    // 56 pixels are four patches on a side, and one position.
    assert_eq!(found["image"], serde_json::json!([1024, 1024]));
    assert_eq!(found["patches"], 16);
    assert_eq!(found["positions"], 1);
    let stages = ["decode_s", "fit_s", "tower_s", "projector_s", "prefill_s"];
    let sum: f64 = stages
        .iter()
        .map(|name| found[name].as_f64().unwrap())
        .sum();
    assert!(stages.iter().all(|name| found[name].as_f64() > Some(0.0)));
    assert!((sum - found["total_s"].as_f64().unwrap()).abs() < 1e-9);
    assert!(found["float_share"].as_f64() > Some(0.0));
    let words = strata(&["bench", model, "--image", "--repeat", "2"]).text();
    assert!(
        words.contains("tower") && words.contains("Tflop/s"),
        "{words}"
    );
    // The projector is found beside the model, and asked for where it is not.
    let beside = folder.path().join("mmproj-model.gguf");
    let elsewhere = folder.path().join("eyes.gguf");
    std::fs::rename(beside, &elsewhere).unwrap();
    let refused = strata(&["bench", model, "--image"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("no projector"), "{}", refused.err);
    let elsewhere = elsewhere.to_str().unwrap();
    strata(&[
        "bench", model, "--image", "--mmproj", elsewhere, "--repeat", "1",
    ])
    .text();
}

#[test]
fn bench_hears_a_minute() {
    let (_folder, model) = synthetic("tiny-whisper");
    let model = model.as_str();
    let found = json(&[
        "bench", model, "-n", "4", "--repeat", "1", "-t", "1", "--json",
    ]);
    for name in ["mel_s", "encoder_s", "first_s", "window_s", "decode_tok_s"] {
        assert!(found[name].as_f64() > Some(0.0), "{name}: {found}");
    }
    assert_eq!(found["decode_tokens"], 4);
    let turns = strata_reading(
        &["bench", model, "-n", "4", "-t", "1", "--in-turns", "--json"],
        "audio\naudio\n",
    );
    assert_eq!(turns.text().lines().count(), 3);
}

#[test]
fn bench_takes_a_turn_for_each_line() {
    let run = [
        "bench",
        "tale",
        "-p",
        "16",
        "-n",
        "4",
        "--ctx-used",
        "8",
        "--json",
        "--in-turns",
    ];
    let text = strata_reading(&run, "decode\nprefill\ndecode\n").text();
    let answers: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let [turns @ .., report] = &answers[..] else {
        panic!("nothing in {text}");
    };
    assert_eq!(turns.len(), 3, "{text}");
    for turn in turns {
        assert!(turn["tok_s"].as_f64().unwrap() > 0.0, "{turn}");
    }
    assert!(report["peak_rss_bytes"].as_f64().unwrap() > 0.0, "{report}");
    let refused = strata_reading(&run, "decode\nsing\n");
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.err.contains("unknown measurement \"sing\""),
        "{}",
        refused.err
    );
}

#[test]
fn bench_measures_beside_the_machine_and_many_texts() {
    let report = json(&[
        "bench",
        "tale",
        "-p",
        "40",
        "-n",
        "40",
        "--ctx-used",
        "64",
        "--sequences",
        "3",
        "--speculate=4",
        "--read-bandwidth",
        "--int-peak",
        "--repeat",
        "1",
        "--json",
    ]);
    for key in [
        "aggregate_tok_s",
        "speculated_tok_s",
        "unspeculated_tok_s",
        "read_bandwidth_bytes_s",
        "int_peak_ops_s",
        "bytes_per_token",
        "ops_per_token",
        "read_share",
        "int_share",
    ] {
        assert!(report[key].as_f64().unwrap() > 0.0, "{key}: {report}");
    }
    assert_eq!(report["ctx_used"], 64);
    assert_eq!(report["sequences"], 3);
    // The text repeats its prompt but for a token now and then, so most guesses are right.
    let tokens = |key: &str| report[key].as_f64().unwrap();
    assert!(tokens("accepted_tokens") > 20.0, "{report}");
    assert!(
        tokens("drafted_tokens") >= tokens("accepted_tokens"),
        "{report}"
    );
}
