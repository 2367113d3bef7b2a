//! Runs the built program, and makes model files to give it.
#![allow(dead_code)]

pub(crate) mod server;

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use strata_weights::gguf::Builder;
use strata_weights::{Gguf, Tensor, Value};

/// What a run of the program left.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
    pub(crate) time: Duration,
}

impl Run {
    /// What it printed, after a success.
    #[track_caller]
    pub(crate) fn text(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.err);
        String::from_utf8(self.out).expect("the program prints text")
    }
}

/// The file of the built-in model.
pub(crate) fn tale() -> String {
    concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../models/tale/tale-q4_k_m.gguf"
    )
    .into()
}

pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strata"));
    command.env_remove("STRATA_ISA").stdin(Stdio::null());
    command
}

pub(crate) fn finish(mut command: Command) -> Run {
    let start = Instant::now();
    let output = command.output().expect("the program starts");
    Run {
        code: output.status.code(),
        out: output.stdout,
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
        time: start.elapsed(),
    }
}

pub(crate) fn strata(arguments: &[impl AsRef<OsStr>]) -> Run {
    let mut command = command();
    command.args(arguments);
    finish(command)
}

/// The instruction sets that this machine has, as the program lists them.
pub(crate) fn instruction_sets() -> Vec<String> {
    let mut command = command();
    command.args(["run", "tale", "x"]).env("STRATA_ISA", "none");
    let err = finish(command).err;
    let (_, list) = err.split_once("this machine has ").expect("a list");
    let (list, _) = list.split_once(';').expect("an end");
    list.split(", ").map(str::to_owned).collect()
}

/// The program with `input` on its standard input.
pub(crate) fn strata_reading(arguments: &[&str], input: &str) -> Run {
    let start = Instant::now();
    let mut child = command()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(input.as_bytes()).expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("the program ends");
    Run {
        code: output.status.code(),
        out: output.stdout,
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
        time: start.elapsed(),
    }
}

/// How long a failure may take. Wine takes long to start a program.
const SOON: Duration = Duration::from_secs(if cfg!(windows) { 10 } else { 1 });

/// The program fails with this exit code and one sentence that has these words in it, soon.
#[track_caller]
pub(crate) fn fails(code: i32, words: &[&str], arguments: &[impl AsRef<OsStr>]) {
    let mut run = strata(arguments);
    if run.time > SOON {
        // The machine may have been busy with something else.
        run = strata(arguments);
    }
    let err = &run.err;
    assert_eq!(run.code, Some(code), "{err}");
    let mut lines = err.lines().filter(|line| !line.starts_with("warning: "));
    let first = lines.next().unwrap_or_default();
    assert!(first.starts_with("error: "), "{err}");
    for word in words {
        assert!(err.contains(word), "no {word:?} in {err}");
    }
    assert!(!err.contains("panicked"), "{err}");
    assert!(
        run.out.is_empty(),
        "{:?}",
        String::from_utf8_lossy(&run.out)
    );
    assert!(run.time < SOON, "{:?}", run.time);
}

/// A path for a file of this call's own.
pub(crate) fn scratch(name: &str) -> PathBuf {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let (process, call) = (std::process::id(), CALLS.fetch_add(1, Ordering::Relaxed));
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{process}-{call}-{name}"))
}

/// What this system says of a file that is not there.
pub(crate) fn no_such_file(path: &str) -> String {
    let error = std::fs::File::open(path).expect_err("there is none");
    let said = error.to_string();
    let (words, _) = said.split_once(" (os error").unwrap_or((&said, ""));
    words.into()
}

/// A file that is gone when the test is done.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str, bytes: &[u8]) -> Self {
        let path = scratch(name);
        std::fs::write(&path, bytes).expect("the file can be written");
        Self(path)
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().expect("paths of tests are text")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A synthetic model of the smallest shape.
pub(crate) fn tiny(name: &str) -> Vec<u8> {
    let file = Scratch(scratch(&format!("{name}.tiny")));
    strata(&["synth", file.path(), "--shape", "tiny", "--mix", "q8_0"]).text();
    std::fs::read(&file.0).expect("synth wrote it")
}

/// A model file to be written anew with changes.
pub(crate) struct Edit<'a> {
    pub(crate) metadata: Vec<(&'a str, Value<'a>)>,
    pub(crate) tensors: Vec<Tensor<'a>>,
}

impl<'a> Edit<'a> {
    pub(crate) fn new(file: &'a [u8]) -> Self {
        let gguf = Gguf::parse(file).expect("a good file");
        Self {
            metadata: gguf.metadata().iter().collect(),
            tensors: gguf.tensors().to_vec(),
        }
    }

    pub(crate) fn set(mut self, key: &str, value: Value<'a>) -> Self {
        let pair = self.metadata.iter_mut().find(|(k, _)| *k == key);
        pair.expect("the key is there").1 = value;
        self
    }

    pub(crate) fn tensor(&mut self, name: &str) -> &mut Tensor<'a> {
        let tensor = self.tensors.iter_mut().find(|t| t.name == name);
        tensor.expect("the tensor is there")
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        let mut builder = Builder::new();
        for &(key, value) in &self.metadata {
            builder.set_value(key, value).expect("a good value");
        }
        for tensor in &self.tensors {
            let declared = builder.tensor(tensor.name, tensor.ty, &tensor.dims);
            declared.expect("a good tensor");
        }
        let layout = builder.finish().expect("a good file");
        let mut file = layout.header;
        for (tensor, extent) in self.tensors.iter().zip(&layout.tensors) {
            let mut data = tensor.data.to_vec();
            data.resize(extent.len as usize, 0);
            data.resize(extent.padded_len as usize, 0);
            file.extend(data);
        }
        file
    }
}
