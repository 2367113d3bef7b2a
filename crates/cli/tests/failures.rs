//! Every failure is one sentence and an exit code, within a second.

use crate::program::server::{Server, TestFolder};
use crate::program::{Edit, Scratch, command, fails, finish, scratch, strata, tale, tiny};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};
use strata_weights::gguf::{Builder, Dims};
use strata_weights::{Gguf, Value};

const FAILED: i32 = 1;
const USAGE: i32 = 2;
const BAD_MODEL: i32 = 3;
const OUT_OF_MEMORY: i32 = 4;

/// `run` refuses this file.
#[track_caller]
fn refuses(name: &str, file: &[u8], words: &[&str]) {
    let file = Scratch::new(name, file);
    fails(BAD_MODEL, words, &["run", file.path(), "Hello"]);
}

#[test]
fn command_lines_that_make_no_sense() {
    fails(USAGE, &["sing"], &["sing"]);
    fails(USAGE, &["--loudly"], &["run", "--loudly"]);
    fails(USAGE, &["prompt is empty"], &["run", "tale", ""]);
    fails(USAGE, &["prompt is empty"], &["run", "tale"]);
    fails(
        USAGE,
        &["--threads"],
        &["run", "tale", "x", "--threads", "0"],
    );
    fails(USAGE, &["--kv"], &["run", "tale", "x", "--kv", "q3"]);
    fails(USAGE, &["--max-tokens"], &["run", "tale", "x", "-n", "0"]);
    fails(
        USAGE,
        &["--system", "--raw"],
        &["run", "tale", "x", "--raw", "--system", "y"],
    );
    fails(USAGE, &["--tokens"], &["logits", "tale"]);
}

#[test]
fn sampling_settings_out_of_range() {
    for (flag, value) in [
        ("--temp", "nan"),
        ("--temp", "-1"),
        ("--temp", "inf"),
        ("--top-p", "1.5"),
        ("--min-p", "-0.1"),
        ("--repeat-penalty", "0"),
        ("--typical", "nan"),
        ("--xtc-probability", "2"),
        ("--dry-base", "0.5"),
        ("--mirostat-tau", "-3"),
        ("--logit-bias", "5=nan"),
    ] {
        fails(USAGE, &["must be"], &["run", "tale", "x", flag, value]);
    }
    fails(
        USAGE,
        &["TOKEN=BIAS"],
        &["run", "tale", "x", "--logit-bias", "5"],
    );
    let unknown = ["run", "tale", "x", "--logit-bias", "99999=1"];
    fails(USAGE, &["99999", "8192"], &unknown);
}

#[test]
fn instruction_sets_that_are_not_there() {
    for name in ["sse9", "neon"] {
        let mut command = command();
        command.args(["run", "tale", "x"]).env("STRATA_ISA", name);
        let run = finish(command);
        assert_eq!(run.code, Some(USAGE));
        assert!(
            run.err.contains(name) && run.err.contains("scalar"),
            "{}",
            run.err
        );
    }
}

#[test]
fn ids_that_are_not_in_the_vocabulary() {
    fails(
        USAGE,
        &["99999", "8192"],
        &["logits", "tale", "--tokens", "1,99999"],
    );
    fails(USAGE, &["-1"], &["logits", "tale", "--tokens=-1"]);
    fails(USAGE, &["99999"], &["detokenize", "tale", "99999"]);
    fails(USAGE, &["abc"], &["detokenize", "tale", "abc"]);
}

#[test]
fn prompts_that_do_not_fit() {
    let long = "word ".repeat(400);
    fails(
        USAGE,
        &["64", "--ctx"],
        &["run", "tale", "--ctx", "64", &long],
    );
}

#[test]
fn files_that_are_not_there_or_no_files() {
    let nowhere = scratch("nowhere.gguf");
    let nowhere = nowhere.to_str().unwrap();
    for command in ["run", "inspect", "bench"] {
        fails(FAILED, &[nowhere, "strata list"], &[command, nowhere]);
    }
    fails(FAILED, &[nowhere], &["perplexity", "tale", nowhere]);
    fails(
        USAGE,
        &["is not a file"],
        &["run", env!("CARGO_TARGET_TMPDIR"), "x"],
    );
    // A separator asks for a file.
    fails(FAILED, &["./tale"], &["run", "./tale", "x"]);
}

#[test]
fn files_that_are_no_models() {
    refuses("empty", b"", &["not a GGUF file", "empty"]);
    for text in ["Once upon a time there was a file.", "é", &"ä".repeat(400)] {
        refuses("text", text.as_bytes(), &["not a GGUF file: it is a text"]);
    }
    refuses("other", &[0xff; 64], &["not a GGUF file"]);
    let file = tiny("truncated");
    for share in [1, 10, 50, 99] {
        let cut = file.len() * share / 100;
        refuses("truncated", &file[..cut], &["truncated"]);
    }
}

#[test]
fn architectures_and_tokenizers_that_are_not_known() {
    let file = tiny("unknown");
    let arch = Edit::new(&file).set("general.architecture", Value::Str("lama"));
    refuses(
        "arch",
        &arch.write(),
        &["\"lama\"", "strata inspect --architectures"],
    );
    let tokenizer = Edit::new(&file).set("tokenizer.ggml.model", Value::Str("morse"));
    refuses("tokenizer", &tokenizer.write(), &["\"morse\""]);
    let splitter = Edit::new(&file).set("tokenizer.ggml.pre", Value::Str("scissors"));
    refuses("splitter", &splitter.write(), &["\"scissors\""]);
}

#[test]
fn tensors_that_are_missing_surplus_or_misshapen() {
    let file = tiny("tensors");
    let name = "blk.2.ffn_up.weight";
    let mut missing = Edit::new(&file);
    missing.tensors.retain(|tensor| tensor.name != name);
    refuses("missing", &missing.write(), &[name, "missing"]);

    let mut surplus = Edit::new(&file);
    let mut tensor = surplus.tensor(name).clone();
    tensor.name = "blk.2.ffn_sideways.weight";
    surplus.tensors.push(tensor);
    refuses("surplus", &surplus.write(), &["blk.2.ffn_sideways.weight"]);

    let mut misshapen = Edit::new(&file);
    misshapen.tensor(name).dims = Dims::new(&[256, 512]).unwrap();
    refuses(
        "misshapen",
        &misshapen.write(),
        &[name, "[256, 512]", "[256, 768]"],
    );
}

#[test]
fn sizes_that_no_model_has() {
    let file = tiny("sizes");
    for (key, value) in [
        ("llama.block_count", 0),
        ("llama.block_count", u32::MAX),
        ("llama.embedding_length", 1 << 31),
        ("llama.attention.head_count", 0),
        ("llama.attention.head_count_kv", 3),
        ("llama.feed_forward_length", u32::MAX),
        ("llama.context_length", 0),
    ] {
        let edit = Edit::new(&file).set(key, Value::U32(value));
        refuses("size", &edit.write(), &[]);
    }
}

#[test]
fn a_vocabulary_larger_than_the_model() {
    let file = tiny("words");
    let gguf = Gguf::parse(&file).unwrap();
    let mut builder = Builder::new();
    for (key, value) in gguf.metadata().iter() {
        let more = format!("{key} and one more");
        match (key, value) {
            ("tokenizer.ggml.tokens", Value::Array(tokens)) => {
                builder.set_array(key, tokens.strs().unwrap().chain([more.as_str()]))
            }
            ("tokenizer.ggml.token_type", Value::Array(types)) => {
                builder.set_array(key, types.i32s().unwrap().chain([1]))
            }
            _ => builder.set_value(key, value),
        }
        .unwrap();
    }
    let mut layout = Edit::new(&file);
    let tensors = std::mem::take(&mut layout.tensors);
    for tensor in &tensors {
        builder
            .tensor(tensor.name, tensor.ty, &tensor.dims)
            .unwrap();
    }
    let mut bytes = builder.finish().unwrap().header;
    for tensor in &tensors {
        bytes.extend_from_slice(tensor.data);
        bytes.resize(bytes.len().next_multiple_of(32), 0);
    }
    refuses("words", &bytes, &["2049", "2048"]);
}

#[test]
fn weights_that_are_no_numbers() {
    let file = tiny("nan");
    let nan: Vec<u8> = [f32::NAN; 256]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let mut edit = Edit::new(&file);
    edit.tensor("output_norm.weight").data = &nan;
    refuses("nan", &edit.write(), &["NaN"]);
}

#[test]
fn templates_that_raise_or_cannot_be_read() {
    let file = tiny("raises");
    let key = "tokenizer.chat_template";
    let raises = "{{ raise_exception('only on Sundays') }}";
    let raises = Scratch::new(
        "raises",
        &Edit::new(&file).set(key, Value::Str(raises)).write(),
    );
    let words = ["only on Sundays", "--raw"];
    fails(FAILED, &words, &["run", raises.path(), "Hello"]);
    let edit = Edit::new(&file).set(key, Value::Str("{% for %}"));
    refuses("template", &edit.write(), &["template"]);
}

#[test]
fn more_memory_than_there_is() {
    let huge = ["run", "tale", "--ctx", "4294967295", "x"];
    fails(OUT_OF_MEMORY, &["4294967295", "--ctx"], &huge);
}

/// The machine has it, but the process may not.
#[cfg(unix)]
#[test]
fn more_memory_than_the_process_may_have() {
    let program = env!("CARGO_BIN_EXE_strata");
    let mut limited = std::process::Command::new("sh");
    limited.args([
        "-c",
        &format!("ulimit -v 200000; exec '{program}' run tale --threads 1 --ctx 50000 x"),
    ]);
    let run = finish(limited);
    assert_eq!(run.code, Some(OUT_OF_MEMORY), "{}", run.err);
    assert!(
        run.err.contains("error: ") && run.err.contains("memory"),
        "{}",
        run.err
    );
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let mut command = command();
    command.args(["run", "tale", "Tell me a long story.", "--seed", "1"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0]).unwrap();
    drop(out);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_model_without_its_tokenizer_still_computes() {
    let file = tiny("wordless");
    let mut edit = Edit::new(&file);
    edit.metadata
        .retain(|(key, _)| !key.starts_with("tokenizer."));
    let model = Scratch::new("wordless", &edit.write());
    let lines = strata(&["logits", model.path(), "--tokens", "1,2,3"]).text();
    assert_eq!(lines.lines().count(), 10);
    fails(BAD_MODEL, &["tokenizer"], &["run", model.path(), "x"]);
}

/// Windows lets nobody shorten a file that is in use.
#[cfg(unix)]
#[test]
fn a_model_that_is_cut_short_while_it_runs_fails_alone() {
    let folder = TestFolder::new("cut-short");
    let file = folder.path().join("cut.gguf");
    std::fs::copy(tale(), &file).unwrap();
    let models = [file.to_str().unwrap(), "tale", "--stream", "always"];
    let server = Server::start(&folder.store(), &models);
    let ask = |model: &str, text: &str| {
        let body = serde_json::json!({"model": model, "prompt": text, "max_tokens": 4});
        server.ask("POST", "/v1/completions", body.to_string().as_bytes())
    };
    for model in ["cut", "tale"] {
        let (status, body) = ask(model, "Once upon a time");
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    }
    let length = std::fs::metadata(&file).unwrap().len();
    let opened = std::fs::File::options().write(true).open(&file).unwrap();
    opened.set_len(length / 2).unwrap();
    let (status, body) = ask("cut", "There was a dog");
    let told = String::from_utf8_lossy(&body).into_owned();
    assert!(
        status == 500 && told.contains("cut short"),
        "{status}: {told}"
    );
    assert_eq!(ask("tale", "There was a dog").0, 200);
    assert_eq!(server.ask("GET", "/health", b"").0, 200);
}

#[test]
fn uploads_that_dawdle_hold_up_no_answer() {
    let folder = TestFolder::new("dawdling");
    let server = Server::start(&folder.store(), &["tale"]);
    let body = serde_json::json!({"model": "tale", "prompt": "Once", "max_tokens": 2}).to_string();
    let digest = "0".repeat(64);
    let head = format!(
        "POST /api/blobs/sha256:{digest} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9999\r\n\r\n "
    );
    // More than the threads that a runtime has for work that blocks.
    let uploads: Vec<TcpStream> = (0..540)
        .map(|_| {
            let mut stream = TcpStream::connect(&server.host).unwrap();
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    let (status, answer) = server.ask("POST", "/v1/completions", body.as_bytes());
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&answer));
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
    drop(uploads);
}
