//! Pulling: the manifest, its blobs, and only then the name.

use super::Repository;
use crate::error::StoreError;
use crate::fetch::Fetch;
use crate::manifest::{self, Layer, MANIFEST_TYPE, Manifest};
use crate::net::{Method, NetError};
use crate::progress::{OnProgress, Progress};
use crate::store::Store;
use std::path::PathBuf;

impl Repository<'_> {
    /// Brings a model here.
    pub(crate) fn pull(
        &self,
        store: &Store,
        progress: &mut OnProgress<'_>,
    ) -> Result<(), StoreError> {
        Progress::status("pulling manifest").tell(progress)?;
        let bytes = self.manifest()?;
        let manifest = Manifest::parse(&bytes).map_err(|fault| StoreError::Manifest {
            path: PathBuf::from(self.name.to_string()),
            fault,
        })?;
        // Before anything is fetched for it.
        if !manifest.has_weights() {
            return Err(StoreError::NoWeights(self.name.clone()));
        }
        let _pins = store.pin(manifest.all().map(|layer| &layer.digest))?;
        for layer in manifest.all() {
            self.fetch(store, layer, progress)?;
        }
        Progress::status("writing manifest").tell(progress)?;
        // As the registry has it, so that its digest is the same here.
        store.put_manifest(&self.name, &bytes)?;
        Progress::status("success").tell(progress)
    }

    fn manifest(&self) -> Result<Vec<u8>, StoreError> {
        let path = format!("manifests/{}", self.name.tag());
        let answer = self.ask(&Method::GET, &path, &[("accept", MANIFEST_TYPE)])?;
        if answer.status().as_u16() == 404 {
            return Err(StoreError::NotInRegistry(self.name.clone()));
        }
        Ok(answer.ok()?.bytes(manifest::LONGEST)?)
    }

    fn fetch(
        &self,
        store: &Store,
        layer: &Layer,
        progress: &mut OnProgress<'_>,
    ) -> Result<(), StoreError> {
        let path = format!("blobs/{}", layer.digest);
        if store.blob_len(&layer.digest) != Some(layer.size) && self.credential().is_none() {
            // Gets a token if blobs need one though manifests do not, and says early what is not there.
            let answer = self.ask(&Method::HEAD, &path, &[])?;
            if answer.status().as_u16() == 404 {
                return Err(NetError::Answer {
                    host: answer.host(),
                    what: "a blob of the manifest",
                }
                .into());
            }
        }
        let hex = layer.digest.hex();
        let fetch = Fetch {
            client: self.client,
            url: self.url(&path)?,
            credential: self.credential(),
            digest: Some(layer.digest),
            size: layer.size,
            version: String::new(),
            status: format!("pulling {}", &hex[..12]),
        };
        fetch.run(store, progress)?;
        Ok(())
    }
}
