//! The store behind the server: models fetched, sent, copied and removed while it serves.

use crate::body::ReplyBody;
use crate::http::{Answered, answered, reply};
use crate::models::Models;
use bytes::Bytes;
use std::ops::ControlFlow;
use std::sync::Arc;
use strata_wire::call::{Copying, Progress, Report, Step, Transfer};
use strata_wire::lang::Shape;
use strata_wire::{Fault, FaultKind};
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

    /// Whether there is a blob with this SHA-256.
    fn has_blob(&self, digest: &str) -> Result<bool, Fault>;
}

/// Which way a model goes.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Direction {
    Pull,
    Push,
}

/// A transfer, told step by step. A client that goes away ends it; what has arrived is kept for the next try.
pub(crate) async fn transfer(
    models: Arc<dyn Models>,
    transfer: Transfer,
    direction: Direction,
    mut report: Box<dyn Report>,
) -> Answered {
    let (steps, mut told) = mpsc::channel(64);
    tokio::task::spawn_blocking(move || {
        let tell = |step| match steps.blocking_send(step) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        };
        let result = with_library(&*models, |library| {
            let progress: &mut OnProgress<'_> = &mut |progress| tell(Step::Progress(progress));
            match direction {
                Direction::Pull => library.pull(&transfer, progress),
                Direction::Push => library.push(&transfer, progress),
            }
        });
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
    let shape = report.shape();
    if shape == Shape::Whole {
        while let Some(step) = told.recv().await {
            if let Step::Failed(fault) = &step {
                return reply(report.fault(fault));
            }
            report.step(&step, &mut bytes);
        }
        return answered(200, shape.content_type(), ReplyBody::whole(bytes));
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
    answered(200, shape.content_type(), ReplyBody::Stream(receiver))
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
