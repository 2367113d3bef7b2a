//! Models to and from other machines, by the names that people give them.

use crate::digest::Digest;
use crate::error::StoreError;
use crate::hub::Checkpoint;
use crate::name::Name;
use crate::net::{Client, NetError, Network};
use crate::progress::OnProgress;
use crate::registry::Repository;
use crate::store::Store;
use crate::{file_url, hub};

/// A container image, which goes to a registry as it is.
pub struct ContainerImage<'a> {
    /// The type of its manifest.
    pub media_type: &'a str,
    /// The manifest's bytes.
    pub manifest: &'a [u8],
    /// What the manifest names.
    pub blobs: Vec<(Digest, &'a [u8])>,
}

impl ContainerImage<'_> {
    /// Sends the image to a registry, as `host/namespace/name:tag`; blobs that are there already are not sent.
    pub fn push(
        &self,
        name: &str,
        network: &Network,
        progress: &mut OnProgress<'_>,
    ) -> Result<Name, StoreError> {
        let name = registry_name(name, network)?;
        let client = Client::new(network.clone());
        Repository::new(&client, &name)?.push_image(self, progress)?;
        Ok(name)
    }
}

impl Store {
    /// Fetches a model: `llama3.2:1b` or `host/namespace/model:tag` of a registry, `hf.co/user/repo:Q4_K_M` of the
    /// Hugging Face hub, or the address of a GGUF file. Blocks until it is here, or the callback breaks off; then what
    /// was fetched is kept, and the next call goes on from there.
    pub fn pull(
        &self,
        name: &str,
        network: &Network,
        progress: &mut OnProgress<'_>,
    ) -> Result<Name, StoreError> {
        let client = Client::new(network.clone());
        if let Some(url) = file_url::parse(name) {
            return file_url::pull(&client, self, &url?, progress);
        }
        let name = registry_name(name, network)?;
        if hub::is_hub(&name) {
            hub::pull(&client, self, &name, progress)?;
        } else {
            Repository::new(&client, &name)?.pull(self, progress)?;
        }
        Ok(name)
    }

    /// Fetches the checkpoint of a repository of the Hugging Face hub, as [`pull`](Self::pull) says that there is one:
    /// whoever converts it makes the model.
    pub fn pull_checkpoint(
        &self,
        name: &str,
        network: &Network,
        progress: &mut OnProgress<'_>,
    ) -> Result<(Name, Checkpoint), StoreError> {
        let client = Client::new(network.clone());
        let name = registry_name(name, network)?;
        let checkpoint = hub::pull_checkpoint(&client, self, &name, progress)?;
        Ok((name, checkpoint))
    }

    /// Sends a model to the registry in its name.
    pub fn push(
        &self,
        name: &str,
        network: &Network,
        progress: &mut OnProgress<'_>,
    ) -> Result<Name, StoreError> {
        let name = registry_name(name, network)?;
        let model = self.find(&name)?;
        let client = Client::new(network.clone());
        Repository::new(&client, &name)?.push(self, &model, progress)?;
        Ok(name)
    }
}

/// The name of a model in a registry, with or without a scheme before it.
fn registry_name(text: &str, network: &Network) -> Result<Name, StoreError> {
    if let Some(rest) = text.strip_prefix("http://") {
        if !network.insecure {
            let host = rest.split('/').next().unwrap_or_default();
            return Err(NetError::Insecure(host.into()).into());
        }
        return Ok(rest.parse()?);
    }
    Ok(text.strip_prefix("https://").unwrap_or(text).parse()?)
}
