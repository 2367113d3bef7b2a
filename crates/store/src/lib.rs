//! Models on disk in Ollama's layout, and how they get there.
//!
//! A [`Store`] is a folder that Ollama may use at the same time. Blobs are called by the SHA-256 of their bytes; a
//! manifest gives a name to some of them. A name appears only when all its blobs are complete, checked and on the disk.
//!
//! ```
//! use strata_store::{Name, Store};
//!
//! let folder = tempfile::tempdir()?;
//! let store = Store::open(folder.path());
//! let name: Name = "llama3.2:1b".parse()?;
//! assert!(store.find(&name).is_err());
//! assert!(store.list()?.models.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod create;
mod digest;
mod elsewhere;
mod error;
mod fetch;
mod file_url;
mod gguf_facts;
mod go_json;
mod hub;
mod lock;
mod manifest;
mod model;
mod modelfile;
mod name;
mod net;
mod own_file;
mod progress;
mod registry;
mod scratch;
mod store;
mod transfer;
mod upkeep;

pub use create::{Base, Recipe};
pub use digest::Digest;
pub use elsewhere::{FoundModel, Keeper, elsewhere, hugging_face, lm_studio};
pub use error::{LayerFault, ManifestFault, StoreError};
pub use gguf_facts::human_count;
pub use hub::Checkpoint;
pub use manifest::{CONFIG_TYPE, Config, Layer, MANIFEST_TYPE, Manifest, media_type};
pub use model::{StoredMessage, StoredModel};
pub use modelfile::{Modelfile, ModelfileError, ModelfileFault, Role};
pub use name::{DEFAULT_HOST, Name, NameError, Part};
pub use net::{Logins, NetError, Network, PrivateHosts, RetryPolicy, WebFiles};
pub use progress::{OnProgress, Progress, quietly};
pub use store::{BlobWriter, Listing, Store};
pub use transfer::ContainerImage;
pub use upkeep::{Finding, Repair};
