//! What each route does, in a sentence, for the OpenAPI document.

/// What a route does.
pub(crate) fn summary(method: &str, path: &str) -> Option<&'static str> {
    Some(match (method, path) {
        (_, "/") => "The page for browsers, and the line that Ollama's clients look for.",
        (_, "/health" | "/v1/health") => "Whether the server lives.",
        (_, "/ready") => "Whether the server takes requests.",
        (_, "/metrics") => "The server's numbers, for Prometheus.",
        (_, "/openapi.json") => "This document.",
        (_, "/v1/chat/completions") => "The next message of a conversation.",
        (_, "/v1/chat/completions/render") => {
            "The tokens that a conversation would give the model."
        }
        (_, "/v1/completions") => "How a text goes on.",
        (_, "/v1/embeddings" | "/embedding" | "/embeddings" | "/api/embed" | "/api/embeddings") => {
            "Vectors that stand for texts."
        }
        (_, "/v1/rerank" | "/rerank" | "/reranking") => "How well documents answer a query.",
        (_, "/v1/models" | "/api/tags") => "The models that can be asked for.",
        (_, "/v1/models/{id}" | "/api/show") => "What is known of a model.",
        (_, "/v1/responses") => {
            "The next turn of a conversation, kept so that another can follow it."
        }
        (_, "/v1/responses/input_tokens") => "How many tokens a request for a response has.",
        ("GET", "/v1/responses/{id}") => "A response that was kept.",
        ("DELETE", "/v1/responses/{id}") => "Drops a response that was kept.",
        (_, "/v1/responses/{id}/cancel") => "Ends a response that runs in the background.",
        (_, "/v1/responses/{id}/input_items") => {
            "The conversation that a kept response was given to."
        }
        (_, "/v1/messages") => "The next message of a conversation.",
        (_, "/v1/messages/count_tokens") => "How many tokens a conversation has.",
        (_, "/api/version") => "The server's version.",
        (_, "/api/chat") => "The next message of a conversation.",
        (_, "/api/generate") => "How a text goes on, or a model loaded or dropped.",
        (_, "/api/ps") => "The models that are in memory.",
        (_, "/api/pull") => "Fetches a model from a registry.",
        (_, "/api/push") => "Sends a model to a registry.",
        (_, "/api/create") => "Makes a model of another or of files.",
        (_, "/api/copy") => "Gives a model another name too.",
        (_, "/api/delete") => "Removes a model.",
        ("HEAD", "/api/blobs/{id}") => "Whether there is a file with this digest.",
        (_, "/api/blobs/{id}") => "Takes a file with this digest.",
        (_, "/completion" | "/completions") => "How a text goes on.",
        (_, "/infill") => "What stands between two texts.",
        (_, "/tokenize") => "A text's tokens.",
        (_, "/detokenize") => "The text of tokens.",
        (_, "/apply-template") => "The prompt that a conversation would give the model.",
        (_, "/props") => "What is known of the model and its defaults.",
        (_, "/slots") => "The texts that run, and those that ran last.",
        (_, "/slots/{id}") => "Saves, restores or erases what was computed of a text.",
        ("GET", "/lora-adapters") => "The adapters and their strengths.",
        (_, "/lora-adapters") => "Sets the strengths of adapters.",
        _ => return None,
    })
}
