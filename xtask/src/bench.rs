//! `cargo xtask bench`: speed beside peers, in the same run on the same machine.

use crate::command::{cargo, root, run as execute, target};
use crate::peers::Peers;
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The mixes that are compared where no model is named; the first is enough for a glance.
const MIXES: &[&str] = &["q4_k_m", "q4_0", "q8_0"];

/// Shapes whose layers are not those of a llama, with a mix each.
const FAMILIES: &[(&str, &str)] = &[("moe-4b", "q4_k_m"), ("hybrid-3b", "q4_k_m")];

/// What the scripts are given.
struct Arguments<'a> {
    models: Vec<&'a str>,
    /// A published model, where none is named.
    published: bool,
    /// Sizes so small that only their running is tested.
    quick: bool,
    large: bool,
    /// Experts and state spaces.
    families: bool,
    rest: Vec<&'a str>,
}

impl<'a> Arguments<'a> {
    fn new(arguments: &'a [String]) -> Self {
        let mut found = Self {
            models: Vec::new(),
            published: false,
            quick: false,
            large: false,
            families: false,
            rest: Vec::new(),
        };
        for argument in arguments {
            match argument.as_str() {
                "--9b" => found.large = true,
                "--families" => found.families = true,
                "--published" => found.published = true,
                // `--model FILE` is the same as FILE.
                "--model" => {}
                model if model.ends_with(".gguf") => found.models.push(model),
                flag => {
                    found.quick |= flag == "--quick";
                    found.rest.push(flag);
                }
            }
        }
        found
    }

    fn shape(&self) -> &'static str {
        if self.quick { "tiny" } else { "1b" }
    }

    /// The models that are named, or synthetic ones of these mixes.
    fn models(&self, strata: &Path, mixes: &[&str]) -> Result<Vec<PathBuf>> {
        match &self.models[..] {
            [] if self.families => FAMILIES
                .iter()
                .map(|(shape, mix)| {
                    let shape = match shape.split_once('-') {
                        Some((kind, _)) if self.quick => &format!("tiny-{kind}"),
                        _ => *shape,
                    };
                    synthetic(strata, shape, mix)
                })
                .collect(),
            [] => mixes
                .iter()
                .map(|mix| synthetic(strata, self.shape(), mix))
                .collect(),
            named => Ok(named
                .iter()
                .map(std::path::absolute)
                .collect::<Result<_, _>>()?),
        }
    }
}

/// Strata and llama.cpp, alternately. `arguments` are models, `--families`, `--9b` and the script's own flags.
pub(crate) fn vs_llamacpp(arguments: &[String]) -> Result<()> {
    let arguments = Arguments::new(arguments);
    let peers = peers()?;
    let strata = strata()?;
    let mixes = if arguments.quick { &MIXES[..1] } else { MIXES };
    let models = if arguments.published && arguments.models.is_empty() {
        Vec::from([peers.published_model()?])
    } else {
        arguments.models(&strata, mixes)?
    };
    let mut script = Command::new(peers.python());
    script
        .arg(root().join("bench/vs_llamacpp.py"))
        .arg(&strata)
        .args(models);
    if arguments.large {
        let shape = if arguments.quick { "tiny" } else { "9b" };
        let model = synthetic(&strata, shape, MIXES[0])?;
        script.arg("--large").arg(model);
    }
    execute(script.args(&arguments.rest))
}

/// Many users of one model, beside llama.cpp. `arguments` are a model and the script's own flags.
pub(crate) fn serving(arguments: &[String]) -> Result<()> {
    let arguments = Arguments::new(arguments);
    if arguments.large {
        bail!("--9b is for vs-llamacpp; name a model's file to serve it")
    }
    let peers = peers()?;
    let models = arguments.models(&strata()?, &MIXES[..1])?;
    let build = "build --release --quiet --package strata-engine --example serving";
    execute(&mut cargo(build))?;
    let [model] = &models[..] else {
        bail!("one model at a time")
    };
    execute(
        Command::new(peers.python())
            .arg(root().join("bench/serving.py"))
            .arg(target().join("release/examples/serving"))
            .arg(model)
            .args(&arguments.rest),
    )
}

/// Quantizing a model of half floats, beside llama.cpp. `arguments` are models and the script's own flags.
pub(crate) fn quantize(arguments: &[String]) -> Result<()> {
    let arguments = Arguments::new(arguments);
    let peers = peers()?;
    let strata = strata()?;
    let models = arguments.models(&strata, &["f16"])?;
    execute(
        Command::new(peers.python())
            .arg(root().join("bench/quantize.py"))
            .arg(&strata)
            .args(models)
            .arg("--quality")
            .args(&arguments.rest),
    )
}

/// A model in one process and over two on the same processors. `arguments` are a model and the script's own flags.
pub(crate) fn over_peers(arguments: &[String]) -> Result<()> {
    let arguments = Arguments::new(arguments);
    let strata = strata()?;
    let models = arguments.models(&strata, &MIXES[..1])?;
    let [model] = &models[..] else {
        bail!("one model at a time")
    };
    execute(
        Command::new("python3")
            .arg(root().join("bench/over_peers.py"))
            .arg(&strata)
            .arg(model)
            .args(&arguments.rest),
    )
}

/// An image beside llama.cpp's mtmd, and a minute of audio beside CTranslate2. `arguments` are the script's own, and
/// `--only vision` or `--only speech`.
pub(crate) fn media(arguments: &[String]) -> Result<()> {
    let only = arguments.iter().position(|argument| argument == "--only");
    let part = only
        .and_then(|at| arguments.get(at + 1))
        .map(String::as_str);
    let rest = arguments.iter().enumerate();
    let rest = rest.filter(|(at, _)| only.is_none_or(|only| *at != only && *at != only + 1));
    let strata = strata()?;
    let mut script = Command::new("python3");
    script
        .arg(root().join("bench/media.py"))
        .arg(strata)
        .arg(target().join("bench/media"))
        .args(rest.map(|(_, argument)| argument));
    if part != Some("speech") {
        let peers = Peers::install_mtmd()?;
        script.arg("--vision").arg(peers.python());
    }
    if part != Some("vision") {
        script
            .arg("--speech")
            .arg(Peers::install_ctranslate2()?.python());
    }
    execute(&mut script)
}

/// The same streams through the server and through the engine alone. `arguments` are the example's own.
pub(crate) fn overhead(arguments: &[String]) -> Result<()> {
    let build = "build --release --quiet --package strata-server --example overhead";
    execute(&mut cargo(build))?;
    execute(Command::new(target().join("release/examples/overhead")).args(arguments))
}

fn peers() -> Result<Peers> {
    match Peers::install_native()? {
        Some(peers) => Ok(peers),
        None => bail!("llama.cpp could not be installed"),
    }
}

/// The program, as users have it.
pub(crate) fn strata() -> Result<PathBuf> {
    execute(&mut cargo("build --release --quiet --package strata-cli"))?;
    Ok(target().join("release/strata"))
}

/// A model with random weights, made once.
pub(crate) fn synthetic(strata: &Path, shape: &str, mix: &str) -> Result<PathBuf> {
    let folder = target().join("bench");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{shape}-{mix}.gguf"));
    if !path.exists() {
        execute(
            Command::new(strata)
                .arg("synth")
                .arg(&path)
                .args(["--shape", shape, "--mix", mix]),
        )?;
    }
    Ok(path)
}
