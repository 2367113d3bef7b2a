//! The store for the server's clients.

use std::ops::ControlFlow;
use strata_server::{Library, OnProgress};
use strata_store::{Digest, Name, Network, PrivateHosts, Store, StoreError};
use strata_wire::call::{Copying, Progress, Transfer};
use strata_wire::{Fault, FaultKind};

/// Ollama's store, or whatever stands in its place.
pub(super) struct LocalStore;

impl LocalStore {
    /// Clients choose what is fetched, so that they must not reach what only this machine can: where it may be asked for
    /// models is the operator's choice, by `STRATA_REGISTRIES`.
    fn network(transfer: &Transfer) -> Network {
        let from_env = Network::from_env();
        Network {
            insecure: transfer.insecure,
            private_hosts: match from_env.hosts {
                Some(_) => from_env.private_hosts,
                None => PrivateHosts::Never,
            },
            ..from_env
        }
    }
}

fn open() -> Result<Store, Fault> {
    Store::open_default().map_err(|error| fault(&error))
}

fn name(text: &str) -> Result<Name, Fault> {
    text.parse::<Name>().map_err(Fault::bad_request)
}

/// What went wrong in the store, for a client.
pub(super) fn fault(error: &StoreError) -> Fault {
    let kind = match error {
        StoreError::Name(_) => FaultKind::BadRequest,
        StoreError::NoSuchModel(_)
        | StoreError::NotInRegistry(_)
        | StoreError::NoSuchFile { .. }
        | StoreError::NoSuchBlob(_) => FaultKind::NotFound,
        _ => FaultKind::Internal,
    };
    Fault::new(kind, error)
}

impl Library for LocalStore {
    fn pull(&self, transfer: &Transfer, progress: &mut OnProgress<'_>) -> Result<(), Fault> {
        let pulled = open()?.pull(&transfer.model, &Self::network(transfer), &mut |step| {
            told(step, progress)
        });
        pulled.map(drop).map_err(|error| fault(&error))
    }

    fn push(&self, transfer: &Transfer, progress: &mut OnProgress<'_>) -> Result<(), Fault> {
        let pushed = open()?.push(&transfer.model, &Self::network(transfer), &mut |step| {
            told(step, progress)
        });
        pushed.map(drop).map_err(|error| fault(&error))
    }

    fn copy(&self, copying: &Copying) -> Result<(), Fault> {
        let (from, to) = (name(&copying.source)?, name(&copying.destination)?);
        open()?.copy(&from, &to).map_err(|error| fault(&error))
    }

    fn delete(&self, model: &str) -> Result<(), Fault> {
        open()?.remove(&name(model)?).map_err(|error| fault(&error))
    }

    fn has_blob(&self, digest: &str) -> Result<bool, Fault> {
        let wrong = || Fault::bad_request(format!("{digest:?} is not a SHA-256 in hexadecimal"));
        let digest = Digest::from_hex(digest).ok_or_else(wrong)?;
        Ok(open()?.has_blob(&digest))
    }
}

fn told(step: &strata_store::Progress, progress: &mut OnProgress<'_>) -> ControlFlow<()> {
    progress(Progress {
        status: step.status.clone(),
        digest: step.digest.clone(),
        total: step.total,
        completed: step.completed,
    })
}
