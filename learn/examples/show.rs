//! Prints what the book tells the reader to look at:
//! `cargo run --release -p strata-learn --example show -- NAME models/tale/tale-q4_k_m.gguf`.

use strata_learn::demos::{NAMES, show};
use strata_learn::gguf::ModelFile;
use strata_learn::pictures::{self, picture};

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(name), Some(path)) = (arguments.next(), arguments.next()) else {
        anyhow::bail!(
            "usage: show NAME MODEL.gguf, with a NAME of {}, or picture: and one of {}",
            NAMES.join(", "),
            pictures::NAMES.join(", ")
        );
    };
    let bytes = std::fs::read(path)?;
    let file = ModelFile::parse(&bytes)?;
    if let Some(picture_name) = name.strip_prefix("picture:") {
        print!("{}", picture(picture_name, &file)?);
    } else {
        print!("{}", show(&name, &file)?);
    }
    Ok(())
}
