//! Spans as OTLP's JSON has them.

use super::{Ids, Phase, Span};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use strata_chat::json::Json;

/// OTLP's numbers for kinds of spans.
const INTERNAL: i64 = 1;
const SERVER: i64 = 2;
/// Its number for a status that is an error.
const ERROR: i64 = 2;

/// A batch.
pub(super) fn document(spans: &[Span], ids: &mut Ids) -> Json {
    let mut all = Vec::new();
    for span in spans {
        add(span, ids, &mut all);
    }
    let version = env!("CARGO_PKG_VERSION");
    let resource = attributes(&[
        ("service.name", "strata".into()),
        ("service.version", version.into()),
    ]);
    let scope = Json::object([("name", "strata".into()), ("version", version.into())]);
    let spans = Json::object([("scope", scope), ("spans", Json::Array(all))]);
    let of_resource = Json::object([
        ("resource", Json::object([("attributes", resource)])),
        ("scopeSpans", Json::array([spans])),
    ]);
    Json::object([("resourceSpans", Json::array([of_resource]))])
}

fn add(span: &Span, ids: &mut Ids, all: &mut Vec<Json>) {
    let trace = match span.parent {
        Some(parent) => parent.trace,
        None => u128::from(ids.next()) << 64 | u128::from(ids.next()),
    };
    let trace = format!("{trace:032x}");
    let own = format!("{:016x}", ids.next());
    let head = |id: &str, parent: &str, name: &str, kind: i64| {
        Json::object([
            ("traceId", trace.as_str().into()),
            ("spanId", id.into()),
            ("parentSpanId", parent.into()),
            ("name", name.into()),
            ("kind", kind.into()),
        ])
    };
    let parent = span.parent.map(|parent| format!("{:016x}", parent.span));
    let parent = parent.unwrap_or_default();
    let mut pairs = span.attributes.clone();
    let mut item = timed(
        head(&own, &parent, &span.name, SERVER),
        span.since,
        (Duration::ZERO, span.length),
    );
    if let Some(why) = &span.failed {
        pairs.push(("error.type", why.as_str().into()));
        item.push("status", Json::object([("code", ERROR.into())]));
    }
    item.push("attributes", attributes(&pairs));
    all.push(item);
    for &Phase { name, from, to } in &span.phases {
        let id = format!("{:016x}", ids.next());
        let item = head(&id, &own, name, INTERNAL);
        all.push(timed(item, span.since, (from, to.max(from))));
    }
}

fn timed(mut item: Json, since: SystemTime, (from, to): (Duration, Duration)) -> Json {
    let since = since.duration_since(UNIX_EPOCH).unwrap_or_default();
    // 64-bit numbers are texts in protobuf's JSON.
    let nanoseconds = |after: Duration| since.saturating_add(after).as_nanos().to_string();
    item.push("startTimeUnixNano", nanoseconds(from));
    item.push("endTimeUnixNano", nanoseconds(to));
    item
}

fn attributes(pairs: &[(&str, Json)]) -> Json {
    Json::array(pairs.iter().map(|(key, value)| {
        let value = match value {
            Json::Int(n) => Json::object([("intValue", n.to_string().into())]),
            Json::Bool(b) => Json::object([("boolValue", (*b).into())]),
            Json::Float(x) => Json::object([("doubleValue", (*x).into())]),
            Json::String(text) => Json::object([("stringValue", text.as_str().into())]),
            other => Json::object([("stringValue", other.text().into())]),
        };
        Json::object([("key", (*key).into()), ("value", value)])
    }))
}
