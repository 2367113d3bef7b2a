//! The peer's side of a connection: what a head asks is checked, computed and answered.

use crate::channel::{Receiver, Sender};
use crate::error::PeerError;
use crate::handshake::Connected;
use crate::listen::{Layers, Told};
use crate::message::{Assignment, Message, Part, Taken};
use std::net::SocketAddr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;
use strata_model::{
    CpuStretch, Output, PAGE, PageCopy, PageId, PageTable, Reach, Sequence, Span, StateId,
};

/// How often a peer at work says so.
const BEAT: Duration = Duration::from_secs(1);

/// Layers that were loaded for a head. They stay when it goes: the next one probably wants the same.
pub(crate) struct Kept {
    assignment: Assignment,
    stretch: CpuStretch,
    taken: Taken,
}

/// What sessions of one peer share.
pub(crate) struct Shared<'l> {
    pub(crate) layers: &'l dyn Layers,
    /// Whoever holds it is the one head that is served.
    pub(crate) seat: &'l Mutex<Option<Kept>>,
    pub(crate) tell: &'l (dyn Fn(Told) + Send + Sync),
}

/// Answers a head until it goes.
pub(crate) fn serve(
    connected: Connected,
    from: SocketAddr,
    shared: &Shared<'_>,
) -> Result<(), PeerError> {
    let Connected {
        sender,
        mut receiver,
    } = connected;
    let sender = Mutex::new(sender);
    loop {
        let message = match receiver.receive() {
            // Who has only asked owes nothing.
            Err(PeerError::Connection(_)) => return Ok(()),
            received => received?,
        };
        match message {
            Message::Ask => send(&sender, &Message::Facts(shared.layers.facts()))?,
            Message::Ping => send(&sender, &Message::Pong)?,
            Message::Begin(assignment) => {
                let pulse = Pulse::default();
                let served = std::thread::scope(|scope| {
                    scope.spawn(|| pulse.beat(&sender));
                    let _over = Over(&pulse);
                    begin(&mut receiver, assignment, (&sender, &pulse), (from, shared))
                });
                return served.inspect_err(|error| refuse(&sender, error));
            }
            _ => {
                let error = PeerError::Message {
                    what: "nothing was given to do yet",
                };
                refuse(&sender, &error);
                return Err(error);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn send(sender: &Mutex<Sender>, message: &Message<'_>) -> Result<(), PeerError> {
    lock(sender).send(message)
}

/// Tells the head why, unless it is gone.
fn refuse(sender: &Mutex<Sender>, error: &PeerError) {
    if !matches!(error, PeerError::Connection(_) | PeerError::Silence { .. }) {
        let _ = send(sender, &Message::Refused(error.to_string()));
    }
}

/// Says that the peer is at work, as long as it is.
#[derive(Default)]
struct Pulse {
    /// Whether it is, and whether all is over.
    now: Mutex<(bool, bool)>,
    over: Condvar,
}

impl Pulse {
    fn beat(&self, sender: &Mutex<Sender>) {
        let mut now = lock(&self.now);
        loop {
            let waited = self.over.wait_timeout(now, BEAT);
            now = waited.unwrap_or_else(PoisonError::into_inner).0;
            match *now {
                (_, true) => return,
                (false, _) => {}
                (true, false) => {
                    drop(now);
                    // Whoever reads the next message finds out.
                    let _ = send(sender, &Message::Working);
                    now = lock(&self.now);
                }
            }
        }
    }

    fn work<T>(&self, work: impl FnOnce() -> T) -> T {
        lock(&self.now).0 = true;
        let done = work();
        lock(&self.now).0 = false;
        done
    }
}

/// Ends the pulse when it is dropped, also where the session panics.
struct Over<'p>(&'p Pulse);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        lock(&self.0.now).1 = true;
        self.0.over.notify_all();
    }
}

fn begin(
    receiver: &mut Receiver,
    assignment: Assignment,
    (sender, pulse): (&Mutex<Sender>, &Pulse),
    (from, shared): (SocketAddr, &Shared<'_>),
) -> Result<(), PeerError> {
    let mut seat = match shared.seat.try_lock() {
        Ok(seat) => seat,
        Err(TryLockError::WouldBlock) => {
            return Err(PeerError::Refused("it serves another head".into()));
        }
        Err(TryLockError::Poisoned(broken)) => {
            shared.seat.clear_poison();
            let mut seat = broken.into_inner();
            *seat = None;
            seat
        }
    };
    let kept = seat.take().filter(|kept| kept.assignment == assignment);
    let kept = match kept {
        Some(kept) => seat.insert(kept),
        None => {
            (shared.tell)(Told::Loading {
                from,
                layers: assignment.first as usize..assignment.end as usize,
            });
            let mut heard = Ok(());
            let mut progress = |done, all| {
                heard = send(sender, &Message::Progress(done, all));
                heard.is_ok()
            };
            let loaded = pulse.work(|| shared.layers.load(&assignment, &mut progress));
            heard?;
            let (stretch, taken) = loaded.map_err(PeerError::Refused)?;
            seat.insert(Kept {
                assignment,
                stretch,
                taken,
            })
        }
    };
    (shared.tell)(Told::Serving {
        from,
        layers: kept.stretch.stretch().layers(),
        taken: kept.taken,
    });
    shared.layers.settle();
    let table = kept.stretch.storage().table();
    let mut work = Work {
        nothing: vec![0; kept.stretch.limits().tokens],
        stretch: &mut kept.stretch,
        table,
        out: Vec::new(),
    };
    send(sender, &Message::Ready(kept.taken))?;
    loop {
        let message = receiver.receive()?;
        if pulse.work(|| work.answer(message, sender))? {
            shared.layers.rest();
        }
    }
}

/// The layers at work.
struct Work<'k> {
    stretch: &'k mut CpuStretch,
    /// The head's, as far as it was told of.
    table: PageTable,
    /// Tokens that stand for those that only the head knows.
    nothing: Vec<u32>,
    out: Vec<u8>,
}

fn wrong(what: &'static str) -> PeerError {
    PeerError::Message { what }
}

impl Work<'_> {
    /// Does what is asked, and says whether a batch was computed.
    fn answer(&mut self, message: Message<'_>, sender: &Mutex<Sender>) -> Result<bool, PeerError> {
        match message {
            Message::Ping => send(sender, &Message::Pong)?,
            Message::Blocks(page, blocks) => {
                if !self.table.mirror(page, &blocks) {
                    return Err(wrong("there is no such page or block"));
                }
            }
            Message::CopyPage(from, to, windows) => {
                self.held(from, windows)?;
                self.held(to, windows)?;
                let copy = PageCopy { from, to, windows };
                self.stretch.storage_mut().copy(&self.table, copy);
            }
            Message::WritePage(page, bytes) => {
                self.held(page, true)?;
                if bytes.len() != self.table.layout().page_bytes() {
                    return Err(wrong("a page has another length"));
                }
                self.stretch.storage_mut().write(&self.table, page, bytes);
            }
            Message::ReadPage(page) => {
                self.held(page, true)?;
                self.out.clear();
                let storage = self.stretch.storage();
                storage.read(&self.table, page, &mut self.out);
                send(sender, &Message::Bytes(&self.out))?;
            }
            Message::CopyState(from, to) => {
                if self.known(from)? && self.known(to)? {
                    self.stretch.storage_mut().copy_state(from, to);
                }
            }
            Message::WriteState(state, bytes) => {
                if bytes.len() != self.table.layout().state_bytes() {
                    return Err(wrong("a state has another length"));
                }
                if self.known(state)? {
                    let own = self.stretch.storage_mut().state_mut(state);
                    own.copy_from_slice(bytes);
                }
            }
            Message::ReadState(state) => {
                let known = self.known(state)?;
                let storage = self.stretch.storage();
                let bytes = if known { storage.state(state) } else { &[] };
                send(sender, &Message::Bytes(bytes))?;
            }
            Message::Forward(parts, stream) => {
                self.forward(&parts, stream)?;
                send(sender, &Message::Bytes(&self.out))?;
                return Ok(true);
            }
            _ => return Err(wrong("it is not what a head says here")),
        }
        Ok(false)
    }

    /// Refuses a page of which a part that is needed is not here.
    fn held(&self, page: PageId, windows: bool) -> Result<(), PeerError> {
        let table = &self.table;
        let held =
            table.holds(page, Reach::Everything) && (!windows || table.holds(page, Reach::Window));
        if held {
            Ok(())
        } else {
            Err(wrong("a page is not all here"))
        }
    }

    /// Whether there is anything of a state here; an error if there is no such state.
    fn known(&self, state: StateId) -> Result<bool, PeerError> {
        if !self.table.layout().is_recurrent() {
            return Ok(false);
        }
        if state.index() < self.stretch.storage().states() {
            Ok(true)
        } else {
            Err(wrong("there is no such state"))
        }
    }

    /// Computes a batch, whose residual stream is then in `out`.
    fn forward(&mut self, parts: &[Part], stream: &[u8]) -> Result<(), PeerError> {
        let mut sequences = Vec::with_capacity(parts.len());
        let mut tokens = 0usize;
        for part in parts {
            let own = part.tokens as usize;
            tokens = tokens.saturating_add(own);
            if tokens > self.nothing.len() {
                return Err(wrong("the batch is too large"));
            }
            let needed = (part.len as usize + own).div_ceil(PAGE);
            let forgotten = part.forgotten as usize;
            for (index, &page) in part.pages.iter().enumerate().take(needed) {
                self.held(page, index >= forgotten)?;
            }
            if let Some(state) = part.state {
                self.known(state)?;
            }
            let (pages, len) = (part.pages.clone(), part.len as usize);
            sequences.push(Sequence::mirrored(pages, len, forgotten, part.state));
        }
        let nothing = &self.nothing;
        let spans = sequences
            .iter_mut()
            .zip(parts)
            .map(|(sequence, part)| Span {
                sequence,
                tokens: &nothing[..part.tokens as usize],
                output: Output::None,
                adapter: None,
                embedded: &[],
            });
        let batch: Vec<Span<'_>> = spans.collect();
        let refused = |error| PeerError::Refused(format!("the batch was refused: {error}"));
        self.stretch.check(&self.table, &batch).map_err(refused)?;
        if !self.stretch.read_stream(0, tokens, stream) {
            return Err(wrong("a residual stream has another length"));
        }
        self.stretch.run(&self.table, &batch).map_err(refused)?;
        self.out.clear();
        self.stretch.write_stream(tokens, &mut self.out);
        Ok(())
    }
}
