//! Models that are not here, fetched because somebody wants to run them.

use crate::failure::{Failure, Kind};
use crate::store_commands::{self, plain};
use crate::suggestion;
use std::path::{Path, PathBuf};
use strata::load::is_built_in;
use strata_store::{Name, Network};

/// Whether and how a model that is not here is fetched.
#[derive(clap::Args)]
#[command(next_help_heading = "Downloads")]
pub(crate) struct FetchArguments {
    /// Do not download models
    #[arg(long)]
    offline: bool,
    /// Allow a registry without TLS
    #[arg(long)]
    insecure: bool,
}

impl FetchArguments {
    /// What to open for a model, which is fetched first if it is neither a file nor in the store.
    pub(crate) fn bring(&self, model: &Path) -> Result<PathBuf, Failure> {
        let Some(asked) = missing(model) else {
            return Ok(model.into());
        };
        let known = store_commands::known_names();
        let known = known.iter().map(String::as_str);
        if let Some(meant) = suggestion::misspelt(plain(asked), known.map(plain)) {
            let sentence = format_args!("there is no model {asked} on this machine");
            return Err(Failure::new(Kind::Failed, sentence).hint(format_args!(
                "did you mean {meant}? To download {asked}, run `strata pull {asked}`"
            )));
        }
        if self.offline {
            let sentence =
                format_args!("there is no model {asked} on this machine, and --offline is set");
            return Err(Failure::new(Kind::Failed, sentence).hint(store_commands::WHAT_IS_HERE));
        }
        let network = Network {
            insecure: self.insecure,
            ..Network::from_env()
        };
        let name = store_commands::fetch(asked, &network)?;
        Ok(name.to_string().into())
    }
}

/// What would have to be fetched: an address, or a name that nothing here has.
fn missing(model: &Path) -> Option<&str> {
    let text = model.to_str()?;
    if text.starts_with("https://") || text.starts_with("http://") {
        return Some(text);
    }
    if is_built_in(model) || is_path(text) || model.exists() {
        return None;
    }
    text.parse::<Name>().ok()?;
    match store_commands::stored(model) {
        None => Some(text),
        Some(_) => None,
    }
}

/// Whether a text means a file, also if there is none.
fn is_path(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    text.starts_with(['.', '/', '~'])
        || [".gguf", ".safetensors", ".bin", ".pt"]
            .iter()
            .any(|ending| lower.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_never_fetched() {
        for path in [
            "./llama3.2",
            "../models/x",
            "/no/such/model",
            "~/model",
            "model.gguf",
            "MODEL.GGUF",
            "folder/model-00001-of-00002.gguf",
            "pytorch_model.bin",
            "tale",
            "tale:latest",
            "",
            "a b",
        ] {
            assert_eq!(missing(Path::new(path)), None, "{path}");
        }
        for name in ["no-such-model-here:1b", "hf.co/me/no-such-repo:Q4_K_M"] {
            assert_eq!(missing(Path::new(name)), Some(name));
        }
        let address = "https://host.example/model.gguf";
        assert_eq!(missing(Path::new(address)), Some(address));
    }
}
