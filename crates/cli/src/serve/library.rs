//! The store for the server's clients.

use crate::computing::mix;
use crate::failure::{Failure, Kind};
use crate::store_commands::checkpoint::{self, TemporaryFolder};
use crate::store_commands::create::fetch_bases;
use crate::store_commands::{base, built_in};
use serde_json::{Map, Value};
use std::ops::ControlFlow;
use std::path::PathBuf;
use strata::load::BUILT_IN;
use strata_chat::json::Json;
use strata_chat::parameters::Parameters;
use strata_chat::{Fault, FaultKind, ModelFacts, Progress};
use strata_server::{Library, OnProgress, Receiving};
use strata_store::{
    Base, BlobWriter, Digest, Name, Network, PrivateHosts, Recipe, Store, StoreError,
    StoredMessage, quietly,
};
use strata_wire::call::{Copying, Create, Transfer};

/// Ollama's store, or whatever stands in its place, and the models that are served from elsewhere.
#[derive(Default)]
pub(super) struct LocalStore {
    served: Vec<(ModelFacts, PathBuf)>,
}

impl LocalStore {
    /// The store beside these models.
    pub(super) fn new(served: Vec<(ModelFacts, PathBuf)>) -> Self {
        Self { served }
    }

    /// What a model is made of that is made of the one with this name: one that is served, one of the store, or the
    /// built-in one.
    fn base(&self, store: &Store, from: &str) -> Result<Base, Fault> {
        let mut served = self.served.iter();
        let path = match served.find(|(facts, _)| facts.is_called(from)) {
            Some((_, path)) => path.clone(),
            None => {
                let name = name(from)?;
                if !built_in::is_built_in(&name) {
                    return Ok(Base::Model(name));
                }
                BUILT_IN.into()
            }
        };
        base::of_path(store, &path).map_err(|error| failed(&error))
    }

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
            // A password that is for any registry must not go to one that a client chose.
            logins: match from_env.hosts {
                Some(_) => from_env.logins.clone(),
                None => from_env.logins.clone().of_hosts(),
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
        StoreError::Name(_)
        | StoreError::NoBase(_)
        | StoreError::WrongDigest { .. }
        | StoreError::Gguf { .. } => FaultKind::BadRequest,
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
        if transfer
            .model
            .parse()
            .is_ok_and(|name| built_in::is_built_in(&name))
        {
            return Ok(());
        }
        let (store, network) = (open()?, Self::network(transfer));
        let show = &mut |step: &strata_store::Progress| match step.status.as_str() {
            // The last step is told by whoever asked for the work.
            "success" => ControlFlow::Continue(()),
            _ => told(step, progress),
        };
        let name = &transfer.model;
        match store.pull(name, &network, show) {
            Err(StoreError::OnlyCheckpoint(_)) => {
                let pulled = checkpoint::pull(&store, name, &network, show);
                pulled.map(drop).map_err(|error| failed(&error))
            }
            pulled => pulled.map(drop).map_err(|error| fault(&error)),
        }
    }

    fn push(&self, transfer: &Transfer, progress: &mut OnProgress<'_>) -> Result<(), Fault> {
        let pushed = open()?.push(&transfer.model, &Self::network(transfer), &mut |step| {
            told(step, progress)
        });
        pushed.map(drop).map_err(|error| fault(&error))
    }

    fn copy(&self, copying: &Copying) -> Result<(), Fault> {
        let (store, to) = (open()?, name(&copying.destination)?);
        built_in::refuse_name(&to).map_err(|error| failed(&error))?;
        let copied = match self.base(&store, &copying.source)? {
            Base::Model(from) => store.copy(&from, &to),
            weights => {
                let recipe = Recipe {
                    bases: vec![weights],
                    ..Recipe::default()
                };
                store.create(&to, &recipe, &mut quietly)
            }
        };
        copied.map_err(|error| fault(&error))
    }

    fn delete(&self, model: &str) -> Result<(), Fault> {
        let (store, model) = (open()?, name(model)?);
        if built_in::is_built_in(&model) {
            return built_in::remove(&store, &model).map_err(|error| failed(&error));
        }
        store.remove(&model).map_err(|error| fault(&error))
    }

    fn create(&self, create: &Create, progress: &mut OnProgress<'_>) -> Result<(), Fault> {
        let store = open()?;
        let model = name(&create.model)?;
        built_in::refuse_name(&model).map_err(|error| failed(&error))?;
        let show = &mut |step: &strata_store::Progress| told(step, progress);
        let mix = match &create.quantize {
            None => None,
            Some(word) => Some(mix(word).map_err(|error| wrong("quantize", &error))?),
        };
        // Files lie under their names only as long as they are converted.
        let folder = || TemporaryFolder::new(model.model()).map_err(|error| failed(&error));
        let (checkpoint, adapter) = (folder()?, folder()?);
        let from = create.from.as_deref();
        let from = from.map(|from| self.base(&store, from)).transpose()?;
        let mut recipe = recipe(create, &store, from, [&checkpoint, &adapter])?;
        let network = Self::network(&Transfer {
            model: create.model.clone(),
            insecure: false,
        });
        let fetched = fetch_bases(&store, &mut recipe, &network, show);
        fetched.map_err(|error| failed(&error))?;
        let prepared = checkpoint::prepare(&store, &mut recipe, mix, show);
        prepared.map_err(|error| failed(&error))?;
        // The last step is told by whoever asked for the work.
        let show = &mut |step: &strata_store::Progress| match step.status.as_str() {
            "success" => ControlFlow::Continue(()),
            _ => told(step, progress),
        };
        let created = store.create(&model, &recipe, show);
        created.map_err(|error| fault(&error))
    }

    fn has_blob(&self, digest: &str) -> Result<bool, Fault> {
        Ok(open()?.has_blob(&self::digest(digest)?))
    }

    fn receive(&self, digest: &str) -> Result<Box<dyn Receiving>, Fault> {
        let expected = self::digest(digest)?;
        let blob = open()?.blob_writer().map_err(|error| fault(&error))?;
        Ok(Box::new(Upload { blob, expected }))
    }
}

/// A blob on its way in.
struct Upload {
    blob: BlobWriter,
    expected: Digest,
}

impl Receiving for Upload {
    fn write(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.blob.write(bytes).map_err(|error| fault(&error))
    }

    fn finish(self: Box<Self>) -> Result<(), Fault> {
        let kept = self.blob.finish(Some(self.expected));
        kept.map(drop).map_err(|error| fault(&error))
    }
}

fn digest(hex: &str) -> Result<Digest, Fault> {
    let wrong = || Fault::bad_request(format!("{hex:?} is not a SHA-256 in hexadecimal"));
    Digest::from_hex(hex).ok_or_else(wrong)
}

fn failed(failure: &Failure) -> Fault {
    let kind = match failure.kind() {
        Kind::Usage | Kind::BadModel => FaultKind::BadRequest,
        _ => FaultKind::Internal,
    };
    Fault::new(kind, failure)
}

fn wrong(field: &str, problem: &str) -> Fault {
    Fault::bad_request(format!("{field}: {problem}"))
}

/// Links files into a folder under the names that a client gives them; `config` must be among them.
fn lay_out(
    field: &str,
    files: &[(String, Digest)],
    config: &str,
    store: &Store,
    folder: &TemporaryFolder,
) -> Result<(), Fault> {
    if files.iter().any(|(file, _)| file.contains('/')) {
        return Err(wrong(field, "the files of a checkpoint lie in one folder"));
    }
    for (file, digest) in files {
        let linked = folder.link(file, &store.blob_path(digest));
        linked.map_err(|error| failed(&error))?;
    }
    if folder.path().join(config).exists() {
        Ok(())
    } else {
        let problem = format!("a checkpoint needs its {config}, and others are .gguf files");
        Err(wrong(field, &problem))
    }
}

/// What a client asks to be made, of a model or of files, with folders for the files of a checkpoint and of an adapter.
fn recipe(
    create: &Create,
    store: &Store,
    from: Option<Base>,
    [checkpoint, adapter]: [&TemporaryFolder; 2],
) -> Result<Recipe, Fault> {
    let is_gguf = |file: &str| file.to_ascii_lowercase().ends_with(".gguf");
    let blob = |(file, hex): &(String, String)| {
        let digest = digest(hex)?;
        if store.has_blob(&digest) {
            Ok((file.clone(), digest))
        } else {
            let missing = StoreError::NoSuchBlob(digest);
            Err(Fault::new(FaultKind::BadRequest, missing))
        }
    };
    let files: Vec<_> = create.files.iter().map(blob).collect::<Result<_, _>>()?;
    let adapters: Vec<_> = create.adapters.iter().map(blob).collect::<Result<_, _>>()?;
    let mut bases: Vec<Base> = from.into_iter().collect();
    let (ggufs, others): (Vec<_>, Vec<_>) = files.into_iter().partition(|(file, _)| is_gguf(file));
    bases.extend(ggufs.iter().map(|(_, digest)| Base::Blob(*digest)));
    if !others.is_empty() {
        lay_out("files", &others, "config.json", store, checkpoint)?;
        bases.push(Base::File(checkpoint.path().to_owned()));
    }
    let (ggufs, others): (Vec<_>, Vec<_>) =
        adapters.into_iter().partition(|(file, _)| is_gguf(file));
    let mut adapters: Vec<Base> = ggufs
        .iter()
        .map(|(_, digest)| Base::Blob(*digest))
        .collect();
    if !others.is_empty() {
        lay_out("adapters", &others, "adapter_config.json", store, adapter)?;
        adapters.push(Base::File(adapter.path().to_owned()));
    }
    let messages = create.messages.iter().map(|message| StoredMessage {
        role: message.role.name().into(),
        content: message.joined(),
    });
    Ok(Recipe {
        bases,
        adapters,
        template: create.template.clone(),
        system: create.system.clone(),
        licenses: create.licenses.clone(),
        parameters: parameters(create)?,
        messages: messages.collect(),
        requires: None,
    })
}

/// Parameters, which must be such as a model can be run with.
fn parameters(create: &Create) -> Result<Map<String, Value>, Fault> {
    Parameters::of_model(create.parameters.clone())?;
    let mut map = Map::new();
    for (name, value) in &create.parameters {
        let value = match (name.as_str(), value) {
            ("stop", Json::String(_)) => Json::Array(vec![value.clone()]),
            _ => value.clone(),
        };
        let text = value.text();
        let value = serde_json::from_str(&text).map_err(Fault::bad_request)?;
        map.insert(name.clone(), value);
    }
    Ok(map)
}

fn told(step: &strata_store::Progress, progress: &mut OnProgress<'_>) -> ControlFlow<()> {
    progress(Progress {
        status: step.status.clone(),
        digest: step.digest.clone(),
        total: step.total,
        completed: step.completed,
    })
}
