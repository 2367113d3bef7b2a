//! llama-server's own API: completions, infill, tokens, embeddings, slots, adapters.
//!
//! <https://github.com/ggml-org/llama.cpp/tree/master/tools/server>

mod completion;
mod embeddings;
mod errors;
mod samplers;
mod settings;
mod slots;
mod tokens;
mod unprefixed;
mod write;

pub(crate) use errors::fault;

use crate::answer::Framing;
use crate::dialect::Dialect;
use crate::request_fields::chat::LastAnswer;
use crate::route::Route;
use crate::{openai, rerank};
use unprefixed::reworded;

/// The dialect.
pub static DIALECT: Dialect = Dialect {
    name: "llama-server",
    routes: &[
        Route::post("/completion", "How a text goes on.", |asked| {
            completion::open(asked.body)
        })
        .streams(Framing::Events),
        Route::post("/completions", "How a text goes on.", |asked| {
            completion::open(asked.body)
        })
        .streams(Framing::Events),
        Route::post(
            "/chat/completions",
            "The next message of a conversation.",
            |asked| openai::chat(asked.body, asked.stamp, LastAnswer::GoesOn).map(reworded),
        )
        .streams(Framing::Events),
        Route::post(
            "/chat/completions/input_tokens",
            "How many tokens a conversation has.",
            |asked| openai::count(asked.body, LastAnswer::GoesOn),
        ),
        Route::post(
            "/responses",
            "The next turn of a conversation, kept so that another can follow it.",
            |asked| openai::response(asked).map(reworded),
        )
        .streams(Framing::Events),
        Route::get("/models", "The models that can be asked for.", |_| {
            Ok(openai::models())
        }),
        Route::post("/infill", "What stands between two texts.", |asked| {
            completion::infill(asked.body)
        })
        .streams(Framing::Events),
        Route::post("/tokenize", "A text's tokens.", |asked| {
            tokens::tokenize(asked.body)
        }),
        Route::post("/detokenize", "The text of tokens.", |asked| {
            tokens::detokenize(asked.body)
        }),
        Route::get("/tokenizer_info", "What is known of the tokenizer.", |_| {
            Ok(tokens::info())
        }),
        Route::post(
            "/apply-template",
            "The prompt that a conversation would give the model.",
            |asked| tokens::apply_template(asked.body),
        ),
        Route::post("/embedding", "Vectors that stand for texts.", |asked| {
            embeddings::open(asked.body)
        }),
        Route::post("/embeddings", "Vectors that stand for texts.", |asked| {
            embeddings::open(asked.body)
        }),
        Route::post("/rerank", "How well documents answer a query.", |asked| {
            rerank::open(asked.body)
        }),
        Route::post(
            "/reranking",
            "How well documents answer a query.",
            |asked| rerank::open(asked.body),
        ),
        Route::get(
            "/props",
            "What is known of the model and its defaults.",
            |asked| slots::props(asked.query),
        ),
        Route::post(
            "/props",
            "Changes nothing: says that properties are not changed by requests.",
            |_| slots::change_props(),
        )
        .administrative()
        .unlisted(),
        Route::get(
            "/slots",
            "The texts that run, and those that ran last.",
            |asked| slots::list(asked.query),
        ),
        Route::post(
            "/slots/{id}",
            "Saves, restores or erases what was computed of a text.",
            |asked| slots::act(asked.id, asked.query, asked.body),
        )
        .administrative(),
        Route::get(
            "/lora-adapters",
            "The adapters and their strengths.",
            |_| Ok(slots::adapters()),
        ),
        Route::post(
            "/lora-adapters",
            "Sets the strengths of adapters.",
            |asked| slots::scale(asked.body),
        )
        .administrative(),
    ],
    prefix: Some(""),
    request_id: "x-request-id",
    fault: |fault, _| errors::fault(fault),
};
