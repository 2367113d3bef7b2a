//! The head's side of a connection with one peer, which comes back after a loss.

use crate::channel::{Receiver, Sender};
use crate::error::PeerError;
use crate::handshake::{self, Connected};
use crate::key::PeerKey;
use crate::message::{Assignment, Facts, Message, Part, Taken};
use crate::state::{PeerState, PeerStates};
use std::net::{TcpStream, ToSocketAddrs};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use strata_model::{PageCopy, PageId, PageTable, StateId};

/// How long it may take to reach a machine.
const REACH: Duration = Duration::from_secs(3);
/// How long a connection is idle before the peer is asked whether it is there.
const IDLE: Duration = Duration::from_secs(2);
/// How long a lost peer is left alone, at first and at most.
const BACK_OFF: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(10)];

/// Stands where a page's blocks were never sent: no block has this number, and it is not that of none.
const NEVER: u32 = u32::MAX - 1;

/// Asks a machine what it has.
pub fn ask(address: &str, key: &PeerKey) -> Result<Facts, PeerError> {
    let mut connected = reach(address, key)?;
    connected.sender.send(&Message::Ask)?;
    match answer(&mut connected.receiver)? {
        Message::Facts(facts) => Ok(facts),
        other => Err(unexpected(&other)),
    }
}

fn reach(address: &str, key: &PeerKey) -> Result<Connected, PeerError> {
    let wrong = |_| PeerError::Address {
        address: address.into(),
    };
    let mut failure = PeerError::Address {
        address: address.into(),
    };
    for address in address.to_socket_addrs().map_err(wrong)? {
        match TcpStream::connect_timeout(&address, REACH) {
            Ok(stream) => return handshake::connect(stream, key),
            Err(error) => failure = error.into(),
        }
    }
    Err(failure)
}

/// The next message that is no sign of life.
fn answer(receiver: &mut Receiver) -> Result<Message<'_>, PeerError> {
    loop {
        // Messages borrow from the receiver: what is only a sign of life is looked at first.
        if !receiver.wait()? {
            continue;
        }
        return match receiver.message()? {
            Message::Refused(reason) => Err(PeerError::Refused(reason)),
            message => Ok(message),
        };
    }
}

fn unexpected(_: &Message<'_>) -> PeerError {
    PeerError::Message {
        what: "it answers another question",
    }
}

/// A connection whose peer has loaded its layers.
struct Open {
    sender: Sender,
    receiver: Receiver,
    taken: Taken,
}

/// Connects with a peer and has it load its layers. `progress` hears of bytes loaded and in all, and false cancels.
fn begin(
    address: &str,
    key: &PeerKey,
    assignment: &Assignment,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Open, PeerError> {
    let Connected {
        mut sender,
        mut receiver,
    } = reach(address, key)?;
    sender.send(&Message::Begin(assignment.clone()))?;
    loop {
        match answer(&mut receiver)? {
            Message::Progress(done, all) if progress(done, all) => {}
            Message::Progress(..) => return Err(PeerError::Canceled),
            Message::Ready(taken) => {
                return Ok(Open {
                    sender,
                    receiver,
                    taken,
                });
            }
            other => return Err(unexpected(&other)),
        }
    }
}

/// A peer with its layers.
pub struct Link {
    inner: Arc<Inner>,
    taken: Taken,
    keeper: Option<JoinHandle<()>>,
}

struct Inner {
    address: String,
    key: PeerKey,
    assignment: Assignment,
    /// Its layers that have keys and values.
    attention: Vec<usize>,
    state: Mutex<State>,
    wake: Condvar,
    states: PeerStates,
    number: usize,
}

struct State {
    open: Option<Open>,
    /// What was stored is lost, and nobody was told yet.
    lost: bool,
    fault: String,
    /// The blocks of each page as the peer knows them.
    sent: Vec<u32>,
    used: Instant,
    stop: bool,
}

impl Link {
    /// Connects with a peer and has it load its layers; then keeps the connection, and makes it anew after a loss.
    /// `attention` are those of the layers that have keys and values.
    pub fn open(
        address: &str,
        key: &PeerKey,
        assignment: Assignment,
        attention: Vec<usize>,
        (states, progress): (&PeerStates, &mut dyn FnMut(u64, u64) -> bool),
    ) -> Result<Self, PeerError> {
        let open = begin(address, key, &assignment, progress)?;
        let taken = open.taken;
        let number = states.add(PeerState {
            address: address.into(),
            layers: assignment.first as usize..assignment.end as usize,
            bytes: taken.weights + taken.pages + taken.activations,
            fault: None,
        });
        let inner = Arc::new(Inner {
            address: address.into(),
            key: key.clone(),
            assignment,
            attention,
            state: Mutex::new(State {
                open: Some(open),
                lost: false,
                fault: String::new(),
                sent: Vec::new(),
                used: Instant::now(),
                stop: false,
            }),
            wake: Condvar::new(),
            states: states.clone(),
            number,
        });
        let keeping = Arc::clone(&inner);
        let keeper = std::thread::Builder::new()
            .name("peer".into())
            .spawn(move || keeping.keep())?;
        Ok(Self {
            inner,
            taken,
            keeper: Some(keeper),
        })
    }

    /// What it takes.
    pub fn taken(&self) -> Taken {
        self.taken
    }

    /// Its layers.
    pub fn layers(&self) -> Range<usize> {
        self.inner.assignment.first as usize..self.inner.assignment.end as usize
    }

    /// Whether it is on this machine.
    pub(crate) fn is_here(&self) -> bool {
        let state = self.inner.lock();
        state
            .open
            .as_ref()
            .is_some_and(|open| open.sender.is_here())
    }

    /// Why all that was stored is lost, if it is, since the last call. Until this is called nothing is computed.
    pub(crate) fn take_loss(&self) -> Option<String> {
        let mut state = self.inner.lock();
        std::mem::take(&mut state.lost).then(|| self.inner.sentence(&state.fault))
    }

    /// Computes its layers: `stream` becomes the residual stream after them.
    pub(crate) fn forward(
        &self,
        table: &PageTable,
        parts: Vec<Part>,
        stream: &mut [u8],
    ) -> Result<(), String> {
        self.call(|open, mirror| {
            for &page in parts.iter().flat_map(|part| &part.pages) {
                mirror.show(open, table, page)?;
            }
            open.sender.send(&Message::Forward(parts, stream))?;
            let bytes = open.bytes()?;
            if bytes.len() != stream.len() {
                return Err(PeerError::Message {
                    what: "a residual stream has another length",
                });
            }
            stream.copy_from_slice(bytes);
            Ok(())
        })
    }

    pub(crate) fn copy_page(&self, table: &PageTable, copy: PageCopy) {
        self.tell(|open, mirror| {
            mirror.show(open, table, copy.from)?;
            mirror.show(open, table, copy.to)?;
            let message = Message::CopyPage(copy.from, copy.to, copy.windows);
            open.sender.push(&message)
        });
    }

    /// Adds what is in a page to `out`; false if it cannot be had.
    pub(crate) fn read_page(&self, table: &PageTable, page: PageId, out: &mut Vec<u8>) -> bool {
        let read = self.call(|open, mirror| {
            mirror.show(open, table, page)?;
            open.sender.send(&Message::ReadPage(page))?;
            out.extend_from_slice(open.bytes()?);
            Ok(())
        });
        read.is_ok()
    }

    pub(crate) fn write_page(&self, table: &PageTable, page: PageId, bytes: &[u8]) {
        self.tell(|open, mirror| {
            mirror.show(open, table, page)?;
            open.sender.push(&Message::WritePage(page, bytes))
        });
    }

    pub(crate) fn copy_state(&self, from: StateId, to: StateId) {
        self.tell(|open, _| open.sender.push(&Message::CopyState(from, to)));
    }

    /// Adds what is in a state to `out`; false if it cannot be had.
    pub(crate) fn read_state(&self, state: StateId, out: &mut Vec<u8>) -> bool {
        let read = self.call(|open, _| {
            open.sender.send(&Message::ReadState(state))?;
            out.extend_from_slice(open.bytes()?);
            Ok(())
        });
        read.is_ok()
    }

    pub(crate) fn write_state(&self, state: StateId, bytes: &[u8]) {
        self.tell(|open, _| open.sender.push(&Message::WriteState(state, bytes)));
    }

    /// Says something that has no answer. If it cannot be said, all is lost anyway, which the next batch finds out.
    fn tell(&self, say: impl FnOnce(&mut Open, &mut Mirror<'_>) -> Result<(), PeerError>) {
        let _ = self.call(say);
    }

    fn call<T>(
        &self,
        say: impl FnOnce(&mut Open, &mut Mirror<'_>) -> Result<T, PeerError>,
    ) -> Result<T, String> {
        let mut guard = self.inner.lock();
        let state = &mut *guard;
        let open = state.open.as_mut().filter(|_| !state.lost);
        let Some(open) = open else {
            return Err(self.inner.sentence(&state.fault));
        };
        let attention = &self.inner.attention;
        let sent = &mut state.sent;
        let said = say(open, &mut Mirror { attention, sent });
        state.used = Instant::now();
        said.map_err(|error| {
            self.inner.lose(state, &error);
            self.inner.sentence(&state.fault)
        })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let mut state = self.inner.lock();
        state.stop = true;
        if let Some(open) = &state.open {
            open.sender.close();
        }
        drop(state);
        self.inner.wake.notify_all();
        if let Some(keeper) = self.keeper.take() {
            // It panics only where a bug has told of itself already.
            let _ = keeper.join();
        }
    }
}

impl Open {
    fn bytes(&mut self) -> Result<&[u8], PeerError> {
        match answer(&mut self.receiver)? {
            Message::Bytes(bytes) => Ok(bytes),
            other => Err(unexpected(&other)),
        }
    }
}

/// What the peer knows of the page table.
struct Mirror<'s> {
    attention: &'s [usize],
    sent: &'s mut Vec<u32>,
}

impl Mirror<'_> {
    /// Tells the peer where a page's blocks are, unless it knows.
    fn show(&mut self, open: &mut Open, table: &PageTable, page: PageId) -> Result<(), PeerError> {
        let each = self.attention.len();
        let start = page.index() * each;
        if self.sent.len() < start + each {
            self.sent.resize(start + each, NEVER);
        }
        let known = &mut self.sent[start..start + each];
        let mut changed = false;
        for (known, &layer) in known.iter_mut().zip(self.attention) {
            let block = table.layer(layer)[page.index()];
            changed |= *known != block;
            *known = block;
        }
        if changed {
            open.sender.push(&Message::Blocks(page, known.to_vec()))?;
        }
        Ok(())
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the peer and all that it has stored are gone.
    fn lose(&self, state: &mut State, error: &PeerError) {
        if let Some(open) = state.open.take() {
            open.sender.close();
        }
        state.sent.clear();
        state.lost = true;
        state.fault = error.to_string();
        self.states.set(self.number, Some(state.fault.clone()));
        self.wake.notify_all();
    }

    fn sentence(&self, fault: &str) -> String {
        let Assignment { first, end, .. } = self.assignment;
        let last = end.saturating_sub(1);
        let address = &self.address;
        format!(
            "the peer {address}, which has layers {first} to {last}, cannot be reached: {fault}"
        )
    }

    /// Asks an idle peer whether it is there, and looks for one that is lost, until the link is dropped.
    fn keep(&self) {
        let [mut pause, longest] = BACK_OFF;
        let mut state = self.lock();
        while !state.stop {
            let idle = state.used.elapsed();
            if state.open.is_some() && idle < IDLE {
                state = self.sleep(state, IDLE - idle);
                continue;
            }
            if let Some(open) = &mut state.open {
                [pause, _] = BACK_OFF;
                let asked = open.sender.send(&Message::Ping);
                let heard = asked.and_then(|()| match answer(&mut open.receiver)? {
                    Message::Pong => Ok(()),
                    other => Err(unexpected(&other)),
                });
                state.used = Instant::now();
                if let Err(error) = heard {
                    self.lose(&mut state, &error);
                }
                continue;
            }
            state = self.sleep(state, pause);
            pause = (pause * 2).min(longest);
            if state.stop || state.open.is_some() {
                continue;
            }
            drop(state);
            let again = begin(&self.address, &self.key, &self.assignment, &mut |_, _| {
                !self.lock().stop
            });
            state = self.lock();
            match again {
                Ok(open) => {
                    state.open = Some(open);
                    state.used = Instant::now();
                    self.states.set(self.number, None);
                }
                Err(error) => {
                    state.fault = error.to_string();
                    self.states.set(self.number, Some(state.fault.clone()));
                }
            }
        }
    }

    fn sleep<'s>(&self, state: MutexGuard<'s, State>, time: Duration) -> MutexGuard<'s, State> {
        let slept = self.wake.wait_timeout(state, time);
        slept.unwrap_or_else(PoisonError::into_inner).0
    }
}
