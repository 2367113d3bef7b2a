//! Container images to a registry.

use super::failed;
use crate::failure::Failure;
use crate::store_commands::Steps;
use std::path::Path;
use strata::load::store_error;
use strata_host::MappedFile;
use strata_pack::{OciImage, PackError};
use strata_store::{ContainerImage, Digest, Network};

/// Sends the image in an archive.
pub(super) fn push(path: &Path, name: &str, insecure: bool) -> Result<(), Failure> {
    let file = MappedFile::open(path).map_err(|error| Failure::io(path.display(), &error))?;
    let image = OciImage::read(file.bytes()).map_err(|error| failed(path, &error))?;
    let mut blobs = Vec::new();
    for (digest, bytes) in image.blobs {
        let digest = Digest::from_hex(&digest).ok_or_else(|| failed(path, &PackError::Unknown))?;
        blobs.push((digest, bytes));
    }
    let image = ContainerImage {
        media_type: image.media_type,
        manifest: image.manifest,
        blobs,
    };
    let network = Network {
        insecure,
        ..Network::from_env()
    };
    let mut steps = Steps::new(false);
    let pushed = image.push(name, &network, &mut |step| steps.show(step));
    drop(steps);
    let name = pushed.map_err(|error| Failure::from(store_error(&error)))?;
    println!("{}: pushed as {name}", path.display());
    Ok(())
}
