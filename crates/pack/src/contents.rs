//! What goes into an artifact, and the artifact as a file.

use crate::error::PackError;
use crate::key::SigningKey;
use crate::manifest::{Kind, Manifest, check_file_name};
use crate::{deb, oci, snap, zip};
use std::borrow::Cow;
use strata_image::Layout;

/// The manifest's file in every kind of artifact.
pub const MANIFEST: &str = "manifest.json";
/// The file of its signature: 64 bytes.
pub const SIGNATURE: &str = "manifest.sig";
/// The folder of models.
pub const MODELS: &str = "models/";

/// A manifest, its signature, and the bytes that it names.
#[derive(Clone, Debug)]
pub struct Contents<'a> {
    /// The manifest's bytes, as they were signed.
    pub manifest: Cow<'a, [u8]>,
    /// The signature, if there is one.
    pub signature: Option<[u8; 64]>,
    /// The program.
    pub program: &'a [u8],
    /// The models that are in the artifact itself, in the manifest's order.
    pub models: Vec<&'a [u8]>,
}

impl<'a> Contents<'a> {
    /// Puts contents together and signs them. The manifest's signer is set here.
    pub fn new(
        mut manifest: Manifest,
        program: &'a [u8],
        models: Vec<&'a [u8]>,
        key: Option<&SigningKey>,
    ) -> Self {
        manifest.signer = key.map(|key| key.public().to_hex());
        let bytes = manifest.to_bytes();
        Self {
            signature: key.map(|key| key.sign(&bytes)),
            manifest: bytes.into(),
            program,
            models,
        }
    }

    /// The artifact.
    pub fn layout(&self) -> Result<Layout<'a>, PackError> {
        let manifest = Manifest::parse(&self.manifest)?;
        let mut executable = Layout::default();
        executable.put(0, self.program);
        zip::append(&mut executable, self.files(&manifest)?)?;
        match manifest.kind {
            Kind::Run => Ok(executable),
            Kind::Oci => oci::wrap(&manifest, self.program, executable),
            Kind::Deb => deb::wrap(&manifest, self.program, executable),
            Kind::Snap => snap::wrap(&manifest, executable),
            Kind::Component => snap::wrap_component(&manifest, executable),
        }
    }

    /// All files but the program, by their names.
    fn files(&self, manifest: &Manifest) -> Result<Vec<zip::NewEntry<'a>>, PackError> {
        let small = |name: &str, bytes: Vec<u8>| zip::NewEntry {
            name: name.into(),
            bytes: bytes.into(),
            align: 1,
        };
        let mut files = vec![small(MANIFEST, self.manifest.to_vec())];
        files.extend(self.signature.map(|bytes| small(SIGNATURE, bytes.to_vec())));
        for (model, bytes) in manifest.held().zip(&self.models) {
            check_file_name(&model.file)?;
            files.push(zip::NewEntry {
                name: format!("{MODELS}{}", model.file),
                bytes: Cow::Borrowed(*bytes),
                align: zip::MODEL_ALIGNMENT,
            });
        }
        Ok(files)
    }
}
