//! What is known of a model, and what it would take, as JSON.

use crate::model::Model;
use crate::options::options;
use crate::speech;
use std::ops::Range;
use strata::chat_types::json::Json;
use strata::chat_types::{AdapterFacts, Fault};
use strata::{Error, ModelFacts, PeerPlan, PeerState};

/// What is known of a model.
pub fn info(model: &Model) -> Json {
    let model = match (model.text(), model.speech()) {
        (Ok(model), _) => model,
        (Err(_), Ok(model)) => return speech::facts(model),
        (Err(_), Err(_)) => return Json::Null,
    };
    let seconds = model.load_time().as_secs_f64();
    facts(model.facts())
        .with("load_seconds", seconds)
        .with("adapters", list(&model.worker().adapters().facts()))
        .with("peers", Json::array(model.peers().iter().map(peer)))
}

/// What a model would take, in bytes, without loading it.
pub fn plan(model: &str, json: &[u8]) -> Result<Json, Error> {
    let plan = strata::Model::plan(model, &options(json)?.options)?;
    Ok(Json::object([
        ("weights", plan.weights.into()),
        ("kv", plan.kv.into()),
        ("activations", plan.activations.into()),
        ("draft", plan.draft.into()),
        ("program", plan.program.into()),
        ("total", plan.total().into()),
        ("limit", plan.limit.into()),
        ("limited_by", plan.limited_by.into()),
        ("fits", plan.fits.into()),
        ("streamed", plan.streamed.into()),
        ("context", plan.context.into()),
        ("remedies", plan.remedies.into()),
        ("layers", layers(&plan.layers)),
        ("peers", Json::array(plan.peers.iter().map(peer_plan))),
        ("model", facts(&plan.facts)),
    ]))
}

/// A model's adapters with their strengths in requests that name none.
pub fn adapters(model: &Model) -> Json {
    let text = model.text();
    text.map_or_else(
        |_| Json::array([]),
        |model| list(&model.worker().adapters().facts()),
    )
}

/// Sets those strengths: `[{"id":0,"scale":0.5}]`. Adapters that are not listed are left out.
pub fn set_adapters(model: &Model, json: &[u8]) -> Result<(), Error> {
    let path = strata::chat_types::json::JsonPath::root();
    let mut given = Vec::new();
    for (path, item) in path.list(Json::parse(json)?)? {
        let mut fields = path.object(item)?;
        let id = fields.maybe_integer("id", 0..=i64::from(u32::MAX))?;
        let id = id.ok_or_else(|| fields.missing("id"))?;
        let scale = fields.maybe_number("scale", f64::MIN..=f64::MAX)?;
        fields.finish()?;
        given.push((id as usize, scale.unwrap_or(1.0) as f32));
    }
    let set: Result<(), Fault> = model.text()?.worker().adapters().scale(&given);
    Ok(set?)
}

fn list(adapters: &[AdapterFacts]) -> Json {
    Json::array(adapters.iter().map(|adapter| {
        Json::object([
            ("id", adapter.id.into()),
            ("path", adapter.path.as_str().into()),
            ("scale", adapter.scale.into()),
        ])
    }))
}

fn layers(layers: &Range<usize>) -> Json {
    Json::array([layers.start.into(), layers.end.into()])
}

/// What a peer would take.
fn peer_plan(plan: &PeerPlan) -> Json {
    Json::object([
        ("address", plan.address.as_str().into()),
        ("layers", layers(&plan.layers)),
        ("total", plan.total().into()),
        ("limit", plan.limit.into()),
    ])
}

/// How a peer stands.
fn peer(state: &PeerState) -> Json {
    Json::object([
        ("address", state.address.as_str().into()),
        ("layers", layers(&state.layers)),
        ("bytes", state.bytes.into()),
        ("fault", state.fault.clone().into()),
    ])
}

fn facts(facts: &ModelFacts) -> Json {
    let capabilities = facts.capabilities.iter();
    let capabilities = capabilities.map(|capability| capability.name().into());
    Json::object([
        ("name", facts.name.as_str().into()),
        ("family", facts.family.as_str().into()),
        ("parameters", facts.parameters.into()),
        ("quantization", facts.quantization.as_str().into()),
        ("context", facts.context.into()),
        ("trained_context", facts.trained_context.into()),
        ("embedding", facts.embedding.into()),
        ("vocabulary", facts.vocabulary.into()),
        ("capabilities", Json::array(capabilities)),
        ("template", facts.template.clone().into()),
    ])
}
