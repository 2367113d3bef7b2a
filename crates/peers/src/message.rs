//! What a head and its peers say to each other, as bytes: little-endian, lengths before what they count.

use crate::error::PeerError;
use strata_model::{KvType, PageId, StateId};

/// The version of the protocol, of which both sides must speak the same. The numerics contract is part of it: a change of
/// any bit is a new version.
pub const PROTOCOL: u16 = 1;

/// What a peer says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// A digest of the model's metadata and of its tensors' names, types and shapes.
    pub outline: [u8; 32],
    /// Bytes that it has for weights, pages and activations.
    pub room: u64,
    /// How many workers compute.
    pub workers: u32,
}

/// What a head gives a peer to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The first layer.
    pub first: u32,
    /// The layer after the last.
    pub end: u32,
    /// How keys and values are stored.
    pub kv: KvType,
    /// The length that sequences may have: some models choose their rotary factors by it.
    pub context: u32,
    /// Positions that pages are taken for.
    pub positions: u64,
    /// Recurrent states.
    pub states: u32,
    /// Tokens of a batch at most.
    pub tokens: u32,
    /// A digest of samples of the layers' weights.
    pub samples: [u8; 32],
}

/// What an assignment takes, in bytes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Weights.
    pub weights: u64,
    /// Pages and states.
    pub pages: u64,
    /// Activations.
    pub activations: u64,
    /// A token's residual stream on its way.
    pub token: u32,
}

/// Tokens of one sequence in a batch: what a peer has to know of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Positions that have been computed.
    pub len: u32,
    /// Pages at the beginning without the windows' part.
    pub forgotten: u32,
    /// The recurrent state.
    pub state: Option<StateId>,
    /// How many tokens.
    pub tokens: u32,
    /// The sequence's pages.
    pub pages: Vec<PageId>,
}

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<'b> {
    /// Head: who are you? The answer is [`Facts`](Self::Facts).
    Ask,
    /// Head: load this. Answers are [`Progress`](Self::Progress) and [`Ready`](Self::Ready).
    Begin(Assignment),
    /// Head: are you there? The answer is [`Pong`](Self::Pong).
    Ping,
    /// Head: a page's blocks are here, one for each layer with keys and values. No answer, as of all that moves.
    Blocks(PageId, Vec<u32>),
    /// Head: copy a page; the last says whether the windows' part is copied too.
    CopyPage(PageId, PageId, bool),
    /// Head: copy a state.
    CopyState(StateId, StateId),
    /// Head: fill a page.
    WritePage(PageId, &'b [u8]),
    /// Head: fill a state.
    WriteState(StateId, &'b [u8]),
    /// Head: what is in a page? The answer is [`Bytes`](Self::Bytes).
    ReadPage(PageId),
    /// Head: what is in a state? The answer is [`Bytes`](Self::Bytes).
    ReadState(StateId),
    /// Head: compute a batch on its residual stream. The answer is [`Bytes`](Self::Bytes), the stream after the layers.
    Forward(Vec<Part>, &'b [u8]),
    /// Peer: what it is.
    Facts(Facts),
    /// Peer: bytes loaded and bytes in all.
    Progress(u64, u64),
    /// Peer: it has loaded what it was given.
    Ready(Taken),
    /// Peer: I am at work.
    Working,
    /// Peer: I am here.
    Pong,
    /// Peer: what was asked for.
    Bytes(&'b [u8]),
    /// Peer: no, and why. The connection ends.
    Refused(String),
}

/// Stands where there is no state.
const NOTHING: u32 = u32::MAX;

/// Characters of a refusal at most.
const LONGEST_REFUSAL: usize = 2000;

impl<'b> Message<'b> {
    /// Adds its bytes to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let number = |out: &mut Vec<u8>, number: u32| out.extend_from_slice(&number.to_le_bytes());
        let large = |out: &mut Vec<u8>, number: u64| out.extend_from_slice(&number.to_le_bytes());
        out.push(self.tag());
        match self {
            Self::Ask | Self::Ping | Self::Working | Self::Pong => {}
            Self::Begin(assignment) => assignment.write(out),
            Self::Blocks(page, blocks) => {
                number(out, page.index() as u32);
                blocks.iter().for_each(|&block| number(out, block));
            }
            Self::CopyPage(from, to, windows) => {
                number(out, from.index() as u32);
                number(out, to.index() as u32);
                out.push(u8::from(*windows));
            }
            Self::CopyState(from, to) => {
                number(out, from.index() as u32);
                number(out, to.index() as u32);
            }
            Self::WritePage(page, bytes) => {
                number(out, page.index() as u32);
                out.extend_from_slice(bytes);
            }
            Self::WriteState(state, bytes) => {
                number(out, state.index() as u32);
                out.extend_from_slice(bytes);
            }
            Self::ReadPage(page) => number(out, page.index() as u32),
            Self::ReadState(state) => number(out, state.index() as u32),
            Self::Forward(parts, stream) => {
                number(out, parts.len() as u32);
                for part in parts {
                    number(out, part.len);
                    number(out, part.forgotten);
                    number(
                        out,
                        part.state.map_or(NOTHING, |state| state.index() as u32),
                    );
                    number(out, part.tokens);
                    number(out, part.pages.len() as u32);
                    let pages = part.pages.iter();
                    pages.for_each(|page| number(out, page.index() as u32));
                }
                out.extend_from_slice(stream);
            }
            Self::Facts(facts) => {
                out.extend_from_slice(&facts.outline);
                large(out, facts.room);
                number(out, facts.workers);
            }
            Self::Progress(done, all) => {
                large(out, *done);
                large(out, *all);
            }
            Self::Ready(taken) => {
                large(out, taken.weights);
                large(out, taken.pages);
                large(out, taken.activations);
                number(out, taken.token);
            }
            Self::Bytes(bytes) => out.extend_from_slice(bytes),
            Self::Refused(text) => out.extend_from_slice(text.as_bytes()),
        }
    }

    fn tag(&self) -> u8 {
        match self {
            Self::Ask => 0,
            Self::Begin(_) => 1,
            Self::Ping => 2,
            Self::Blocks(..) => 3,
            Self::CopyPage(..) => 4,
            Self::CopyState(..) => 5,
            Self::WritePage(..) => 6,
            Self::WriteState(..) => 7,
            Self::ReadPage(_) => 8,
            Self::ReadState(_) => 9,
            Self::Forward(..) => 10,
            Self::Facts(_) => 128,
            Self::Progress(..) => 129,
            Self::Ready(_) => 130,
            Self::Working => 131,
            Self::Pong => 132,
            Self::Bytes(_) => 133,
            Self::Refused(_) => 134,
        }
    }

    /// Reads a message; never panics, and takes no memory that the bytes do not account for.
    pub fn parse(bytes: &'b [u8]) -> Result<Self, PeerError> {
        let mut rest = Bytes(bytes);
        let message = match rest.byte()? {
            0 => Self::Ask,
            1 => Self::Begin(Assignment::parse(&mut rest)?),
            2 => Self::Ping,
            3 => Self::Blocks(rest.page()?, rest.numbers()?),
            4 => Self::CopyPage(rest.page()?, rest.page()?, rest.flag()?),
            5 => Self::CopyState(rest.state()?, rest.state()?),
            6 => Self::WritePage(rest.page()?, rest.all()),
            7 => Self::WriteState(rest.state()?, rest.all()),
            8 => Self::ReadPage(rest.page()?),
            9 => Self::ReadState(rest.state()?),
            10 => Self::Forward(rest.parts()?, rest.all()),
            128 => Self::Facts(Facts {
                outline: *rest.array()?,
                room: rest.large()?,
                workers: rest.number()?,
            }),
            129 => Self::Progress(rest.large()?, rest.large()?),
            130 => Self::Ready(Taken {
                weights: rest.large()?,
                pages: rest.large()?,
                activations: rest.large()?,
                token: rest.number()?,
            }),
            131 => Self::Working,
            132 => Self::Pong,
            133 => Self::Bytes(rest.all()),
            134 => {
                let text = String::from_utf8_lossy(rest.all());
                let printable = text.chars().filter(|c| !c.is_control());
                Self::Refused(printable.take(LONGEST_REFUSAL).collect())
            }
            _ => return Err(damaged("it is of no known kind")),
        };
        if rest.0.is_empty() {
            Ok(message)
        } else {
            Err(damaged("it is too long"))
        }
    }
}

impl Assignment {
    fn write(&self, out: &mut Vec<u8>) {
        let kv = match self.kv {
            KvType::F32 => 0,
            KvType::F16 => 1,
            KvType::Q8_0 => 2,
        };
        out.push(kv);
        for number in [self.first, self.end, self.context, self.states, self.tokens] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.positions.to_le_bytes());
        out.extend_from_slice(&self.samples);
    }

    fn parse(rest: &mut Bytes<'_>) -> Result<Self, PeerError> {
        let kv = match rest.byte()? {
            0 => KvType::F32,
            1 => KvType::F16,
            2 => KvType::Q8_0,
            _ => return Err(damaged("keys and values have no such type")),
        };
        let mut number = || rest.number();
        Ok(Self {
            kv,
            first: number()?,
            end: number()?,
            context: number()?,
            states: number()?,
            tokens: number()?,
            positions: rest.large()?,
            samples: *rest.array()?,
        })
    }
}

fn damaged(what: &'static str) -> PeerError {
    PeerError::Message { what }
}

/// What is left of a message.
struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    fn array<const N: usize>(&mut self) -> Result<&'b [u8; N], PeerError> {
        let (array, rest) = self
            .0
            .split_first_chunk()
            .ok_or(damaged("it is too short"))?;
        self.0 = rest;
        Ok(array)
    }

    fn byte(&mut self) -> Result<u8, PeerError> {
        self.array::<1>().map(|&[byte]| byte)
    }

    fn flag(&mut self) -> Result<bool, PeerError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(damaged("it is neither yes nor no")),
        }
    }

    fn number(&mut self) -> Result<u32, PeerError> {
        self.array().map(|bytes| u32::from_le_bytes(*bytes))
    }

    fn large(&mut self) -> Result<u64, PeerError> {
        self.array().map(|bytes| u64::from_le_bytes(*bytes))
    }

    fn page(&mut self) -> Result<PageId, PeerError> {
        self.number().map(PageId::new)
    }

    fn state(&mut self) -> Result<StateId, PeerError> {
        self.number().map(StateId::new)
    }

    /// All that is left.
    fn all(&mut self) -> &'b [u8] {
        std::mem::take(&mut self.0)
    }

    /// All that is left, as numbers.
    fn numbers(&mut self) -> Result<Vec<u32>, PeerError> {
        let (numbers, rest) = self.all().as_chunks();
        if !rest.is_empty() {
            return Err(damaged("it ends within a number"));
        }
        Ok(numbers
            .iter()
            .map(|bytes| u32::from_le_bytes(*bytes))
            .collect())
    }

    fn parts(&mut self) -> Result<Vec<Part>, PeerError> {
        let count = self.number()?;
        let mut parts = Vec::new();
        for _ in 0..count {
            let (len, forgotten, state) = (self.number()?, self.number()?, self.number()?);
            let (tokens, pages) = (self.number()?, self.number()? as usize);
            let bytes = pages.checked_mul(4).filter(|&bytes| bytes <= self.0.len());
            let bytes = bytes.ok_or(damaged("it has fewer pages than it says"))?;
            let (own, rest) = self.0.split_at(bytes);
            self.0 = rest;
            parts.push(Part {
                len,
                forgotten,
                state: (state != NOTHING).then(|| StateId::new(state)),
                tokens,
                pages: Bytes(own).numbers()?.into_iter().map(PageId::new).collect(),
            });
        }
        Ok(parts)
    }
}

#[cfg(test)]
mod tests;
