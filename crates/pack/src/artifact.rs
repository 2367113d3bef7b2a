//! Artifacts taken apart and checked.

use crate::contents::{Contents, MANIFEST, MODELS, SIGNATURE};
use crate::error::PackError;
use crate::hex::sha256;
use crate::key::PublicKey;
use crate::manifest::Manifest;
use crate::zip::Zip;
use crate::{deb, oci, snap};
use std::io::{self, Write};

/// An artifact that was read, and not yet verified.
#[derive(Debug)]
pub struct Artifact<'a> {
    /// What it says is in it.
    pub manifest: Manifest,
    contents: Contents<'a>,
    bytes: &'a [u8],
}

impl<'a> Artifact<'a> {
    /// Takes an artifact apart. Its manifest is well formed, and every file that it names is there with its length.
    pub fn read(bytes: &'a [u8]) -> Result<Self, PackError> {
        let all = bytes;
        let inside = deb::executable(bytes)
            .or_else(|| oci::executable(bytes))
            .or_else(|| snap::executable(bytes));
        let bytes = match inside {
            Some(range) => &bytes[range?],
            None => bytes,
        };
        let zip = Zip::read(bytes)?;
        let find = |name: &str| {
            let entry = zip.find(name)?;
            // The reader checked that it lies within the bytes.
            Some(&bytes[entry.range.start as usize..entry.range.end as usize])
        };
        let missing = |name: &str| PackError::Missing(name.into());
        let manifest_bytes = find(MANIFEST).ok_or_else(|| missing(MANIFEST))?;
        let manifest = Manifest::parse(manifest_bytes)?;
        let signature = find(SIGNATURE).map(|bytes| bytes.try_into());
        let signature = signature.transpose().map_err(|_| PackError::Signature)?;
        let program = usize::try_from(manifest.program.bytes).ok();
        let program = program.and_then(|length| bytes.get(..length));
        let program = program.ok_or_else(|| missing("program"))?;
        let mut models = Vec::new();
        for model in manifest.held() {
            let name = format!("{MODELS}{}", model.file);
            let found = find(&name).filter(|bytes| bytes.len() as u64 == model.bytes);
            models.push(found.ok_or(PackError::Missing(name))?);
        }
        Ok(Self {
            manifest,
            contents: Contents {
                manifest: manifest_bytes.into(),
                signature,
                program,
                models,
            },
            bytes: all,
        })
    }

    /// The program in it.
    pub fn program(&self) -> &'a [u8] {
        self.contents.program
    }

    /// Checks the signature, if the manifest names a signer. `trusted` is who it must be.
    pub fn verify_signature(
        &self,
        trusted: Option<&PublicKey>,
    ) -> Result<Option<PublicKey>, PackError> {
        let signer = match (&self.manifest.signer, &self.contents.signature) {
            (None, None) => None,
            (Some(signer), Some(signature)) => {
                let key = PublicKey::from_hex(signer).ok_or(PackError::Signature)?;
                key.verify(&self.contents.manifest, signature)?;
                Some(key)
            }
            (Some(_), None) => {
                let what = "the manifest names a signer, and the signature is missing";
                return Err(PackError::Unsigned(what));
            }
            (None, Some(_)) => {
                let what = "there is a signature, and the manifest names no signer";
                return Err(PackError::Unsigned(what));
            }
        };
        match (trusted, &signer) {
            (None, _) => Ok(signer),
            (Some(wanted), Some(found)) if wanted == found => Ok(signer),
            (Some(wanted), Some(found)) => Err(PackError::Signer {
                found: found.to_hex(),
                wanted: wanted.to_hex(),
            }),
            (Some(_), None) => Err(PackError::Unsigned("it is not signed")),
        }
    }

    /// Checks one of the models against the manifest. What comes in a component is not here, and so not what it should be.
    pub fn verify_model(&self, index: usize) -> Result<(), PackError> {
        let model = &self.manifest.models[index];
        let held = self.manifest.held().zip(&self.contents.models);
        let found = held.filter(|(held, _)| held.file == model.file);
        let bytes = found.map(|(_, bytes)| *bytes).next();
        let bytes = bytes.ok_or_else(|| PackError::Missing(format!("{MODELS}{}", model.file)))?;
        check(&model.file, bytes, &model.sha256)
    }

    /// Checks a component, which has one of the models: it must be signed as this artifact is, and have the model's digest.
    pub fn verify_component(
        &self,
        index: usize,
        component: &Artifact<'_>,
    ) -> Result<(), PackError> {
        let signer = self.verify_signature(None)?;
        component.verify_signature(signer.as_ref())?;
        let model = &self.manifest.models[index];
        let found = component.manifest.held().zip(&component.contents.models);
        let found = found.filter(|(held, _)| held.file == model.file);
        let bytes = found.map(|(_, bytes)| *bytes).next();
        let bytes = bytes.ok_or_else(|| PackError::Missing(format!("{MODELS}{}", model.file)))?;
        check(&model.file, bytes, &model.sha256)
    }

    /// Checks everything: the signature, every digest, and that there is nothing else in the artifact.
    pub fn verify(&self, trusted: Option<&PublicKey>) -> Result<Option<PublicKey>, PackError> {
        let signer = self.verify_signature(trusted)?;
        check("the program", self.program(), &self.manifest.program.sha256)?;
        for (index, model) in self.manifest.models.iter().enumerate() {
            if self.manifest.holds(model) {
                self.verify_model(index)?;
            }
        }
        let mut comparison = Comparison {
            rest: self.bytes,
            at: 0,
        };
        let written = self.contents.layout()?.write_to(&mut comparison);
        if written.is_err() || !comparison.rest.is_empty() {
            return Err(PackError::Changed { at: comparison.at });
        }
        Ok(signer)
    }
}

fn check(path: &str, bytes: &[u8], wanted: &str) -> Result<(), PackError> {
    let found = sha256(bytes);
    if found == wanted {
        return Ok(());
    }
    Err(PackError::Digest {
        path: path.into(),
        found,
        wanted: wanted.into(),
    })
}

/// Takes what is written only as long as it is what was read.
struct Comparison<'a> {
    rest: &'a [u8],
    at: u64,
}

impl Write for Comparison<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let same = bytes.iter().zip(self.rest).take_while(|(a, b)| a == b);
        let same = if self.rest.starts_with(bytes) {
            bytes.len()
        } else {
            same.count()
        };
        self.rest = &self.rest[same..];
        self.at += same as u64;
        if same == bytes.len() {
            Ok(same)
        } else {
            Err(io::ErrorKind::InvalidData.into())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
