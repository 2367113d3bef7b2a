//! The OpenAPI document: the routes, what they take and what they give.

use crate::dialect::{Dialect, routes};
use crate::route::{RequestBody, Role, Route};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::json::Json;

/// The document.
pub fn document() -> Json {
    let mut paths: Vec<(String, Json)> = Vec::new();
    for (dialect, route) in routes().filter(|(_, route)| route.listed) {
        let operation = operation(dialect, route);
        let method = route.method.to_ascii_lowercase();
        match paths.iter_mut().find(|(known, _)| known == route.path) {
            Some((_, methods)) => methods.push(&method, operation),
            None => paths.push((route.path.into(), Json::object([(&*method, operation)]))),
        }
    }
    Json::object([
        ("openapi", "3.1.0".into()),
        (
            "info",
            Json::object([
                ("title", "Strata".into()),
                ("version", env!("CARGO_PKG_VERSION").into()),
            ]),
        ),
        ("paths", Json::Object(paths)),
        (
            "components",
            Json::object([(
                "securitySchemes",
                Json::object([(
                    "key",
                    Json::object([("type", "http".into()), ("scheme", "bearer".into())]),
                )]),
            )]),
        ),
    ])
}

fn operation(dialect: &Dialect, route: &Route) -> Json {
    let Route { method, path, .. } = *route;
    let object = || Json::object([("schema", Json::object([("type", "object".into())]))]);
    let media = || Json::object([("application/json", object())]);
    let answer = |text: &str| Json::object([("description", text.into()), ("content", media())]);
    let mut given = media();
    if let Some(framing) = route.streams {
        given.push(framing.content_type(), object());
    }
    let given = Json::object([("description", "The answer.".into()), ("content", given)]);
    let responses = Json::object([
        ("200", given),
        ("default", answer("What is wrong, in this dialect's shape.")),
    ]);
    let mut operation = Json::object([
        ("tags", Json::array([dialect.name.into()])),
        ("summary", route.summary.into()),
        ("operationId", format!("{method} {path}").into()),
        ("responses", responses),
    ]);
    if path.contains("{id}") {
        let id = Json::object([
            ("name", "id".into()),
            ("in", "path".into()),
            ("required", true.into()),
            ("schema", Json::object([("type", "string".into())])),
        ]);
        operation.push("parameters", Json::array([id]));
    }
    let body = match route.body {
        RequestBody::None => None,
        RequestBody::Json => Some(media()),
        RequestBody::Form => Some(Json::object([(
            "multipart/form-data",
            Json::Object(Vec::new()),
        )])),
        RequestBody::Bytes => Some(Json::object([(
            "application/octet-stream",
            Json::Object(Vec::new()),
        )])),
    };
    if let Some(content) = body {
        operation.push("requestBody", Json::object([("content", content)]));
    }
    if route.role != Role::Anyone {
        let key = Json::object([("key", Json::Array(Vec::new()))]);
        operation.push("security", Json::array([key]));
    }
    operation
}
