//! `/v1/models`, which Anthropic's clients ask too: its fields stand beside OpenAI's.

use crate::answer::Reply;
use crate::calendar::rfc3339;
use crate::call::Call;
use alloc::boxed::Box;
use alloc::string::String;
use strata_chat::ModelFacts;
use strata_chat::json::Json;

pub(super) fn list() -> Call {
    Call::Models(Box::new(|models| {
        let id = |model: Option<&ModelFacts>| Json::from(model.map(|model| model.name.as_str()));
        Reply::json(&Json::object([
            ("object", "list".into()),
            ("data", Json::array(models.iter().map(model))),
            ("has_more", false.into()),
            ("first_id", id(models.first())),
            ("last_id", id(models.last())),
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
        ("type", "model".into()),
        ("display_name", facts.name.as_str().into()),
        ("created_at", rfc3339(facts.modified).into()),
        ("lifecycle", "active".into()),
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
