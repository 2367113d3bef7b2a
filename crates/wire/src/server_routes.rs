//! The routes that belong to no client's API: the page, whether the server lives, its numbers, its lessons.

use crate::answer::Reply;
use crate::call::Call;
use crate::dialect::Dialect;
use crate::lessons;
use crate::llama_server;
use crate::route::Route;
use strata_chat::json::Json;

/// The server's own routes.
pub(crate) static DIALECT: Dialect = Dialect {
    name: "server",
    routes: &[
        Route::get(
            "/",
            "The page for browsers, and the line that Ollama's clients look for.",
            |_| Ok(Call::Front),
        ),
        Route::get("/health", "Whether the server lives.", |_| Ok(Call::Health)).keyless(),
        Route::get("/v1/health", "Whether the server lives.", |_| {
            Ok(Call::Health)
        })
        .keyless(),
        Route::get("/ready", "Whether the server takes requests.", |_| {
            Ok(Call::Ready)
        })
        .keyless(),
        Route::get("/version", "The server's version, for routers.", |_| {
            let version = env!("CARGO_PKG_VERSION");
            let version = Json::object([("version", version.into())]);
            Ok(Call::Reply(Reply::json(&version)))
        }),
        Route::get("/metrics", "The server's numbers, for Prometheus.", |_| {
            Ok(Call::Metrics)
        }),
        Route::post(
            "/lessons/prompt",
            "What happens inside the model for a prompt.",
            |asked| lessons::prompt(asked.body),
        ),
        Route::post(
            "/lessons/pages",
            "How texts share batches and pages.",
            |asked| lessons::pages(asked.body),
        ),
        Route::get("/openapi.json", "This document.", |_| Ok(Call::OpenApi)),
    ],
    prefix: None,
    request_id: "x-request-id",
    // llama-server has most of them.
    fault: |fault, _| llama_server::fault(fault),
};
