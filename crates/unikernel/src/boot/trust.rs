//! Which settings count: those of the image alone where it is sealed, and none that its key has not signed where it has
//! one.

use super::{CommandLine, listed};
use core::str::from_utf8;
use strata_image::signed::{SignatureError, from_hex, verify};
use thiserror::Error;

/// What a command line may say to any machine: for tests, and what hypervisors add.
pub const FOR_BOOT: [&str; 4] = ["check", "fault", "then", "virtio_mmio.device"];

/// Why the machine does not start.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The settings are not the maker's.
    #[error("the settings {of} are refused: {why}")]
    Settings {
        /// Where they are.
        of: &'static str,
        /// Why.
        why: SignatureError,
    },
    /// There are none.
    #[error("the image wants signed settings, and there are none")]
    NoSettings,
    /// They do not say which model is meant.
    #[error("the settings name no SHA-256 of a model, without which any model would do")]
    NoDigest,
}

/// Whom the image trusts.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    key: Option<[u8; 32]>,
    /// Whether there is no shell, and no settings but the image's.
    pub sealed: bool,
    /// Whether the image has settings beside its key.
    has_settings: bool,
}

impl Trust {
    /// An image that takes what it is told.
    pub const OPEN: Self = Self {
        key: None,
        sealed: false,
        has_settings: false,
    };

    /// What an image's options say, and those of them that are settings.
    pub fn of_image(options: &[u8]) -> Result<(Self, CommandLine), Refusal> {
        let refused = |why| {
            let of = "of the image";
            Refusal::Settings { of, why }
        };
        let mut trust = Self::OPEN;
        let mut text = from_utf8(options).unwrap_or_default();
        if let Some(rest) = text.strip_prefix("trust=") {
            let (digits, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            let key = from_hex(digits).ok_or(refused(SignatureError::Key))?;
            trust.key = Some(key);
            text = rest;
            if !rest.is_empty() {
                text = verify(rest, &key).map_err(refused)?;
            }
        }
        let options = CommandLine::copy(text.as_bytes());
        trust.sealed = options.get("sealed") == Some("on");
        trust.has_settings = !text.is_empty();
        Ok((trust, options))
    }

    /// Whether anything but the image's own settings must be left out.
    pub fn is_strict(&self) -> bool {
        self.sealed || self.key.is_some()
    }

    /// The options that count, of the image's and of those that it was booted with.
    pub fn settle(&self, image: &CommandLine, given: &CommandLine) -> Result<CommandLine, Refusal> {
        let mut given = given.clone();
        if self.sealed {
            given.set_file(b"");
        }
        if self.is_strict() {
            given.keep_only(&FOR_BOOT);
        }
        self.check_file(&given)?;
        Ok(image.and(&given))
    }

    /// Looks at `strata.toml`, which may have been found later.
    pub fn check_file(&self, options: &CommandLine) -> Result<(), Refusal> {
        let of = "in strata.toml";
        match self.key {
            Some(key) if !options.file().is_empty() => {
                let checked = verify(options.file(), &key);
                checked
                    .map(drop)
                    .map_err(|why| Refusal::Settings { of, why })
            }
            _ => Ok(()),
        }
    }

    /// Looks at all settings together: whether there are any, and say which model is meant.
    pub fn check_all(&self, options: &CommandLine) -> Result<(), Refusal> {
        if self.key.is_some() && !self.has_settings && options.file().is_empty() {
            return Err(Refusal::NoSettings);
        }
        let listed = options.get("models").unwrap_or_default();
        let mut listed = listed::models(listed).flatten();
        let all = options.get("sha256").is_some() && listed.all(|model| model.sha256.is_some());
        if self.is_strict() && !all {
            return Err(Refusal::NoDigest);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;
    use ed25519_compact::{KeyPair, Seed};
    use strata_image::signed::message;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn key() -> KeyPair {
        KeyPair::from_seed(Seed::new([9; 32]))
    }

    fn signature(text: &str) -> String {
        hex(&*key().sk.sign(message(text.as_bytes()), None))
    }

    fn signed_image(text: &str) -> String {
        let (key, signature) = (hex(&*key().pk), signature(text));
        format!("trust={key} {text}signature={signature}")
    }

    /// The settings that count, for an image, a command line and a file.
    fn settled(image: &str, line: &str, file: &str) -> Result<CommandLine, Refusal> {
        let (trust, options) = Trust::of_image(image.as_bytes())?;
        let mut given = CommandLine::copy(line.as_bytes());
        given.set_file(file.as_bytes());
        let settled = trust.settle(&options, &given)?;
        trust.check_all(&settled)?;
        Ok(settled)
    }

    #[test]
    fn a_plain_image_takes_what_it_is_told() {
        let options = settled("port=1 name=x", "port=3", "port = 2\nctx = 5").unwrap();
        assert_eq!(options.get("port"), Some("3"));
        assert_eq!(
            (options.get("ctx"), options.get("name")),
            (Some("5"), Some("x"))
        );
    }

    #[test]
    fn a_sealed_image_takes_nothing_else() {
        let line = "port=3 then=exit shell=on virtio_mmio.device=512@0xfeb00000:5";
        let options = settled("sealed=on sha256=0 port=1", line, "port = 2").unwrap();
        assert_eq!(
            (options.get("port"), options.get("shell")),
            (Some("1"), None)
        );
        assert_eq!(options.get("then"), Some("exit"));
        assert_eq!(options.all("virtio_mmio.device").count(), 1);
        // The word elsewhere seals nothing, and unseals nothing.
        let (trust, _) = Trust::of_image(b"sealed=off port=1").unwrap();
        assert!(!trust.sealed);
        assert_eq!(
            settled("sealed=on", "sha256=1", "").err(),
            Some(Refusal::NoDigest)
        );
        // Nor any other model, of those that are listed.
        let digits = "ab".repeat(32);
        let two = format!("sealed=on sha256=0 models=a=a.gguf={digits},b=b.gguf");
        assert_eq!(settled(&two, "", "").err(), Some(Refusal::NoDigest));
        assert!(settled(&format!("{two}={digits}"), "", "").is_ok());
    }

    #[test]
    fn signed_settings_count_and_others_are_refused() {
        let image = signed_image("sealed=on sha256=0 port=1 ");
        let options = settled(&image, "port=3", "").unwrap();
        assert_eq!(options.get("port"), Some("1"));
        let refused = |why| {
            Some(Refusal::Settings {
                of: "of the image",
                why,
            })
        };
        let changed = image.replace("port=1", "port=2");
        assert_eq!(
            settled(&changed, "", "").err(),
            refused(SignatureError::Wrong)
        );
        let unsigned = format!("trust={} port=1", hex(&*key().pk));
        assert_eq!(
            settled(&unsigned, "", "").err(),
            refused(SignatureError::Absent)
        );
        assert_eq!(
            settled("trust=12 a=1", "", "").err(),
            refused(SignatureError::Key)
        );
    }

    #[test]
    fn a_signed_file_counts_and_others_are_refused() {
        let image = format!("trust={}", hex(&*key().pk));
        let text = "port = 2\nsha256 = \"0\"\n";
        let file = format!("{text}signature = \"{}\"\n", signature(text));
        let options = settled(&image, "port=3 sha256=1", &file).unwrap();
        assert_eq!(
            (options.get("port"), options.get("sha256")),
            (Some("2"), Some("0"))
        );
        let refused = |why| {
            Some(Refusal::Settings {
                of: "in strata.toml",
                why,
            })
        };
        let changed = file.replace("port = 2", "port = 4");
        assert_eq!(
            settled(&image, "", &changed).err(),
            refused(SignatureError::Wrong)
        );
        assert_eq!(
            settled(&image, "", text).err(),
            refused(SignatureError::Absent)
        );
        // Without the file there would be no key and any model.
        assert_eq!(
            settled(&image, "sha256=1", "").err(),
            Some(Refusal::NoSettings)
        );
        let bare = format!("port = 2\nsignature = \"{}\"\n", signature("port = 2\n"));
        assert_eq!(settled(&image, "", &bare).err(), Some(Refusal::NoDigest));
    }
}
