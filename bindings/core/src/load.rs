//! Opening models, at once or with progress.

use crate::model::Model;
use crate::options::{Chosen, options};
use crate::stream::{Ending, JsonStream};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use strata::{Error, ErrorKind, Json, Listeners, Runtime, Transcriber};
use strata_store::WebFiles;

/// Opens a model: a file, a folder, a name in the store, or `tale`. Options are a JSON object.
pub fn open(model: &str, json: &[u8]) -> Result<Model, Error> {
    open_with(model, json, &mut |_, _| ControlFlow::Continue(()))
}

/// Opens a model on a thread of its own. The stream tells how far it is, as `{"loaded":…,"total":…}` in bytes; at its end
/// [`JsonStream::take_model`] gives the model. Canceling it stops the load.
pub fn load(model: &str, json: &[u8]) -> Result<JsonStream, Error> {
    options(json)?;
    let stream = JsonStream::new(None);
    let (shared, model, json) = (stream.shared(), model.to_owned(), json.to_vec());
    let mut told = None;
    let work = move || {
        let mut progress = |loaded: usize, total: usize| {
            if shared.is_canceled() {
                return ControlFlow::Break(());
            }
            let percent = loaded * 100 / total.max(1);
            if told.replace(percent) != Some(percent) {
                let fields = Json::object([("loaded", loaded.into()), ("total", total.into())]);
                shared.replace(fields.text());
            }
            ControlFlow::Continue(())
        };
        let opened = catch_unwind(AssertUnwindSafe(|| open_with(&model, &json, &mut progress)));
        let bug = || Error::new(ErrorKind::Internal, "loading failed: this is a bug");
        let opened = opened.unwrap_or_else(|_| Err(bug()));
        shared.end(opened.map(Ending::Model));
    };
    let thread = std::thread::Builder::new().name("load".into()).spawn(work);
    thread.map_err(|error| Error::io("a thread for the load", &error))?;
    Ok(stream)
}

fn open_with(
    model: &str,
    json: &[u8],
    progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
) -> Result<Model, Error> {
    let Chosen {
        options,
        threads,
        image_urls,
    } = options(json)?;
    let runtime = match threads {
        Some(threads) => Runtime::new(Some(threads))?,
        None => shared_runtime()?,
    };
    let listeners = Listeners {
        progress: Some(progress),
        ..Listeners::default()
    };
    match strata::Model::open_on(&runtime, model, options, listeners) {
        Ok(model) => {
            let web = image_urls.then(|| Arc::new(WebFiles::default()));
            Ok(Model::of_text(model, web))
        }
        Err(error) if error.kind() == ErrorKind::InvalidModel => {
            hearing(&runtime, model, json, error)
        }
        Err(error) => Err(error),
    }
}

/// Opens what cannot write, if it can hear.
fn hearing(runtime: &Runtime, model: &str, json: &[u8], error: Error) -> Result<Model, Error> {
    let opened = match Transcriber::open_beside(Path::new(model), runtime) {
        Ok(opened) => opened,
        Err(other) if other.kind() == ErrorKind::Unsupported => return Err(error),
        Err(other) => return Err(other),
    };
    match only_threads(json)? {
        None => Ok(Model::of_speech(opened)),
        Some(name) => {
            let what = format!("{name}: a model for speech takes no option but threads");
            Err(Error::new(ErrorKind::InvalidArgument, what))
        }
    }
}

/// The first option that is not the number of threads.
fn only_threads(json: &[u8]) -> Result<Option<String>, Error> {
    if json.is_empty() {
        return Ok(None);
    }
    let options = Json::parse(json)?;
    let mut names = options
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name);
    Ok(names.find(|name| *name != "threads").cloned())
}

/// The threads that models share which ask for no number of their own.
fn shared_runtime() -> Result<Runtime, Error> {
    static SHARED: Mutex<Option<Runtime>> = Mutex::new(None);
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = &*shared {
        return Ok(runtime.clone());
    }
    let runtime = Runtime::new(None)?;
    *shared = Some(runtime.clone());
    Ok(runtime)
}
