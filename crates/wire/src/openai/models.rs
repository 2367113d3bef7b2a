//! `/v1/models`.

use crate::answer::Reply;
use crate::call::{Call, ModelFacts};
use crate::json::Json;
use alloc::boxed::Box;
use alloc::string::String;

pub(super) fn list() -> Call {
    Call::Models(Box::new(|models| {
        Reply::json(&Json::object([
            ("object", "list".into()),
            ("data", Json::array(models.iter().map(model))),
        ]))
    }))
}

pub(super) fn one(id: String) -> Call {
    Call::Model(Some(id), Box::new(|facts| Reply::json(&model(facts))))
}

/// With what vLLM (`max_model_len`) and llama-server (`meta`) add.
fn model(facts: &ModelFacts) -> Json {
    Json::object([
        ("id", facts.name.as_str().into()),
        ("object", "model".into()),
        ("created", facts.modified.into()),
        ("owned_by", "strata".into()),
        ("max_model_len", facts.context.into()),
        (
            "meta",
            Json::object([
                ("n_vocab", facts.vocabulary.into()),
                ("n_ctx_train", facts.trained_context.into()),
                ("n_embd", facts.embedding.into()),
                ("n_params", facts.parameters.into()),
                ("size", facts.bytes.into()),
            ]),
        ),
    ])
}
