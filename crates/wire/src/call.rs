//! What a request asks the server to do, and who writes the reply.
//!
//! A dialect reads a request into a [`Call`]. The server does what it says and hands the outcome to the writer that
//! came with it, so a dialect's words never leave its folder.

use crate::answer::{AnswerWriter, Framing, Reply};
use crate::lessons::Lesson;
use crate::openai::Page;
use crate::openapi;
use crate::sessions::SessionCall;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::json::Json;
use strata_chat::{
    AdapterFacts, Detokenize, Embed, Embeddings, Fault, FaultKind, Generate, KeepAlive,
    LoadedModel, Message, ModelFacts, Progress, Ranking, RenderedPrompt, Rerank, Segment, Slot,
    SlotAction, SlotOutcome, Timings, Tokenize, Tokenized, TokenizerFacts, Transcribe, Transcript,
};

/// Writes an outcome in the words of a dialect.
pub type ReplyWriter<T> = Box<dyn FnOnce(&T) -> Reply + Send>;

/// What a request asks for.
#[expect(missing_docs, reason = "the types say what goes in and comes out")]
pub enum Call {
    /// Text; the answer writes events.
    Generate(Box<Generate>, Box<dyn AnswerWriter>),
    Embed(Embed, ReplyWriter<Embeddings>),
    /// Speech as text.
    Transcribe(Box<Transcribe>, Box<dyn TranscriptWriter>),
    Rerank(Rerank, ReplyWriter<Ranking>),
    Tokenize(Tokenize, ReplyWriter<Tokenized>),
    Detokenize(Detokenize, ReplyWriter<String>),
    /// What is known of the default model's tokenizer.
    Tokenizer(ReplyWriter<TokenizerFacts>),
    /// What a request would give the model, without running it.
    Render(Box<Generate>, ReplyWriter<RenderedPrompt>),
    /// The same, prompt by prompt.
    RenderEach(Box<Generate>, ReplyWriter<Vec<RenderedPrompt>>),
    /// All models that can be asked for.
    Models(ReplyWriter<Vec<ModelFacts>>),
    /// One model; the default one if no name is given.
    Model(Option<String>, ReplyWriter<ModelFacts>),
    /// One model, with the long lists of its metadata.
    ModelInFull(String, ReplyWriter<ModelFacts>),
    /// The models that are in memory.
    Loaded(ReplyWriter<Vec<LoadedModel>>),
    /// Bring a model into memory, or drop it where `keep_alive` is zero.
    Load(Load, ReplyWriter<Timings>),
    /// The sequences that are being computed or kept.
    Slots(ReplyWriter<Vec<Slot>>),
    SlotAction(SlotAction, ReplyWriter<SlotOutcome>),
    Adapters(ReplyWriter<Vec<AdapterFacts>>),
    /// Sets the strength of adapters, by number, for requests that name none.
    ScaleAdapters(Vec<(usize, f32)>, ReplyWriter<()>),
    /// Fetch a model from a registry.
    Pull(Transfer, Box<dyn ProgressWriter>),
    /// Send a model to a registry.
    Push(Transfer, Box<dyn ProgressWriter>),
    /// Make a model of another or of files that were uploaded.
    Create(Box<Create>, Box<dyn ProgressWriter>),
    /// Give a model another name too.
    Copy(Copying, ReplyWriter<()>),
    /// Remove a model.
    Delete(String, ReplyWriter<()>),
    /// Whether there is a blob with this SHA-256, in hexadecimal.
    BlobExists(String, ReplyWriter<bool>),
    /// The request's body is a blob with this SHA-256: the server streams it to where blobs are, and checks it.
    BlobUpload(String, ReplyWriter<()>),
    /// A stored answer.
    Stored(Stored, ReplyWriter<Json>),
    /// A conversation that the server keeps.
    Conversation(KeptConversation, ReplyWriter<Json>),
    /// A session of a user of this machine.
    Session(SessionCall),
    /// What users have taken.
    Usage,
    /// What happens inside the model.
    Lesson(Lesson, ReplyWriter<Json>),
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

/// A model to bring into memory or to drop.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain words")]
pub struct Load {
    pub model: String,
    pub keep_alive: Option<KeepAlive>,
    pub context: Option<usize>,
}

/// What to do with a stored answer.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "plain words")]
pub enum Stored {
    Get(String),
    Delete(String),
    Cancel(String),
    /// The conversation that it was given to, a page of it.
    InputItems(String, Page),
    /// The same of a chat.
    Messages(String, Page),
    /// Labels it anew.
    Label(String, Json),
    /// The chats of a model, where one is named, with these labels.
    Chats {
        model: Option<String>,
        labels: Vec<(String, String)>,
        page: Page,
    },
}

/// What to do with a conversation that the server keeps.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "plain words")]
pub enum KeptConversation {
    Create { items: Vec<Json>, labels: Json },
    Get(String),
    Label(String, Json),
    Delete(String),
    Items(String, Page),
    Add(String, Vec<Json>),
    Item(String, String),
    DeleteItem(String, String),
}

/// An answer to keep, so that a later request can go on from it by its name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    /// Its name.
    pub id: String,
    /// The answer as the client got it; `Null` if only its conversation grows.
    pub document: Json,
    /// The conversation up to and with it.
    pub messages: Vec<Message>,
    /// A conversation that the server keeps, and what is added to it.
    pub added: Option<(String, Vec<Json>)>,
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

/// What happens to a long piece of work; [`Done`](Step::Done) or [`Failed`](Step::Failed) ends it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain words")]
pub enum Step {
    Progress(Progress),
    Done,
    Failed(Fault),
}

/// Writes the steps of a long piece of work in the words of a dialect.
pub trait ProgressWriter: Send {
    /// How it is sent.
    fn framing(&self) -> Framing;

    /// Appends what a step adds to the body. [`Step::Failed`] before anything was sent is a [`fault`](Self::fault).
    fn step(&mut self, step: &Step, out: &mut Vec<u8>);

    /// The whole reply for work that failed before anything was sent.
    fn fault(&self, fault: &Fault) -> Reply;
}

/// Writes a transcript in the words of a dialect: as events, or as one reply.
pub trait TranscriptWriter: Send {
    /// How it is sent.
    fn framing(&self) -> Framing;

    /// Appends what a segment adds to events.
    fn segment(&mut self, segment: &Segment, out: &mut Vec<u8>);

    /// Appends what ends events.
    fn done(&mut self, transcript: &Transcript, out: &mut Vec<u8>);

    /// Appends what ends events that fail.
    fn failed(&mut self, fault: &Fault, out: &mut Vec<u8>);

    /// The whole reply.
    fn reply(&self, transcript: &Transcript) -> Reply;

    /// The whole reply for sound that cannot be transcribed.
    fn fault(&self, fault: &Fault) -> Reply;
}

/// Where kept answers are found; what one client kept, another must not find.
pub trait Recall {
    /// The conversation up to and with an answer.
    fn recall(&mut self, id: &str) -> Option<Vec<Message>>;

    /// The document that was kept with an answer.
    fn document(&mut self, _id: &str) -> Option<Json> {
        None
    }

    /// The items of a conversation.
    fn conversation(&mut self, _id: &str) -> Option<Vec<Json>> {
        None
    }
}

/// Nothing is kept.
impl Recall for () {
    fn recall(&mut self, _: &str) -> Option<Vec<Message>> {
        None
    }
}

impl Call {
    /// Replies to a call that asks for nothing but what every server has; gives back any other.
    pub fn reply(self) -> Result<Reply, Self> {
        match self {
            Self::Front => Ok(Reply::text("Ollama is running")),
            Self::Health => Ok(Reply::health("ok")),
            Self::OpenApi => Ok(Reply::json(&openapi::document())),
            Self::Reply(reply) => Ok(reply),
            other => Err(other),
        }
    }
}

/// There is no model of this name.
pub fn unknown_model(name: &str) -> Fault {
    let problem = format_args!("model {name:?} not found; GET /v1/models lists those there are");
    Fault {
        field: Some("model".into()),
        ..Fault::new(FaultKind::NotFound, problem)
    }
}

/// A body that is encoded in a way that the server does not know.
pub fn unknown_encoding(encoding: &str) -> Fault {
    let problem = format_args!("bodies with the content encoding {encoding:?} are not supported");
    Fault::new(FaultKind::Encoding, problem)
}
