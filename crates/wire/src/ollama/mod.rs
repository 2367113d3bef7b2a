//! Ollama's API: generate, chat, embeddings, and the models of its store.
//!
//! <https://github.com/ollama/ollama/blob/main/docs/api.md>

mod chat;
mod embed;
mod errors;
mod generate;
mod models;
mod options;
mod store;
mod write;

use crate::answer::{Framing, Reply};
use crate::call::{Call, Load};
use crate::dialect::Dialect;
use crate::route::{RequestBody, Route};
use crate::url::unescape;
use alloc::boxed::Box;
use alloc::string::String;
use core::time::Duration;
use strata_chat::json::{Fields, Json};
use strata_chat::{Fault, Generate, KeepAlive};

/// The dialect.
pub static DIALECT: Dialect = Dialect {
    name: "Ollama",
    routes: &[
        Route::post(
            "/api/generate",
            "How a text goes on, or a model loaded or dropped.",
            |asked| generate::open(asked.body, asked.stamp),
        )
        .streams(Framing::Lines),
        Route::post(
            "/api/chat",
            "The next message of a conversation.",
            |asked| chat::open(asked.body, asked.stamp),
        )
        .streams(Framing::Lines),
        Route::post("/api/embed", "Vectors that stand for texts.", |asked| {
            embed::open(asked.body)
        }),
        Route::post(
            "/api/embeddings",
            "Vectors that stand for texts.",
            |asked| embed::legacy(asked.body),
        ),
        Route::get("/api/tags", "The models that can be asked for.", |_| {
            Ok(models::tags())
        }),
        Route::get("/api/ps", "The models that are in memory.", |_| {
            Ok(models::loaded())
        }),
        Route::get("/api/version", "The server's version.", |_| {
            Ok(Call::Reply(version()))
        }),
        Route::post("/api/show", "What is known of a model.", |asked| {
            models::show(asked.body)
        }),
        Route::post(
            "/api/create",
            "Makes a model of another or of files.",
            |asked| store::create(asked.body),
        )
        .streams(Framing::Lines)
        .administrative(),
        Route::post("/api/pull", "Fetches a model from a registry.", |asked| {
            store::pull(asked.body)
        })
        .streams(Framing::Lines)
        .administrative(),
        Route::post("/api/push", "Sends a model to a registry.", |asked| {
            store::push(asked.body)
        })
        .streams(Framing::Lines)
        .administrative(),
        Route::post("/api/copy", "Gives a model another name too.", |asked| {
            store::copy(asked.body)
        })
        .administrative(),
        Route::delete("/api/delete", "Removes a model.", |asked| {
            store::delete(asked.body)
        })
        .takes(RequestBody::Json)
        .administrative(),
        Route::head(
            "/api/blobs/{id}",
            "Whether there is a file with this digest.",
            |asked| store::blob_exists(&unescape(asked.id)?),
        )
        .administrative(),
        Route::post(
            "/api/blobs/{id}",
            "Takes a file with this digest.",
            |asked| store::blob_upload(&unescape(asked.id)?),
        )
        .takes(RequestBody::Bytes)
        .administrative(),
    ],
    prefix: Some("/api/"),
    request_id: "x-request-id",
    fault: |fault, _| errors::fault(fault),
};

/// The version of Ollama whose API this is. Clients compare it with what they need.
const VERSION: &str = "0.23.4";

fn version() -> Reply {
    Reply::json(&Json::object([
        ("version", VERSION.into()),
        ("strata", env!("CARGO_PKG_VERSION").into()),
    ]))
}

/// The name of a model, which this dialect's clients always give; `name` is what it was called at first.
fn model(fields: &mut Fields) -> Result<String, Fault> {
    let older = fields.maybe_string("name")?;
    let name = fields.maybe_string("model")?.or(older);
    name.filter(|name| !name.is_empty())
        .ok_or_else(|| fields.missing("model"))
}

/// A request that has nothing to answer: the model is brought into memory, or dropped.
fn load(request: Generate, mut done: Json) -> Call {
    let load = Load {
        model: request.model,
        keep_alive: request.keep_alive,
        context: request.context,
    };
    let unload = load.keep_alive == Some(KeepAlive::For(Duration::ZERO));
    done.push("done", true);
    done.push("done_reason", if unload { "unload" } else { "load" });
    Call::Load(load, Box::new(move |_| Reply::json(&done)))
}
