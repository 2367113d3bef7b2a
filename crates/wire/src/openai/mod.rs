//! OpenAI's API: chat completions, completions, embeddings, models, responses; with the extras of llama-server and vLLM.
//!
//! <https://platform.openai.com/docs/api-reference>

mod audio;
mod chat;
mod completions;
mod conversations;
mod embeddings;
mod errors;
mod models;
mod responses;
mod usage;

pub use responses::{Page, ResponseStore, kept_from_json, kept_to_json};

use crate::answer::Framing;
use crate::call::Call;
use crate::dialect::Dialect;
use crate::request_fields::chat::LastAnswer;
use crate::rerank;
use crate::route::{RequestBody, Route, RouteRequest};
use crate::stamp::Stamp;
use crate::url::unescape;
use alloc::format;
use alloc::string::String;
use strata_chat::Fault;
use strata_chat::json::Json;

/// The dialect.
pub static DIALECT: Dialect = Dialect {
    name: "OpenAI",
    routes: &[
        Route::post(
            "/v1/chat/completions",
            "The next message of a conversation.",
            |asked| chat(asked.body, asked.stamp, LastAnswer::Stands),
        )
        .streams(Framing::Events),
        Route::post(
            "/v1/chat/completions/render",
            "The tokens that a conversation would give the model.",
            |asked| chat::render(asked.body, asked.stamp),
        ),
        Route::post(
            "/v1/chat/completions/input_tokens",
            "How many tokens a conversation has.",
            |asked| count(asked.body, LastAnswer::Stands),
        ),
        Route::get(
            "/v1/chat/completions",
            "The chats that were kept.",
            chat::stored::list,
        ),
        Route::get(
            "/v1/chat/completions/{id}",
            "A chat that was kept.",
            chat::stored::get,
        ),
        Route::post(
            "/v1/chat/completions/{id}",
            "Labels a chat that was kept.",
            chat::stored::label,
        ),
        Route::delete(
            "/v1/chat/completions/{id}",
            "Drops a chat that was kept.",
            chat::stored::delete,
        ),
        Route::get(
            "/v1/chat/completions/{id}/messages",
            "The conversation that a kept chat was given to.",
            chat::stored::messages,
        ),
        Route::post("/v1/completions", "How a text goes on.", |asked| {
            complete(asked.body, asked.stamp)
        })
        .streams(Framing::Events),
        Route::post(
            "/v1/completions/render",
            "The tokens that prompts would give the model.",
            |asked| completions::render(asked.body, asked.stamp),
        ),
        Route::post("/v1/embeddings", "Vectors that stand for texts.", |asked| {
            embeddings::open(asked.body)
        }),
        Route::post(
            "/v1/audio/transcriptions",
            "What is said in an audio file.",
            |asked| audio::transcribe(asked.body),
        )
        .takes(RequestBody::Form)
        .streams(Framing::Events),
        Route::post(
            "/v1/audio/translations",
            "What is said in an audio file, in English.",
            |asked| audio::translate(asked.body),
        )
        .takes(RequestBody::Form)
        .streams(Framing::Events),
        Route::post(
            "/v1/rerank",
            "How well documents answer a query.",
            |asked| rerank::open(asked.body),
        ),
        Route::post(
            "/v1/reranking",
            "How well documents answer a query.",
            |asked| rerank::open(asked.body),
        ),
        Route::get("/v1/models", "The models that can be asked for.", |_| {
            Ok(models())
        }),
        Route::get("/v1/models/{id}", "What is known of a model.", |asked| {
            unescape(asked.id).map(models::one)
        })
        .with_slashes(),
        Route::post(
            "/v1/responses",
            "The next turn of a conversation, kept so that another can follow it.",
            response,
        )
        .streams(Framing::Events),
        Route::post(
            "/v1/responses/input_tokens",
            "How many tokens a request for a response has.",
            |asked| responses::count(asked.body, asked.recall),
        ),
        Route::get("/v1/responses/{id}", "A response that was kept.", |asked| {
            responses::get(asked.id, asked.query)
        }),
        Route::delete(
            "/v1/responses/{id}",
            "Drops a response that was kept.",
            |asked| responses::delete(asked.id),
        ),
        Route::post(
            "/v1/responses/{id}/cancel",
            "Ends a response that runs in the background.",
            |asked| responses::cancel(asked.id),
        ),
        Route::get(
            "/v1/responses/{id}/input_items",
            "The conversation that a kept response was given to.",
            |asked| responses::input_items(asked.id, asked.query),
        ),
        Route::post(
            "/v1/conversations",
            "Begins a conversation that the server keeps.",
            conversations::create,
        ),
        Route::get(
            "/v1/conversations/{id}/items",
            "The items of a conversation.",
            conversations::list,
        ),
        Route::post(
            "/v1/conversations/{id}/items",
            "Adds items to a conversation.",
            conversations::add,
        ),
        Route::get(
            "/v1/conversations/{id}",
            "A conversation that the server keeps, or one of its items.",
            conversations::get,
        )
        .with_slashes(),
        Route::post(
            "/v1/conversations/{id}",
            "Labels a conversation.",
            conversations::label,
        ),
        Route::delete(
            "/v1/conversations/{id}",
            "Drops a conversation, or one of its items.",
            conversations::delete,
        )
        .with_slashes(),
    ],
    prefix: Some("/v1/"),
    request_id: "x-request-id",
    fault: |fault, _| errors::fault(fault),
};

/// Opens a chat.
pub(crate) fn chat(body: &[u8], stamp: &Stamp, last: LastAnswer) -> Result<Call, Fault> {
    chat::open(body, stamp, last)
}

/// Opens a completion.
pub(crate) fn complete(body: &[u8], stamp: &Stamp) -> Result<Call, Fault> {
    completions::open(body, stamp)
}

/// Counts a chat's tokens.
pub(crate) fn count(body: &[u8], last: LastAnswer) -> Result<Call, Fault> {
    chat::count(body, last)
}

/// Opens a request for a response.
pub(crate) fn response(asked: &mut RouteRequest<'_>) -> Result<Call, Fault> {
    responses::open(asked.body, asked.stamp, asked.recall)
}

/// Asks for the models.
pub(crate) fn models() -> Call {
    models::list()
}

/// What stands at the head of an answer and of each of its pieces.
#[derive(Clone, Debug)]
struct Head {
    id: String,
    object: &'static str,
    created: u64,
    model: String,
}

impl Head {
    fn new(prefix: &str, object: &'static str, model: &str, stamp: &Stamp) -> Self {
        Self {
            id: format!("{prefix}{}", stamp.id),
            object,
            created: stamp.unix_seconds,
            model: model.into(),
        }
    }

    /// Names the model that answers, where the request named none.
    fn answered_by(&mut self, model: &str) {
        if self.model.is_empty() {
            self.model = model.into();
        }
    }

    /// An object that begins with it.
    fn object(&self) -> Json {
        Json::object([
            ("id", self.id.as_str().into()),
            ("object", self.object.into()),
            ("created", self.created.into()),
            ("model", self.model.as_str().into()),
            ("system_fingerprint", FINGERPRINT.into()),
        ])
    }
}

/// The same program gives the same answer to the same seed, whatever machine it runs on.
const FINGERPRINT: &str = concat!("strata-", env!("CARGO_PKG_VERSION"));
