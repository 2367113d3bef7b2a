//! Speech: a file that a client sent, through the model that transcribes.

use crate::body::ReplyBody;
use crate::http::{Answered, Caller, answered, reply};
use crate::state::Server;
use bytes::Bytes;
use std::ops::ControlFlow;
use std::sync::Arc;
use strata::{AudioLimits, Hearing, Transcriber};
use strata_chat::{Fault, FaultKind, Segment, Transcribe, Transcript};
use strata_wire::Framing;
use strata_wire::call::{TranscriptWriter, unknown_model};
use tokio::sync::{Semaphore, mpsc};

/// Files that are transcribed at once; others wait. An hour of sound takes half a gigabyte while it is read.
static PLACES: Semaphore = Semaphore::const_new(2);

/// Seconds of sound in a file, at most.
const SECONDS: usize = 2 * 3600;

/// The name that OpenAI's clients give.
const USUAL_NAME: &str = "whisper-1";

/// What a file's thread tells.
enum Told {
    /// It goes on.
    Alive,
    Segment(Segment),
    Done(Box<Transcript>),
    Failed(Fault),
}

/// The model that a request means, if the client may use it.
fn find(server: &Server, caller: &Caller, asked: &str) -> Result<Transcriber, Fault> {
    let none = "no model here transcribes speech: the server needs one with --speech";
    let found = server.manager.models().transcriber();
    let found = found.ok_or_else(|| Fault::new(FaultKind::Unsupported, none))?;
    let meant = asked.is_empty() || asked == USUAL_NAME || asked == found.name();
    if !meant && !caller.any_model {
        caller.client.allows(asked)?;
        return Err(unknown_model(asked));
    }
    caller.client.allows(found.name())?;
    Ok(found)
}

/// Transcribes a file.
pub(crate) async fn transcribe(
    server: &Arc<Server>,
    caller: &Caller,
    request: Transcribe,
    mut writer: Box<dyn TranscriptWriter>,
) -> Answered {
    let transcriber = match find(server, caller, &request.model) {
        Ok(transcriber) => transcriber,
        Err(fault) => return reply(writer.fault(&fault)),
    };
    caller.observed.model(transcriber.name());
    let place = match PLACES.acquire().await {
        Ok(place) => place,
        Err(_) => return reply(writer.fault(&Fault::unloaded())),
    };
    let (tell, mut told) = mpsc::channel(64);
    let limits = AudioLimits {
        bytes: server.settings.budgets.body_bytes,
        seconds: SECONDS,
    };
    tokio::task::spawn_blocking(move || {
        // Until the thread ends, whoever waits for it.
        let _place = place;
        // A client that has gone hears nothing any more, and that ends the work.
        let say = |what| match tell.blocking_send(what) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        };
        let done = transcriber.transcribe(&request, limits, &mut |event| match event {
            Hearing::Segment(segment) => say(Told::Segment(segment.clone())),
            _ => say(Told::Alive),
        });
        let _ = say(match done {
            Ok(transcript) => Told::Done(Box::new(transcript)),
            Err(error) => Told::Failed(error.into()),
        });
    });
    let broken = || Fault::new(FaultKind::Internal, "the transcription broke off");
    if writer.framing() == Framing::Whole {
        loop {
            match told.recv().await {
                Some(Told::Alive | Told::Segment(_)) => {}
                Some(Told::Done(transcript)) => return reply(writer.reply(&transcript)),
                Some(Told::Failed(fault)) => return reply(writer.fault(&fault)),
                None => return reply(writer.fault(&broken())),
            }
        }
    }
    // What fails before the first window is heard has a status of its own.
    let mut first = told.recv().await;
    match &first {
        Some(Told::Failed(fault)) => return reply(writer.fault(fault)),
        None => return reply(writer.fault(&broken())),
        _ => {}
    }
    let framing = writer.framing();
    let (sender, receiver) = mpsc::channel(64);
    tokio::spawn(async move {
        while let Some(what) = first.take() {
            let mut bytes = Vec::new();
            let last = matches!(what, Told::Done(_) | Told::Failed(_));
            match what {
                Told::Alive => {}
                Told::Segment(segment) => writer.segment(&segment, &mut bytes),
                Told::Done(transcript) => writer.done(&transcript, &mut bytes),
                Told::Failed(fault) => writer.failed(&fault, &mut bytes),
            }
            if !bytes.is_empty() && sender.send(Bytes::from(bytes)).await.is_err() {
                return;
            }
            if last {
                return;
            }
            first = told.recv().await;
        }
    });
    answered(framing, ReplyBody::Stream(receiver))
}
