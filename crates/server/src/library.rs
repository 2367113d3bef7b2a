//! The store behind the server: models fetched, sent, copied and removed while it serves.

use crate::body::ReplyBody;
use crate::http::{Answered, answered, reply};
use crate::models::Models;
use crate::pulse::RequestInFlight;
use crate::request_body::SteadyBody;
use crate::state::Server;
use bytes::Bytes;
use hyper::body::Incoming;
use std::ops::ControlFlow;
use std::sync::Arc;
use strata_chat::{Fault, FaultKind, Progress};
use strata_wire::Framing;
use strata_wire::call::{Copying, Create, ProgressWriter, Step, Transfer};
use tokio::sync::mpsc;

/// Is told how work goes on, and says whether it shall.
pub type OnProgress<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

/// What can be done with stored models. All of it may take its time.
pub trait Library: Send + Sync {
    /// Fetches a model.
    fn pull(&self, transfer: &Transfer, progress: &mut OnProgress<'_>) -> Result<(), Fault>;

    /// Sends a model.
    fn push(&self, transfer: &Transfer, progress: &mut OnProgress<'_>) -> Result<(), Fault>;

    /// Gives a model another name too.
    fn copy(&self, copying: &Copying) -> Result<(), Fault>;

    /// Removes a model.
    fn delete(&self, name: &str) -> Result<(), Fault>;

    /// Makes a model.
    fn create(&self, create: &Create, progress: &mut OnProgress<'_>) -> Result<(), Fault>;

    /// Whether there is a blob with this SHA-256.
    fn has_blob(&self, digest: &str) -> Result<bool, Fault>;

    /// Takes a blob that has this SHA-256.
    fn receive(&self, digest: &str) -> Result<Box<dyn Receiving>, Fault>;
}

/// A blob as it comes. Dropped before its end, it is forgotten.
pub trait Receiving: Send {
    /// Takes the next bytes.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Fault>;

    /// Keeps it, if it is what was announced.
    fn finish(self: Box<Self>) -> Result<(), Fault>;
}

/// Bytes of an upload that are written at a time.
const PENDING: usize = 256 << 10;

/// Long work.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    Pull(Transfer),
    Push(Transfer),
    Create(Box<Create>),
}

impl Work {
    /// The model that is another one afterwards.
    fn changes(&self) -> Option<&str> {
        match self {
            Self::Pull(transfer) => Some(&transfer.model),
            Self::Push(_) => None,
            Self::Create(create) => Some(&create.model),
        }
    }
}

/// Work, told step by step. A client that goes away ends it; what has been fetched is kept for the next try.
pub(crate) async fn perform(
    server: &Arc<Server>,
    work: Work,
    mut report: Box<dyn ProgressWriter>,
) -> Answered {
    let manager = Arc::clone(&server.manager);
    let (steps, mut told) = mpsc::channel(64);
    tokio::task::spawn_blocking(move || {
        let tell = |step| match steps.blocking_send(step) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        };
        let result = with_library(&**manager.models(), |library| {
            let progress: &mut OnProgress<'_> = &mut |progress| tell(Step::Progress(progress));
            match &work {
                Work::Pull(transfer) => library.pull(transfer, progress),
                Work::Push(transfer) => library.push(transfer, progress),
                Work::Create(create) => library.create(create, progress),
            }
        });
        // What is in memory under the name is the old model.
        if let (Ok(()), Some(name)) = (&result, work.changes()) {
            manager.forget(name);
        }
        let _ = tell(match result {
            Ok(()) => Step::Done,
            Err(fault) => Step::Failed(fault),
        });
    });
    let first = told.recv().await;
    let mut bytes = Vec::new();
    match first {
        Some(Step::Failed(fault)) => return reply(report.fault(&fault)),
        Some(step) => report.step(&step, &mut bytes),
        None => return reply(report.fault(&Fault::new(FaultKind::Internal, "the work broke off"))),
    }
    let framing = report.framing();
    if framing == Framing::Whole {
        while let Some(step) = told.recv().await {
            if let Step::Failed(fault) = &step {
                return reply(report.fault(fault));
            }
            report.step(&step, &mut bytes);
        }
        return answered(framing, ReplyBody::whole(bytes));
    }
    let (sender, receiver) = mpsc::channel(64);
    tokio::spawn(async move {
        loop {
            let piece = Bytes::from(std::mem::take(&mut bytes));
            if !piece.is_empty() && sender.send(piece).await.is_err() {
                return;
            }
            let Some(step) = told.recv().await else {
                return;
            };
            report.step(&step, &mut bytes);
        }
    });
    answered(framing, ReplyBody::Stream(receiver))
}

/// Takes a request's body as a blob, as it comes. A thread is used only while there is something to write: none waits for
/// the client.
pub(crate) async fn receive(
    server: &Arc<Server>,
    request: &RequestInFlight,
    digest: String,
    body: Incoming,
) -> Result<(), Fault> {
    let mut body = SteadyBody::new(server, request, body);
    let mut blob: Option<Box<dyn Receiving>> = None;
    let mut pending = Vec::new();
    loop {
        let piece = body.next().await?;
        let ended = piece.is_none();
        pending.extend_from_slice(&piece.unwrap_or_default());
        if pending.len() < PENDING && !ended {
            continue;
        }
        let closed = |_| Fault::new(FaultKind::Internal, "the server takes no uploads");
        let _writer = server.uploads.acquire().await.map_err(closed)?;
        let (bytes, begun) = (std::mem::take(&mut pending), blob.take());
        let wanted = digest.clone();
        let models = Arc::clone(server.manager.models());
        let written = ask(models, move |library| {
            let mut blob = match begun {
                Some(blob) => blob,
                None => library.receive(&wanted)?,
            };
            blob.write(&bytes)?;
            if ended {
                blob.finish()?;
                return Ok(None);
            }
            Ok(Some(blob))
        });
        blob = written.await?;
        if ended {
            return Ok(());
        }
    }
}

/// Works with the store on a thread that may take its time.
pub(crate) async fn ask<T: Send + 'static>(
    models: Arc<dyn Models>,
    work: impl FnOnce(&dyn Library) -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let task = tokio::task::spawn_blocking(move || with_library(&*models, work));
    let broken = |_| Fault::new(FaultKind::Internal, "the work broke off");
    task.await.map_err(broken)?
}

fn with_library<T>(
    models: &dyn Models,
    work: impl FnOnce(&dyn Library) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let none = || Fault::new(FaultKind::Unsupported, "this server has no model store");
    work(models.library().ok_or_else(none)?)
}
