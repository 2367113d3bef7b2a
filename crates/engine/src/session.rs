//! Sessions: a text that grows over many requests, can be forked, and outlives the process.
//!
//! A session is plain data: its tokens, and how it wants to be run. What was computed of it is in the engine's cache for
//! as long as there is room; if there is not, it is computed again, with the same result. Saved with its pages a session
//! goes on elsewhere without computing anything twice. What is restored is not trusted: lengths, tokens, the model's
//! digest and a checksum are looked at before anything is used.

use crate::cache::Kept;
use crate::engine::Engine;
use crate::page_store::{ModelDigest, kind_number};
use crate::prefix_tree::Salt;
use crate::request::{Event, EventKind, FinishReason, Request, RequestError, RequestId, Usage};
use crate::submit::SubmitError;
use alloc::string::String;
use alloc::vec::Vec;
use strata_model::PAGE;
use strata_platform::Sha256;

/// A text and how it goes on.
#[derive(Clone, Debug, Default)]
pub struct Session {
    tokens: Vec<u32>,
    /// How it is run: everything but the prompt. Its limits hold for each run.
    settings: Request,
}

/// What a run gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Completion {
    /// The tokens.
    pub tokens: Vec<u32>,
    /// The text.
    pub text: String,
    /// Why it ended.
    pub reason: FinishReason,
    /// What it took.
    pub usage: Usage,
}

/// Why a run gave nothing.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InferenceError {
    /// It was not taken.
    #[error(transparent)]
    Refused(#[from] SubmitError),
    /// It ended before its time.
    #[error(transparent)]
    Failed(#[from] RequestError),
}

/// Why a saved session cannot be restored.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum RestoreError {
    #[error("this is not a saved session")]
    Format,
    #[error("the session was saved by version {version}, which this one does not read")]
    Version { version: u32 },
    #[error("the saved session is damaged: its checksum is wrong")]
    Checksum,
    #[error("the session was saved with another model")]
    Model,
    #[error("token {token} of the saved session is not in the vocabulary of {vocabulary}")]
    Token { token: u32, vocabulary: usize },
    #[error("the saved session has {tokens} tokens and the context has room for {context}")]
    TooLong { tokens: usize, context: usize },
}

const MAGIC: &[u8; 8] = b"STRATASN";
const VERSION: u32 = 3;
const CHECKSUM: usize = 32;

impl Session {
    /// A session without text. Of `settings` everything but the prompt counts: how tokens are chosen, the client, the
    /// priority, the limits of each run.
    pub fn open(settings: Request) -> Self {
        Self {
            tokens: settings.prompt.clone(),
            settings,
        }
    }

    /// Its text so far.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// How it is run, to be changed between runs.
    pub fn settings_mut(&mut self) -> &mut Request {
        &mut self.settings
    }

    /// Adds to the text.
    pub fn append(&mut self, tokens: &[u32]) {
        self.tokens.extend_from_slice(tokens);
    }

    /// Forgets the text from a place on.
    pub fn truncate(&mut self, len: usize) {
        self.tokens.truncate(len);
    }

    /// Another session with the same text, which shares what was computed of it.
    #[must_use]
    pub fn fork(&self) -> Self {
        self.clone()
    }

    /// The request for the text to go on, for one who runs the engine's steps. What is generated is to be
    /// [appended](Self::append).
    pub fn request(&self) -> Request {
        Request {
            prompt: self.tokens.clone(),
            ..self.settings.clone()
        }
    }

    /// Lets the text go on until it ends, and appends what came. Other requests of the engine go on meanwhile; `tell`
    /// hears of them, and of this.
    pub fn run(
        &mut self,
        engine: &mut Engine,
        tell: &mut dyn FnMut(&Event),
    ) -> Result<Completion, InferenceError> {
        let id = engine.submit(self.request())?;
        let completion = complete(engine, id, tell)?;
        self.append(&completion.tokens);
        Ok(completion)
    }

    /// Writes the session down, with those of its pages that are in the cache. The settings are not part of it.
    pub fn save(&self, engine: &mut Engine) -> Vec<u8> {
        self.save_within(engine, usize::MAX)
    }

    /// The same, but without the pages if they have more bytes than `most`: what is missing is computed again.
    pub fn save_within(&self, engine: &mut Engine, most: usize) -> Vec<u8> {
        let salt = self.salt(engine);
        let mut kept = engine.cache.kept(salt, &self.tokens);
        let (executor, table) = (engine.cache.executor(), engine.cache.table());
        let layout = table.layout();
        let state = kept.state.map_or(0, |_| layout.state_bytes());
        if kept.pages.len() * layout.page_bytes() + state > most {
            kept = Kept::default();
        }
        let mut bytes = Vec::new();
        for &page in &kept.pages {
            executor.read_page(table, page, &mut bytes);
        }
        if let Some(state) = kept.state {
            executor.read_state(state, &mut bytes);
        }
        let state = kept.state.map_or(0, |_| layout.state_bytes());
        if bytes.len() != kept.pages.len() * layout.page_bytes() + state {
            // The executor has lost some of them: the text is what can be saved.
            bytes.clear();
            kept = Kept::default();
        }
        let mut out = Vec::new();
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&engine.digest.unwrap_or(ModelDigest([0; 32])).0);
        out.push(kind_number(layout.kind()));
        let state = if kept.state.is_some() {
            layout.state_bytes()
        } else {
            0
        };
        for number in [layout.page_bytes(), state, self.tokens.len(), kept.len] {
            out.extend_from_slice(&(number as u64).to_le_bytes());
        }
        for token in &self.tokens {
            out.extend_from_slice(&token.to_le_bytes());
        }
        out.append(&mut bytes);
        let checksum: [u8; CHECKSUM] = Sha256::digest(&out);
        out.extend_from_slice(&checksum);
        out
    }

    /// Reads a session, to be run with these settings, and brings as many of its pages into the cache as there is room
    /// for. An engine without a model's digest restores the text only.
    pub fn restore(
        engine: &mut Engine,
        settings: Request,
        bytes: &[u8],
    ) -> Result<Self, RestoreError> {
        let saved = Saved::parse(bytes)?;
        let vocabulary = engine.executor().config().vocabulary;
        let context = engine.options.context;
        if saved.tokens.len() > context {
            return Err(RestoreError::TooLong {
                tokens: saved.tokens.len(),
                context,
            });
        }
        let known = |&token: &u32| (token as usize) < vocabulary;
        if let Some(&token) = saved.tokens.iter().find(|token| !known(token)) {
            return Err(RestoreError::Token { token, vocabulary });
        }
        let session = Self {
            tokens: saved.tokens,
            settings,
        };
        let layout = engine.cache.table().layout();
        let (kind, page) = (kind_number(layout.kind()), layout.page_bytes());
        match engine.digest {
            Some(digest) if digest != saved.digest => return Err(RestoreError::Model),
            Some(_) if (kind, page as u64) == (saved.kind, saved.page) => {
                let salt = session.salt(engine);
                // Models without attention have pages of no bytes, and states.
                for index in 0..saved.len.div_ceil(PAGE) {
                    let bytes = &saved.pages[index * page..][..page];
                    let end = saved.len.min((index + 1) * PAGE);
                    let tokens = &session.tokens[..end];
                    let state = (end == saved.len).then_some(saved.state);
                    if !engine.cache.take_in(salt, tokens, bytes, state) {
                        break;
                    }
                }
            }
            _ => {}
        }
        Ok(session)
    }

    /// Gives up what is kept for this session's client and adapter. The engine must be idle: texts that run stand on
    /// what is kept.
    pub fn forget(&self, engine: &mut Engine) {
        if engine.is_idle() {
            let salt = self.salt(engine);
            engine.cache.clear(salt);
            engine.recollection.forget(salt.client);
            engine.refresh();
        }
    }

    fn salt(&self, engine: &Engine) -> Salt {
        Salt {
            client: self.settings.client,
            adapter: self.settings.adapter,
            alone: None,
            source: engine.source_of(&self.tokens),
            privacy: self.settings.privacy,
        }
    }
}

/// The parts of a saved session, of which each length has been looked at.
struct Saved<'b> {
    digest: ModelDigest,
    kind: u8,
    page: u64,
    tokens: Vec<u32>,
    /// Tokens in the pages.
    len: usize,
    pages: &'b [u8],
    /// The recurrent state after the last page.
    state: &'b [u8],
}

impl<'b> Saved<'b> {
    fn parse(bytes: &'b [u8]) -> Result<Self, RestoreError> {
        let format = RestoreError::Format;
        let rest = bytes.strip_prefix(MAGIC).ok_or(format)?;
        let (version, _) = rest.split_first_chunk::<4>().ok_or(format)?;
        let version = u32::from_le_bytes(*version);
        if version != VERSION {
            return Err(RestoreError::Version { version });
        }
        let (body, checksum) = bytes.split_last_chunk::<CHECKSUM>().ok_or(format)?;
        if Sha256::digest(body) != *checksum {
            return Err(RestoreError::Checksum);
        }
        let rest = body.get(MAGIC.len() + 4..).ok_or(format)?;
        let (digest, rest) = rest.split_first_chunk::<32>().ok_or(format)?;
        let (&kind, rest) = rest.split_first().ok_or(format)?;
        let mut numbers = [0; 4];
        let mut rest = rest;
        for number in &mut numbers {
            let (bytes, after) = rest.split_first_chunk::<8>().ok_or(format)?;
            *number = u64::from_le_bytes(*bytes);
            rest = after;
        }
        let [page, state, tokens, len] = numbers;
        let token_bytes = usize::try_from(tokens).ok().and_then(|n| n.checked_mul(4));
        let token_bytes = token_bytes.filter(|&n| n <= rest.len()).ok_or(format)?;
        let (tokens, rest) = rest.split_at(token_bytes);
        let page_bytes = len.div_ceil(PAGE as u64).checked_mul(page).ok_or(format)?;
        // Only a state can go on from a part of a page.
        let whole = page_bytes.checked_add(state) == Some(rest.len() as u64)
            && len <= (tokens.len() / 4) as u64
            && (state > 0 || len.is_multiple_of(PAGE as u64));
        if !whole {
            return Err(format);
        }
        let len = len as usize;
        let (pages, state) = rest.split_at(page_bytes as usize);
        let tokens = tokens.chunks_exact(4);
        Ok(Self {
            digest: ModelDigest(*digest),
            kind,
            page,
            tokens: tokens
                .map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
                .collect(),
            len,
            pages,
            state,
        })
    }
}

/// Computes how a context goes on, within the limits that `constraints` has, or says why not.
///
/// `constraints` is a request whose prompt does not count: everything else does.
pub fn run_inference(
    engine: &mut Engine,
    context: &[u32],
    constraints: Request,
) -> Result<Completion, InferenceError> {
    let request = Request {
        prompt: context.to_vec(),
        ..constraints
    };
    let id = engine.submit(request)?;
    complete(engine, id, &mut |_| {})
}

/// Takes steps until the first answer of a request has ended.
fn complete(
    engine: &mut Engine,
    id: RequestId,
    tell: &mut dyn FnMut(&Event),
) -> Result<Completion, InferenceError> {
    let (mut tokens, mut text, mut done) = (Vec::new(), String::new(), None);
    let mut ended = false;
    while !ended {
        engine.step(&mut |event| {
            tell(&event);
            if event.request != id || event.choice != 0 {
                return;
            }
            match event.kind {
                EventKind::Token {
                    token, text: new, ..
                } => {
                    tokens.push(token);
                    text.push_str(&new);
                }
                EventKind::Finished {
                    text: rest,
                    reason,
                    usage,
                } => {
                    text.push_str(&rest);
                    done = Some(Ok((reason, usage)));
                }
                EventKind::Failed(error) => done = Some(Err(error)),
                _ => {}
            }
        });
        ended = done.is_some();
    }
    let (reason, usage) = done.expect("the loop ends with it")?;
    Ok(Completion {
        tokens,
        text,
        reason,
        usage,
    })
}
