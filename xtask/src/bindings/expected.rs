//! What every language must say: asked of the program and of its server.

use super::{PACKAGES, folder, sight};
use crate::command::{cargo, root, run as execute, target};
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How much is tested.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// What CI has time for.
    Quick,
    Whole,
}

/// What the tests of the languages compare with, in their environment.
pub(super) struct Expected {
    variables: Vec<(&'static str, String)>,
    extent: Extent,
    /// A test that takes longer hangs.
    limit: Duration,
}

/// What a language's test takes at most beside its streams, on a busy machine.
const REST: Duration = Duration::from_secs(600);

/// The variables that name files.
const FILES: [&str; 6] = [
    "STRATA_ADAPTER_ONE",
    "STRATA_ADAPTER_TWO",
    "STRATA_EYES",
    "STRATA_HEARING_MODEL",
    "STRATA_SEEING_MODEL",
    "STRATA_SOUND",
];

/// A model for speech with random weights, and something to hear.
const HEARING: &str = "crates/model/tests/golden_speech/whisper.gguf";
const SOUND: &str = "crates/fuzz/seeds/wav/wav-16-bits.wav";

/// Names the folder into which the tests of `bindings/c` write adapters.
pub(crate) const ADAPTERS: &str = "STRATA_ADAPTER_FOLDER";

/// That folder.
pub(crate) fn adapters() -> Result<PathBuf> {
    let adapters = folder().join("adapters");
    std::fs::create_dir_all(&adapters)?;
    Ok(adapters)
}

impl Expected {
    pub(super) fn ask(seconds: u32, extent: Extent) -> Result<Self> {
        let adapters = adapters()?;
        let adapter = |name: &str| adapters.join(name).to_string_lossy().into_owned();
        if !adapters.join("two.gguf").exists() {
            let test = format!("test --quiet {PACKAGES} --test c -- adapters");
            execute(cargo(&test).env(ADAPTERS, &adapters))?;
        }
        let (model, projector) = sight::files()?;
        let question = sight::question();
        let file = |path: &str| root().join(path).to_string_lossy().into_owned();
        let (hearing, sound) = (file(HEARING), file(SOUND));
        Ok(Self {
            variables: vec![
                ("STRATA_HEARD", heard(&hearing, &sound)?),
                ("STRATA_HEARING_MODEL", hearing),
                ("STRATA_SOUND", sound),
                ("STRATA_STORY", story()?),
                ("STRATA_EMBEDDING", embedding()?),
                ("STRATA_ADAPTER_ONE", adapter("one.gguf")),
                ("STRATA_ADAPTER_TWO", adapter("two.gguf")),
                ("STRATA_STRESS_SECONDS", seconds.to_string()),
                ("STRATA_SEEN", seen(&model, &projector, &question)?),
                ("STRATA_QUESTION", question),
                ("STRATA_SEEING_MODEL", model.to_string_lossy().into_owned()),
                ("STRATA_EYES", projector.to_string_lossy().into_owned()),
            ],
            extent,
            limit: REST + Duration::from_secs(seconds.into()),
        })
    }

    /// How much is tested.
    pub(super) fn extent(&self) -> Extent {
        self.extent
    }

    /// The files that tests open.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let named = self.variables.iter();
        let named = named.filter(|(name, _)| FILES.contains(name));
        named.map(|(_, file)| file.into()).collect()
    }

    /// The same for a test that finds those files in a folder of its own.
    pub(super) fn features_in(&self, command: &mut Command, folder: &str) -> Result<Vec<String>> {
        let mut moved = Self {
            variables: self.variables.clone(),
            ..*self
        };
        for (name, value) in &mut moved.variables {
            if FILES.contains(name)
                && let Some((_, file)) = value.rsplit_once('/')
            {
                *value = format!("{folder}/{file}");
            }
        }
        moved.features(command)
    }

    /// Runs a test and gives the features that it has seen work.
    pub(super) fn features(&self, command: &mut Command) -> Result<Vec<String>> {
        for (name, value) in &self.variables {
            command.env(name, value);
        }
        Ok(said_within(command, self.limit)?
            .lines()
            .filter_map(|line| line.strip_prefix("feature "))
            .map(String::from)
            .collect())
    }
}

/// Runs a command and gives what it prints.
pub(super) fn said(command: &mut Command) -> Result<String> {
    said_within(command, Duration::MAX)
}

/// The same, ending a command that takes longer.
fn said_within(command: &mut Command, limit: Duration) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let child = command.stdout(Stdio::piped()).spawn();
    let mut child = child.with_context(|| format!("cannot start {program}"))?;
    let mut output = child.stdout.take().context("its output")?;
    let reader = thread::spawn(move || {
        let mut text = Vec::new();
        output.read_to_end(&mut text).map(|_| text)
    });
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            bail!("{program} hangs: it was ended after {} s", limit.as_secs());
        }
        thread::sleep(Duration::from_millis(10));
    };
    let text = reader.join().unwrap_or_else(|_| Ok(Vec::new()))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    ensure!(status.success(), "{program} failed ({status}):\n{text}");
    Ok(text)
}

fn strata() -> Command {
    Command::new(target().join("debug/strata"))
}

/// The greedy answer of `strata run`.
fn story() -> Result<String> {
    let mut run = strata();
    run.args(["run", "tale", "Tell me a story about a fox."]);
    run.args(["--temp", "0", "-n", "32"]).stderr(Stdio::null());
    let text = said(&mut run)?;
    Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
}

/// The vector that `/v1/embeddings` gives, as the server writes it.
fn embedding() -> Result<String> {
    let body = r#"{"input":"a fox and an owl"}"#;
    let answer = served(&["tale"], "/v1/embeddings", body)?;
    let (_, list) = answer
        .split_once("\"embedding\":")
        .context("no embedding")?;
    let (list, _) = list.split_once(']').context("no embedding")?;
    Ok(format!("{list}]"))
}

/// The log-probabilities of an answer about a picture, as the server writes them.
fn seen(model: &Path, projector: &Path, question: &str) -> Result<String> {
    let (model, projector) = (model.to_string_lossy(), projector.to_string_lossy());
    let arguments = [&*model, "--mmproj", &*projector];
    let answer = served(&arguments, "/v1/chat/completions", question)?;
    let list = answer
        .split_once("\"logprobs\":")
        .and_then(|(_, rest)| Some(rest.split_once(",\"finish_reason\"")?.0.to_owned()));
    list.with_context(|| format!("no log-probabilities: {answer}"))
}

/// What `strata transcribe` writes of a file.
fn heard(model: &str, sound: &str) -> Result<String> {
    let mut transcribe = strata();
    transcribe.args(["transcribe", model, sound, "--format", "json"]);
    Ok(said(&mut transcribe)?.trim_end().to_owned())
}

/// What a server that is started for it answers.
fn served(arguments: &[&str], path: &str, body: &str) -> Result<String> {
    let mut serve = strata();
    serve.arg("serve").args(arguments).args(["--port", "0"]);
    let mut server = serve.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let log = server.stderr.take().context("the server's log")?;
    let mut lines = BufReader::new(log).lines();
    let address = lines.find_map(|line| {
        let line = line.ok()?;
        let (_, address) = line.split_once("listening on http://")?;
        Some(address.split_whitespace().next()?.to_owned())
    });
    let answer = address
        .context("the server does not say where it listens")
        .and_then(|address| post(&address, path, body));
    server.kill()?;
    server.wait()?;
    answer
}

fn post(address: &str, path: &str, body: &str) -> Result<String> {
    let mut socket = TcpStream::connect(address)?;
    write!(
        socket,
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_hangs_is_ended() {
        let run = |words: &str, limit| said_within(Command::new("sh").args(["-c", words]), limit);
        assert_eq!(run("echo a; sleep 0.05", Duration::MAX).unwrap(), "a\n");
        let hanging = run("exec sleep 1000", Duration::from_millis(50)).unwrap_err();
        assert!(hanging.to_string().contains("hangs"), "{hanging}");
        let failed = run("echo b; exit 3", Duration::MAX)
            .unwrap_err()
            .to_string();
        assert!(
            failed.contains("exit status: 3") && failed.contains('b'),
            "{failed}"
        );
    }
}
