//! What the store reads: Modelfiles, manifests with their configs, names.

use crate::outcome::magnitude;
use crate::{Outcome, Target};
use strata_store::{Config, Digest, Manifest, Modelfile, Name};

pub(super) const MODELFILE: Target = Target {
    words: &[
        "FROM ",
        "PARAMETER ",
        "TEMPLATE ",
        "SYSTEM ",
        "ADAPTER ",
        "LICENSE ",
        "MESSAGE user ",
        "REQUIRES ",
        "\"\"\"",
        "\"",
        "\n",
        "#",
        "stop ",
        "temperature ",
        "num_ctx ",
        "@sha256:",
    ],
    ..Target::new(
        "modelfile",
        "a Modelfile to its reader; what it accepts is written and read again",
        modelfile,
    )
};

pub(super) const MANIFEST: Target = Target {
    words: &[
        "\"schemaVersion\":2",
        "\"config\":",
        "\"layers\":",
        "\"mediaType\":",
        "\"digest\":",
        "\"size\":",
        "\"from\":",
        "application/vnd.ollama.image.model",
        "sha256:",
        "{",
        "}",
        "[",
        "]",
        ",",
        "null",
    ],
    ..Target::new(
        "manifest",
        "a manifest, and the description of a model, to the store; what it accepts is written and read again",
        manifest,
    )
};

pub(super) const NAME: Target = Target {
    words: &[
        "hf.co/",
        "/",
        ":",
        "latest",
        "@sha256:",
        "..",
        "%2f",
        "registry.ollama.ai",
        "https://",
        " ",
        "\0",
    ],
    ..Target::new(
        "model_name",
        "the name of a model, or a digest, to the store; a name never leaves the store's folder",
        name,
    )
};

fn modelfile(bytes: &[u8]) -> Outcome {
    let Ok(text) = str::from_utf8(bytes) else {
        return Outcome::ignored();
    };
    match text.parse::<Modelfile>() {
        Ok(file) => {
            let shown = file.to_string();
            let again = shown.parse::<Modelfile>();
            let again =
                again.unwrap_or_else(|error| panic!("{error} in what was written: {shown:?}"));
            assert_eq!(again, file, "{shown:?}");
            Outcome::taken((
                file.from.len(),
                file.adapters.len(),
                magnitude(file.parameters.len()),
                magnitude(file.messages.len()),
            ))
        }
        Err(error) => Outcome::refused(&error),
    }
}

fn manifest(bytes: &[u8]) -> Outcome {
    let config = Config::parse(bytes).map(|config| magnitude(config.families.len()));
    match Manifest::parse(bytes) {
        Ok(manifest) => {
            let again = Manifest::parse(&manifest.to_json());
            assert_eq!(again.as_ref(), Ok(&manifest));
            let _ = manifest.size();
            Outcome::taken((
                magnitude(manifest.layers.len()),
                manifest.has_weights(),
                config,
            ))
        }
        Err(error) => Outcome::refused(&error),
    }
}

fn name(bytes: &[u8]) -> Outcome {
    let Ok(text) = str::from_utf8(bytes) else {
        return Outcome::ignored();
    };
    if let Some(digest) = Digest::parse(text) {
        let file = digest.file_name();
        assert!(!file.contains('/') && !file.starts_with('.'), "{file}");
    }
    match text.parse::<Name>() {
        Ok(name) => {
            let parts = [name.host(), name.namespace(), name.model(), name.tag()];
            for part in parts {
                let bad = part.is_empty()
                    || part == "."
                    || part == ".."
                    || part.contains(['/', '\\', '\0']);
                assert!(!bad, "{part:?} of {text:?}");
            }
            let again: Name = name.to_string().parse().expect("a written name");
            assert_eq!(again, name);
            Outcome::taken(parts.map(|part| magnitude(part.len())))
        }
        Err(error) => Outcome::refused(&error),
    }
}
