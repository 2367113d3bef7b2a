//! Anthropic's API: messages and the count of their tokens.
//!
//! <https://docs.anthropic.com/en/api/messages>

mod content;
mod errors;
mod read;
mod thread;
mod write;

use crate::answer::{Framing, Reply};
use crate::call::{Call, Recall};
use crate::dialect::Dialect;
use crate::route::Route;
use crate::stamp::Stamp;
use alloc::boxed::Box;
use read::Purpose;
use strata_chat::Fault;
use strata_chat::json::Json;

/// The dialect.
pub static DIALECT: Dialect = Dialect {
    name: "Anthropic",
    routes: &[
        Route::post(
            "/v1/messages",
            "The next message of a conversation.",
            |asked| messages(asked.body, asked.stamp, asked.recall),
        )
        .streams(Framing::Events),
        Route::post(
            "/v1/messages/count_tokens",
            "How many tokens a conversation has.",
            |asked| count(asked.body, asked.recall),
        ),
    ],
    // The rest of its paths are OpenAI's too.
    prefix: Some("/v1/messages"),
    request_id: "request-id",
    fault: errors::fault,
};

fn messages(body: &[u8], stamp: &Stamp, recall: &mut dyn Recall) -> Result<Call, Fault> {
    let (request, options) = read::request(body, Purpose::Answer, recall)?;
    let answer = write::MessageAnswer::new(&request, options, stamp);
    Ok(Call::Generate(Box::new(request), Box::new(answer)))
}

fn count(body: &[u8], recall: &mut dyn Recall) -> Result<Call, Fault> {
    let (request, _) = read::request(body, Purpose::Count, recall)?;
    Ok(Call::Render(
        Box::new(request),
        Box::new(|rendered| {
            let tokens = rendered.tokens.len().into();
            Reply::json(&Json::object([("input_tokens", tokens)]))
        }),
    ))
}
