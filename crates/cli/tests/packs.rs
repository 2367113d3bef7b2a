//! `strata pack`: executables that answer as the program does, and what is refused.

use crate::program::server::{Server, TestFolder};
use crate::program::{Run, fails, finish, strata, tiny};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const FAILED: i32 = 1;
const USAGE: i32 = 2;
const BAD_MODEL: i32 = 3;
const GREEDY: [&str; 5] = ["--temp", "0", "-n", "12", "Once upon a time"];

fn path(folder: &TestFolder, name: &str) -> String {
    folder.path().join(name).to_str().unwrap().into()
}

/// Runs an artifact, or another program.
fn start(program: &str, words: &[&str]) -> Run {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null());
    finish(command)
}

fn small_model(folder: &TestFolder, name: &str) -> String {
    let path = path(folder, name);
    std::fs::write(&path, tiny(name)).unwrap();
    path
}

#[test]
fn an_executable_answers_as_the_program_does() {
    let folder = TestFolder::new("pack-run");
    let out = path(&folder, "story.run");
    strata(&["pack", "tale", "-o", &out]).text();
    let expected = strata(&[&["run", "tale"], &GREEDY[..]].concat()).text();
    assert_eq!(start(&out, &GREEDY).text(), expected);
    assert_eq!(
        start(&out, &[&["run"], &GREEDY[..]].concat()).text(),
        expected
    );
    // The model inside is a model like others.
    let inside = format!("{out}/models/tale.gguf");
    let words = [&["run", inside.as_str()], &GREEDY[..]].concat();
    assert_eq!(strata(&words).text(), expected);
    let missing = format!("{out}/models/tail.gguf");
    fails(
        BAD_MODEL,
        &["models/tail.gguf", "models/tale.gguf"],
        &["plan", &missing],
    );
    // It packs itself again, without what is behind it.
    let again = path(&folder, "again.run");
    start(&out, &["strata", "pack", &inside, "-o", &again]).text();
    assert!(std::fs::read(&out).unwrap() == std::fs::read(&again).unwrap());
    assert!(start(&out, &["--help"]).text().contains("unzip PROGRAM"));
    assert!(start(&out, &["manifest"]).text().contains("tale.gguf"));
}

#[test]
fn an_executable_serves() {
    let folder = TestFolder::new("pack-serve");
    let (model, out) = (small_model(&folder, "tiny.gguf"), path(&folder, "tiny.run"));
    strata(&[
        "pack",
        &model,
        "-o",
        &out,
        "--start",
        "serve",
        "--system",
        "Be brief.",
    ])
    .text();
    let mut command = Command::new(&out);
    command
        .env("OLLAMA_MODELS", folder.store())
        .args(["--threads", "1"]);
    let server = Server::spawn(command);
    let (status, body) = server.ask("GET", "/v1/models", b"");
    assert_eq!(status, 200);
    assert!(String::from_utf8_lossy(&body).contains("tiny"));
    let (_, shown) = server.ask("POST", "/api/show", br#"{"model":"tiny"}"#);
    assert!(String::from_utf8_lossy(&shown).contains("Be brief."));
    let health = |word: &str, host: &str| {
        let mut command = Command::new(&out);
        finish({
            command.arg(word).env("OLLAMA_HOST", host);
            command
        })
    };
    assert_eq!(health("health", &server.host).code, Some(0));
    let status = health("status", &server.host).text();
    assert!(status.contains("answered: after"), "{status}");
    let gone = server.host.clone();
    drop(server);
    for word in ["health", "status"] {
        assert_eq!(health(word, &gone).code, Some(FAILED), "{word}");
    }
}

#[cfg(unix)]
#[test]
fn an_executable_serves_at_a_socket() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TestFolder::new("pack-socket");
    let (model, out) = (small_model(&folder, "tiny.gguf"), path(&folder, "tiny.run"));
    let words = ["pack", &model, "-o", &out, "--start", "socket"];
    strata(&[&words[..], &["--name", "fox"]].concat()).text();
    let ask = |word: &[&str], runtime: &str| {
        let mut command = Command::new(&out);
        command.args(word).env("XDG_RUNTIME_DIR", runtime);
        finish(command)
    };
    let runtime = folder.path().to_str().unwrap();
    let refused = ask(&[], "");
    assert_eq!(refused.code, Some(USAGE), "{}", refused.err);
    assert!(refused.err.contains("--socket PATH"), "{}", refused.err);
    let socket = folder.path().join("fox.sock");
    let mut server = Command::new(&out)
        .env("XDG_RUNTIME_DIR", runtime)
        .env("OLLAMA_MODELS", folder.store())
        .args(["--threads", "1", "--log-level", "error"])
        .spawn()
        .unwrap();
    for _ in 0..600 {
        if socket.exists() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let mode = std::fs::metadata(&socket).map(|file| file.permissions().mode() & 0o777);
    let status = ask(&["status"], runtime);
    let health = ask(&["health"], runtime).code;
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(mode.unwrap(), 0o600);
    assert_eq!(health, Some(0));
    let status = status.text();
    assert!(status.contains("fox.sock"), "{status}");
    assert!(status.contains("answered: after"), "{status}");
    assert_eq!(ask(&["health"], runtime).code, Some(FAILED));
    // Words say otherwise.
    let said = ask(&[&["run"], &GREEDY[..]].concat(), "").text();
    let expected = strata(&[&["run", model.as_str()], &GREEDY[..]].concat()).text();
    assert_eq!(said, expected);
}

#[test]
fn a_package_holds_the_executable() {
    let folder = TestFolder::new("pack-deb");
    let (model, out) = (small_model(&folder, "tiny.gguf"), path(&folder, "tiny.deb"));
    strata(&["pack", &model, "-o", &out]).text();
    let verified = strata(&["pack", "--verify", &out]).text();
    assert!(verified.contains("every byte"), "{verified}");
    let root = path(&folder, "root");
    let unpacked = Command::new("dpkg-deb").args(["-x", &out, &root]).status();
    let Ok(unpacked) = unpacked else {
        eprintln!("dpkg-deb is not here");
        return;
    };
    assert!(unpacked.success());
    let expected = strata(&[&["run", model.as_str()], &GREEDY[..]].concat()).text();
    let program = format!("{root}/usr/bin/strata-tiny");
    assert_eq!(start(&program, &GREEDY).text(), expected);
}

#[test]
fn bootable_images_know_their_models_digest() {
    let folder = TestFolder::new("pack-image");
    let (kernel, out) = (path(&folder, "kernel.elf"), path(&folder, "a.img"));
    std::fs::write(&kernel, crate::fake::kernel()).unwrap();
    let model = small_model(&folder, "m.gguf");
    let words = [
        "pack",
        &model,
        "-o",
        &out,
        "--kernel",
        &kernel,
        "--insecure-no-auth",
    ];
    strata(&[&words[..], &["--ctx", "64"]].concat()).text();
    let image = std::fs::read(&out).unwrap();
    let digest = strata_pack::sha256(&std::fs::read(&model).unwrap());
    let settings = format!("name = \"m\"\nctx = \"64\"\nsha256 = \"{digest}\"\n");
    let found = image
        .windows(settings.len())
        .any(|window| window == settings.as_bytes());
    assert!(found, "{settings}");
    let refused = [&words[..], &["--system", "x"]].concat();
    fails(USAGE, &["--system", "bootable image"], &refused);
}

#[test]
fn the_largest_model_that_fits_is_used() {
    let folder = TestFolder::new("pack-choice");
    let (large, small) = (path(&folder, "large.gguf"), path(&folder, "small.gguf"));
    for (path, mix) in [(&large, "f16"), (&small, "q4_0")] {
        strata(&["synth", path, "--shape", "tiny", "--mix", mix]).text();
    }
    let out = path(&folder, "both.run");
    // In whatever order they are named.
    strata(&["pack", &small, &large, "-o", &out, "--ctx", "64"]).text();
    let plan = |model: &str| strata(&["plan", model, "--json", "--ctx", "64"]).out;
    let (large, small) = (plan(&large), plan(&small));
    let (most, least) = (number(&large, "total_bytes"), number(&small, "total_bytes"));
    assert!(most > least + (1 << 20));
    let chosen = |memory: u64| {
        let memory = memory.to_string();
        let plan = start(&out, &["plan", "--json", "--memory", &memory]).out;
        number(&plan, "weights_bytes")
    };
    let weights = |plan: &[u8]| number(plan, "weights_bytes");
    assert_eq!(chosen(most + (1 << 20)), weights(&large));
    assert_eq!(chosen(most.midpoint(least)), weights(&small));
    assert_eq!(chosen(least - (1 << 20)), weights(&small));
    let short = start(&out, &["plan", "--memory", "1M"]);
    assert_eq!(short.code, Some(4));
}

#[test]
fn an_engine_that_fits_is_kept() {
    let folder = TestFolder::new("pack-engines");
    let (large, small) = (path(&folder, "large.gguf"), path(&folder, "small.gguf"));
    for (path, mix) in [(&large, "f16"), (&small, "q4_0")] {
        strata(&["synth", path, "--shape", "tiny", "--mix", mix]).text();
    }
    let (out, file) = (path(&folder, "both.run"), path(&folder, "engine"));
    strata(&["pack", &large, &small, "-o", &out, "--ctx", "64"]).text();
    let with = |words: &[&str]| {
        let mut command = Command::new(&out);
        command.args(words).env("STRATA_ENGINE_FILE", &file);
        finish(command)
    };
    let weights = || number(&with(&["plan", "--json"]).out, "weights_bytes");
    let automatic = weights();
    assert_eq!(with(&["use-engine", "--auto"]).text().trim(), "large");
    assert_eq!(weights(), automatic);
    assert_eq!(with(&["use-engine", "small"]).text().trim(), "small");
    assert!(weights() < automatic);
    let listed = with(&["engines"]).text();
    assert!(
        listed.contains("* small") && listed.contains("  large"),
        "{listed}"
    );
    for words in [
        &["use-engine", "none"][..],
        &["use-engine"],
        &["use-engine", "a", "b"],
    ] {
        assert_eq!(with(words).code, Some(USAGE), "{words:?}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "small\n");
    // There is no place to keep it.
    assert_eq!(start(&out, &["use-engine", "small"]).code, Some(USAGE));
    // One that the artifact does not have any more.
    std::fs::write(&file, "gone\n").unwrap();
    let refused = with(&["plan"]);
    assert_eq!(refused.code, Some(USAGE));
    assert!(refused.err.contains("small"), "{}", refused.err);
}

fn number(json: &[u8], key: &str) -> u64 {
    let json: serde_json::Value = serde_json::from_slice(json).unwrap();
    json[key].as_u64().unwrap()
}

#[test]
fn modelfiles_come_along() {
    let folder = TestFolder::new("pack-modelfile");
    let model = small_model(&folder, "base.gguf");
    let modelfile = format!(
        "FROM {model}\nSYSTEM Be a fox.\nPARAMETER num_predict 5\nPARAMETER seed 7\n\
         TEMPLATE \"\"\"{{{{ .System }}}} {{{{ .Prompt }}}}\"\"\"\nLICENSE Only for foxes.\n"
    );
    folder.create("fox", &modelfile);
    let out = path(&folder, "fox.run");
    folder.strata(&["pack", "fox", "-o", &out], "").text();
    let json = strata(&["pack", "--inspect", &out, "--json"]).text();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let packed = &json["models"][0];
    assert_eq!(packed["licenses"][0], "Only for foxes.");
    assert_eq!(packed["preset"]["system"], "Be a fox.");
    let expected = folder.strata(&["run", "fox", "Hello"], "");
    assert_eq!(start(&out, &["Hello"]).out, expected.out);
    assert_eq!(expected.code, Some(0), "{}", expected.err);
}

#[test]
fn signed_artifacts_are_refused_once_they_are_changed() {
    let folder = TestFolder::new("pack-sign");
    let (model, out) = (small_model(&folder, "m.gguf"), path(&folder, "m.run"));
    let (key, other) = (path(&folder, "key"), path(&folder, "other"));
    for key in [&key, &other] {
        strata(&["pack", "--new-key", key]).text();
    }
    fails(FAILED, &["key", "exists"], &["pack", "--new-key", &key]);
    let (key_pub, other_pub) = (format!("{key}.pub"), format!("{other}.pub"));
    strata(&["pack", &model, "-o", &out, "--sign", &key]).text();
    let whole = std::fs::read(&out).unwrap();
    strata(&["pack", &model, "-o", &out, "--sign", &key]).text();
    assert!(std::fs::read(&out).unwrap() == whole, "the same bytes");
    let text = strata(&["pack", "--verify", &out, "--key", &key_pub]).text();
    assert!(text.contains("every byte"), "{text}");
    let verify = |words: &[&str]| strata(&[&["pack", "--verify", &out], words].concat());
    let refused = verify(&["--key", &other_pub]);
    assert_eq!(refused.code, Some(BAD_MODEL));
    assert!(refused.err.contains("signed by"), "{}", refused.err);
    let weights = whole
        .windows(4)
        .rposition(|window| window == b"GGUF")
        .unwrap()
        + 40_000;
    let changed = path(&folder, "changed.run");
    write_changed(&whole, weights, &changed);
    let refused = strata(&["pack", "--verify", &changed]);
    assert_eq!(refused.code, Some(BAD_MODEL));
    assert!(refused.err.contains("SHA-256"), "{}", refused.err);
    for words in [&["Hello"][..], &["serve"], &["plan"]] {
        let refused = start(&changed, words);
        assert_eq!(refused.code, Some(BAD_MODEL), "{words:?}");
        assert!(refused.err.contains("SHA-256"), "{}", refused.err);
    }
    let at = whole
        .windows(9)
        .rposition(|window| window == b"\"format\":")
        .unwrap();
    write_changed(&whole, at + 60, &changed);
    let refused = start(&changed, &["Hello"]);
    assert_eq!(refused.code, Some(BAD_MODEL), "{}", refused.err);
}

/// Writes an executable with one bit changed. Another program makes the last copy: a file that this process has open, if
/// only in a child that another test is starting, cannot be executed.
fn write_changed(whole: &[u8], at: usize, path: &str) {
    let mut bytes = whole.to_vec();
    bytes[at] ^= 1;
    let part = format!("{path}.part");
    std::fs::write(&part, bytes).unwrap();
    let copied = Command::new("install")
        .args(["-m", "755", &part, path])
        .status();
    assert!(copied.unwrap().success());
}

#[test]
fn a_snap_finds_its_models_in_components() {
    let folder = TestFolder::new("pack-components");
    let (model, out) = (
        small_model(&folder, "tiny.gguf"),
        path(&folder, "tiny.snap"),
    );
    strata(&["pack", &model, "-o", &out, "--components"]).text();
    let component = path(&folder, "tiny+model-tiny.comp");
    for artifact in [&out, &component] {
        let verified = strata(&["pack", "--verify", artifact]).text();
        assert!(verified.contains("every byte"), "{verified}");
    }
    let unpack = |name: &str, to: &str| {
        let (from, to) = (path(&folder, name), path(&folder, to));
        let mut command = Command::new("unsquashfs");
        command
            .args(["-q", "-n", "-d", &to, &from])
            .stdout(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    std::fs::create_dir(folder.path().join("components")).unwrap();
    if !unpack("tiny.snap", "snap") {
        eprintln!("unsquashfs is not here");
        return;
    }
    let snapped = |words: &[&str]| {
        let mut command = Command::new(path(&folder, "snap/bin/strata.run"));
        command
            .args(words)
            .env("SNAP_NAME", "strata-tiny")
            .env("SNAP_COMMON", folder.path())
            .env("SNAP_COMPONENTS", folder.path().join("components"));
        finish(command)
    };
    // Without its component the snap has no model.
    assert!(snapped(&["engines"]).text().contains("not installed"));
    for words in [
        &GREEDY[..],
        &["use-engine", "--auto"],
        &["use-engine", "tiny"],
    ] {
        let refused = snapped(words);
        assert_eq!(refused.code, Some(BAD_MODEL), "{words:?}");
        let hint = "snap install strata-tiny+model-tiny";
        assert!(refused.err.contains(hint), "{}", refused.err);
    }
    assert!(unpack("tiny+model-tiny.comp", "components/model-tiny"));
    let expected = strata(&[&["run", model.as_str()], &GREEDY[..]].concat()).text();
    assert_eq!(snapped(&["use-engine", "--auto"]).text().trim(), "tiny");
    assert_eq!(snapped(&GREEDY).text(), expected);
    let archive = folder.path().join("components/model-tiny/model.zip");
    let mut bytes = std::fs::read(&archive).unwrap();
    let weights = bytes.windows(4).position(|four| four == b"GGUF").unwrap() + 40_000;
    bytes[weights] ^= 1;
    std::fs::write(&archive, bytes).unwrap();
    let refused = snapped(&GREEDY);
    assert_eq!(refused.code, Some(BAD_MODEL));
    assert!(refused.err.contains("SHA-256"), "{}", refused.err);
}

#[test]
fn packs_that_make_no_sense() {
    let folder = TestFolder::new("pack-wrong");
    let (model, out) = (small_model(&folder, "m.gguf"), path(&folder, "m.run"));
    let pack = |code, words: &[&str], rest: &[&str]| {
        fails(code, words, &[&["pack"], rest].concat());
    };
    pack(
        USAGE,
        &["m.zip", ".run"],
        &[&model, "-o", &path(&folder, "m.zip")],
    );
    pack(USAGE, &["--kernel"], &[&model, "-o", &out, "--kernel", "k"]);
    pack(
        USAGE,
        &["C library", "--program"],
        &[&model, "-o", &path(&folder, "m.oci")],
    );
    pack(
        USAGE,
        &["--push", ".oci"],
        &[&model, "-o", &out, "--push", "127.0.0.1:1/a/b"],
    );
    pack(
        USAGE,
        &["--components", ".snap"],
        &[&model, "-o", &out, "--components"],
    );
    pack(USAGE, &["two models"], &[&model, &model, "-o", &out]);
    pack(USAGE, &["--output"], &[&model, "--inspect", &out]);
    pack(
        USAGE,
        &["Linux executable"],
        &[&model, "-o", &out, "--program", &model],
    );
    pack(
        USAGE,
        &["Ed25519 private key"],
        &[&model, "-o", &out, "--sign", &model_text(&folder)],
    );
    pack(
        FAILED,
        &["nowhere"],
        &[&model, "-o", &out, "--sign", "nowhere"],
    );
    pack(BAD_MODEL, &["not an artifact"], &["--inspect", &model]);
    pack(BAD_MODEL, &["not an artifact"], &["--verify", &model]);
    assert!(!Path::new(&out).exists());
}

fn model_text(folder: &TestFolder) -> String {
    let path: PathBuf = folder.path().join("text");
    std::fs::write(&path, "no key").unwrap();
    path.to_str().unwrap().into()
}
