//! `cargo xtask bench gpu`: decode and prefill on the GPU of this machine, in turns with llama.cpp's `llama-bench` on the same
//! files.

use crate::bench::{strata, synthetic};
use crate::command::{answers, cargo, run as execute, target};
use crate::llama_cpp;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const SHAPES: [&str; 3] = ["1b", "8b", "32b"];
const MIXES: [&str; 2] = ["q4_k_m", "q8_0"];

/// What is asked of both.
const PROMPTS: [usize; 2] = [512, 4096];
const TOKENS: usize = 128;

/// What the command line says.
#[derive(Debug, PartialEq, Eq)]
struct Arguments {
    shapes: Vec<String>,
    mixes: Vec<String>,
    rounds: usize,
    /// Where there is none, it is built.
    llama_bench: Option<PathBuf>,
}

impl Arguments {
    fn new(arguments: &[String]) -> Result<Self> {
        let mut found = Self {
            shapes: Vec::new(),
            mixes: MIXES.map(String::from).into(),
            rounds: 3,
            llama_bench: None,
        };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || rest.next().with_context(|| format!("{argument} what?"));
            match argument.as_str() {
                "--types" => found.mixes = value()?.split(',').map(String::from).collect(),
                "--rounds" => found.rounds = value()?.parse().context("--rounds")?,
                "--llama-bench" => found.llama_bench = Some(value()?.into()),
                flag if flag.starts_with('-') => bail!("there is no flag {flag}"),
                shape => found.shapes.push(shape.into()),
            }
        }
        ensure!(found.rounds > 0, "--rounds 0 measures nothing");
        if found.shapes.is_empty() {
            found.shapes = SHAPES.map(String::from).into();
        }
        Ok(found)
    }
}

/// Measures models of random weights. Without llama.cpp and without a CUDA compiler to build it with, Strata alone.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let arguments = Arguments::new(arguments)?;
    let peer = match &arguments.llama_bench {
        Some(program) => Some(program.clone()),
        None if answers(Command::new("nvcc").arg("--version")) => {
            Some(llama_cpp::bench_with_cuda()?)
        }
        None => {
            eprintln!(
                "without llama.cpp: there is no nvcc to build it with; name its program with --llama-bench"
            );
            None
        }
    };
    let strata = strata()?;
    execute(&mut cargo(
        "build --release --quiet --package strata-cuda --example gpu",
    ))?;
    for shape in &arguments.shapes {
        for mix in &arguments.mixes {
            let model = synthetic(&strata, shape, mix)?;
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for _ in 0..arguments.rounds {
                let program = target().join("release/examples/gpu");
                let text = output(Command::new(program).arg("bench").arg(&model))?;
                ours.push(our_rates(&text));
                if let Some(peer) = &peer {
                    theirs.push(peer_rates(&output(&mut asked(peer, &model))?)?);
                }
            }
            println!("{shape} {mix}, tokens/s, medians of {}:", arguments.rounds);
            table(&ours, &theirs)
                .iter()
                .for_each(|line| println!("  {line}"));
        }
    }
    Ok(())
}

/// `llama-bench` with all layers on the GPU.
fn asked(program: &Path, model: &Path) -> Command {
    let mut command = Command::new(program);
    let prompts = PROMPTS.map(|n| n.to_string()).join(",");
    command
        .args(["-ngl", "99", "-r", "1", "-o", "json", "-p", &prompts, "-n"])
        .arg(TOKENS.to_string())
        .arg("-m")
        .arg(model);
    command
}

fn output(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("{command:?} does not start"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{command:?} failed:\n{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(text)
}

/// Tokens a second, by what was measured.
type Rates = Vec<(String, f64)>;

/// What the example `gpu` prints: a name, milliseconds, tokens a second.
fn our_rates(text: &str) -> Rates {
    let rate = |line: &str| {
        let (rest, _) = line.split_once(" tokens/s")?;
        let (rest, rate) = rest.trim_end().rsplit_once(' ')?;
        let (name, _) = rest.trim_end().strip_suffix(" ms")?.rsplit_once(' ')?;
        Some((name.trim_end().to_owned(), rate.parse().ok()?))
    };
    text.lines().filter_map(rate).collect()
}

/// The same from `llama-bench`, under our names.
fn peer_rates(json: &str) -> Result<Rates> {
    let all: Value = serde_json::from_str(json).context("llama-bench's JSON")?;
    let all = all.as_array().context("llama-bench gives a list")?;
    let rate = |entry: &Value| {
        let number = |key: &str| {
            let value = entry.get(key).and_then(Value::as_f64);
            value.with_context(|| format!("llama-bench gives no {key}"))
        };
        let name = match (number("n_prompt")? as usize, number("n_gen")? as usize) {
            (0, _) => "decode, 1 sequences".to_owned(),
            (prompt, 0) => format!("prefill {prompt}"),
            (prompt, tokens) => format!("prefill {prompt}, decode {tokens}"),
        };
        Ok((name, number("avg_ts")?))
    };
    all.iter().map(rate).collect()
}

/// A line for each measurement of ours, with llama.cpp's where it has the same.
fn table(ours: &[Rates], theirs: &[Rates]) -> Vec<String> {
    let Some(first) = ours.first() else {
        return Vec::new();
    };
    let line = |(name, _): &(String, f64)| {
        let own = median(ours, name)?;
        Some(match median(theirs, name) {
            Some(peer) => {
                format!(
                    "{name:24} {own:10.1}   llama.cpp {peer:10.1}   {:.2}×",
                    own / peer
                )
            }
            None => format!("{name:24} {own:10.1}"),
        })
    };
    first.iter().filter_map(line).collect()
}

fn median(rounds: &[Rates], name: &str) -> Option<f64> {
    let named = rounds.iter().flatten().filter(|(known, _)| known == name);
    let mut rates: Vec<f64> = named.map(|(_, rate)| *rate).collect();
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::{Arguments, our_rates, peer_rates, table};

    fn parsed(text: &str) -> anyhow::Result<Arguments> {
        let words: Vec<String> = text.split_whitespace().map(String::from).collect();
        Arguments::new(&words)
    }

    #[test]
    fn the_command_line_is_read() {
        let all = parsed("").unwrap();
        assert_eq!(all.shapes, ["1b", "8b", "32b"]);
        assert_eq!(all.mixes, ["q4_k_m", "q8_0"]);
        let some = parsed("8b --types q8_0 --llama-bench /opt/llama-bench --rounds 5").unwrap();
        assert_eq!(
            (&some.shapes[..], &some.mixes[..]),
            (&["8b".into()][..], &["q8_0".into()][..])
        );
        assert_eq!(some.rounds, 5);
        assert_eq!(
            some.llama_bench.unwrap(),
            std::path::Path::new("/opt/llama-bench")
        );
        for wrong in ["--rounds", "--rounds 0", "--rounds x", "--speed"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn both_programs_are_understood_and_compared() {
        let text = "4096 logits against the processors: all the same\n\
                    prefill 512                76.300 ms       6711 tokens/s\n\
                    decode, 1 sequences         3.470 ms        288 tokens/s, 27.7% of 4.8 TB/s\n\
                    decode, 64 sequences       25.200 ms       2538 tokens/s, 3.8% of 4.8 TB/s\n";
        let ours = our_rates(text);
        assert_eq!(ours.len(), 3);
        assert_eq!(ours[1], ("decode, 1 sequences".into(), 288.0));
        let json = r#"[
            {"model_type": "llama 8B", "n_prompt": 512, "n_gen": 0, "avg_ns": 60000000, "avg_ts": 8500.25},
            {"model_type": "llama 8B", "n_prompt": 0, "n_gen": 128, "avg_ns": 900000000, "avg_ts": 144.0}
        ]"#;
        let theirs = peer_rates(json).unwrap();
        assert_eq!(theirs[0], ("prefill 512".into(), 8500.25));
        let ours = [ours];
        let lines = table(&ours, &[theirs]);
        assert!(lines[1].ends_with("2.00×"), "{lines:?}");
        assert!(!lines[2].contains("llama.cpp"), "{lines:?}");
        assert!(
            table(&ours, &[])
                .iter()
                .all(|line| !line.contains("llama.cpp"))
        );
        for damaged in ["", "{}", "[{}]", r#"[{"n_prompt": 1, "n_gen": 0}]"#] {
            assert!(peer_rates(damaged).is_err(), "{damaged}");
        }
    }
}
