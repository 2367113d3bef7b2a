//! What a request asks the server to do, and who writes the reply.
//!
//! A dialect reads a request into a [`Call`]. The server does what it says and hands the outcome to the writer that
//! came with it, so a dialect's words never leave its folder.

use crate::answer::{Answer, Reply};
use crate::fault::Fault;
use crate::json::Json;
use crate::lang::{Embed, Generate, KeepAlive, Message, Rerank, Shape, Timings};
use crate::openai::Page;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// Writes an outcome in the words of a dialect.
pub type Writer<T> = Box<dyn FnOnce(&T) -> Reply + Send>;

/// What a request asks for.
#[expect(missing_docs, reason = "the types say what goes in and comes out")]
pub enum Call {
    /// Text; the answer writes events.
    Generate(Box<Generate>, Box<dyn Answer>),
    Embed(Embed, Writer<Embeddings>),
    Rerank(Rerank, Writer<Ranking>),
    Tokenize(Tokenize, Writer<Vec<TokenPiece>>),
    Detokenize(Detokenize, Writer<String>),
    /// What a request would give the model, without running it.
    Render(Box<Generate>, Writer<Rendered>),
    /// All models that can be asked for.
    Models(Writer<Vec<ModelFacts>>),
    /// One model; the default one if no name is given.
    Model(Option<String>, Writer<ModelFacts>),
    /// One model, with the long lists of its metadata.
    ModelInFull(String, Writer<ModelFacts>),
    /// The models that are in memory.
    Loaded(Writer<Vec<LoadedModel>>),
    /// Bring a model into memory, or drop it where `keep_alive` is zero.
    Load(Load, Writer<Timings>),
    /// The sequences that are being computed or kept.
    Slots(Writer<Vec<Slot>>),
    SlotAction(SlotAction, Writer<SlotOutcome>),
    Adapters(Writer<Vec<AdapterFacts>>),
    /// Sets the strength of adapters, by number, for requests that name none.
    ScaleAdapters(Vec<(usize, f32)>, Writer<()>),
    /// Fetch a model from a registry.
    Pull(Transfer, Box<dyn Report>),
    /// Send a model to a registry.
    Push(Transfer, Box<dyn Report>),
    /// Make a model of another or of files that were uploaded.
    Create(Box<Create>, Box<dyn Report>),
    /// Give a model another name too.
    Copy(Copying, Writer<()>),
    /// Remove a model.
    Delete(String, Writer<()>),
    /// Whether there is a blob with this SHA-256, in hexadecimal.
    BlobExists(String, Writer<bool>),
    /// The request's body is a blob with this SHA-256: the server streams it to where blobs are, and checks it.
    BlobUpload(String, Writer<()>),
    /// A stored answer.
    Stored(Stored, Writer<Json>),
    /// Liveness; needs no key.
    Health,
    /// Readiness: whether requests are taken.
    Ready,
    Metrics,
    OpenApi,
    /// The page, or the one line that clients look for.
    Front,
    /// Answered already.
    Reply(Reply),
}

/// Embeddings of texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Embeddings {
    /// For each text its rows: one, or one for each token where nothing is pooled.
    pub rows: Vec<Vec<Vec<f32>>>,
    /// Tokens of all texts.
    pub tokens: usize,
    /// How long it took.
    pub timings: Timings,
}

/// How well documents answer a query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranking {
    /// A score for each document, in their order.
    pub scores: Vec<f32>,
    /// Tokens of all pairs.
    pub tokens: usize,
}

/// A text to cut into tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain words")]
pub struct Tokenize {
    pub model: Option<String>,
    pub text: String,
    pub add_special: bool,
    pub parse_special: bool,
}

/// A token and what it spells.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain words")]
pub struct TokenPiece {
    pub token: u32,
    pub bytes: Vec<u8>,
}

/// Tokens to join.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain words")]
pub struct Detokenize {
    pub model: Option<String>,
    pub tokens: Vec<u32>,
}

/// What a model would be given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain words")]
pub struct Rendered {
    pub text: String,
    pub tokens: Vec<u32>,
}

/// What is known of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelFacts {
    /// Its name, with its tag.
    pub name: String,
    /// SHA-256 of its manifest or file, in hexadecimal.
    pub digest: String,
    /// Bytes of its files.
    pub bytes: u64,
    /// Seconds since 1970 when it was made or last changed.
    pub modified: u64,
    /// The architecture.
    pub family: String,
    /// Weights, counted.
    pub parameters: u64,
    /// The type of most weights, such as `Q4_K_M`.
    pub quantization: String,
    /// Positions that it was trained for.
    pub trained_context: usize,
    /// Positions that requests get here.
    pub context: usize,
    /// Numbers of an embedding.
    pub embedding: usize,
    /// Tokens of the vocabulary.
    pub vocabulary: usize,
    /// The chat template.
    pub template: Option<String>,
    /// The system prompt that it comes with.
    pub system: Option<String>,
    /// The messages that its conversations begin with.
    pub messages: Vec<Message>,
    /// Parameters that it comes with, as a Modelfile's lines.
    pub settings: Vec<(String, Json)>,
    /// Its licences.
    pub licenses: Vec<String>,
    /// The Modelfile that would make it.
    pub modelfile: String,
    /// What it can do.
    pub capabilities: Vec<Capability>,
    /// The metadata of its file; long lists are `null` unless asked for.
    pub metadata: Vec<(String, Json)>,
    /// Its tensors: name, type, sizes.
    pub tensors: Vec<(String, String, Vec<u64>)>,
    /// Where it is.
    pub path: Option<String>,
    /// Requests that run side by side.
    pub slots: usize,
}

/// What a model can do.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain words")]
pub enum Capability {
    Completion,
    Tools,
    Insert,
    Vision,
    Embedding,
    Thinking,
}

impl Capability {
    /// The word that clients know.
    pub fn name(self) -> &'static str {
        match self {
            Self::Completion => "completion",
            Self::Tools => "tools",
            Self::Insert => "insert",
            Self::Vision => "vision",
            Self::Embedding => "embedding",
            Self::Thinking => "thinking",
        }
    }
}

/// A model in memory.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "plain words")]
pub struct LoadedModel {
    pub facts: ModelFacts,
    /// Bytes in memory.
    pub bytes: u64,
    /// Seconds since 1970 when it is dropped unless it is used again; `None` if never.
    pub expires: Option<u64>,
}

/// A model to bring into memory or to drop.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain words")]
pub struct Load {
    pub model: String,
    pub keep_alive: Option<KeepAlive>,
}

/// A place for a running request.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "plain words")]
pub struct Slot {
    pub id: usize,
    pub busy: bool,
    pub prompt_tokens: usize,
    pub generated_tokens: usize,
    pub context: usize,
}

/// What to do with a slot's cache.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain words")]
pub enum SlotAction {
    Save { slot: usize, file: String },
    Restore { slot: usize, file: String },
    Erase { slot: usize },
}

/// What came of it.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain words")]
pub struct SlotOutcome {
    pub tokens: usize,
    pub bytes: u64,
    pub timings: Timings,
}

/// An adapter that requests can name.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "plain words")]
pub struct AdapterFacts {
    pub id: usize,
    pub path: String,
    pub scale: f32,
}

/// What to do with a stored answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain words")]
pub enum Stored {
    Get(String),
    Delete(String),
    Cancel(String),
    /// The conversation that it was given to, a page of it.
    InputItems(String, Page),
}

/// An answer to keep, so that a later request can go on from it by its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// Its name.
    pub id: String,
    /// The answer as the client got it.
    pub document: Json,
    /// The conversation up to and with it.
    pub messages: Vec<Message>,
}

/// A model to fetch or to send.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain words")]
pub struct Transfer {
    pub model: String,
    /// Without TLS, or without looking at its certificate.
    pub insecure: bool,
}

/// A model to make.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Create {
    /// Its name.
    pub model: String,
    /// The model that it is made of.
    pub from: Option<String>,
    /// Or the files: their names with the SHA-256 of their blobs, in hexadecimal.
    pub files: Vec<(String, String)>,
    /// Files of adapters, likewise.
    pub adapters: Vec<(String, String)>,
    /// Its chat template.
    pub template: Option<String>,
    /// Its licences.
    pub licenses: Vec<String>,
    /// Its system prompt.
    pub system: Option<String>,
    /// Its parameters, by the names that Modelfiles have for them.
    pub parameters: Vec<(String, Json)>,
    /// The messages that each conversation begins with.
    pub messages: Vec<Message>,
    /// The type that its weights shall have, such as `q4_K_M`.
    pub quantize: Option<String>,
}

/// A name for a model that has one already.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain words")]
pub struct Copying {
    pub source: String,
    pub destination: String,
}

/// How far a long piece of work has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// What is being done, such as `pulling manifest`.
    pub status: String,
    /// The blob that it is being done to.
    pub digest: Option<String>,
    /// Its bytes.
    pub total: Option<u64>,
    /// Those that are done.
    pub completed: Option<u64>,
}

/// What happens to a long piece of work; [`Done`](Step::Done) or [`Failed`](Step::Failed) ends it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain words")]
pub enum Step {
    Progress(Progress),
    Done,
    Failed(Fault),
}

/// Writes the steps of a long piece of work in the words of a dialect.
pub trait Report: Send {
    /// How it is sent.
    fn shape(&self) -> Shape;

    /// Appends what a step adds to the body. [`Step::Failed`] before anything was sent is a [`fault`](Self::fault).
    fn step(&mut self, step: &Step, out: &mut Vec<u8>);

    /// The whole reply for work that failed before anything was sent.
    fn fault(&self, fault: &Fault) -> Reply;
}

/// Where kept answers are found; what one client kept, another must not find.
pub trait Recall {
    /// The conversation up to and with an answer.
    fn recall(&mut self, id: &str) -> Option<Vec<Message>>;
}

/// Nothing is kept.
impl Recall for () {
    fn recall(&mut self, _: &str) -> Option<Vec<Message>> {
        None
    }
}
