//! Streams: what was asked, pulled piece by piece.

use crate::errors::{guard, guard_free};
use crate::handles::{MODELS, STREAMS, StrataModel, StrataStream};
use crate::memory::{json, put_string, string};
use std::ffi::c_char;
use std::ptr::null_mut;
use strata_bindings as core;
use strata_bindings::{Error, ErrorKind, Next, milliseconds};

// What strata_next returns; `tests/header.rs` writes these into the header.
const END: i32 = 0;
const DOCUMENT: i32 = 1;
const PENDING: i32 = 2;
const ERROR: i32 = -1;

unsafe fn ask(model: *const StrataModel, path: &str, body: *const c_char) -> *mut StrataStream {
    guard(null_mut(), || {
        // SAFETY: the caller says so.
        let body = unsafe { json(body) }?;
        if body.is_empty() {
            let what = "the request is NULL or empty";
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        Ok(STREAMS.add(core::request(&MODELS.get(model)?, path, body)?))
    })
}

/// Opens a model without waiting for it. The stream's documents say how far it is, {"loaded", "total"} in bytes; at its end
/// strata_stream_model returns the model; canceling it stops the load. Takes what strata_open takes. Returns a stream that
/// strata_stream_free frees, or NULL.
///
/// # Safety
///
/// The texts end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strata_load(
    model: *const c_char,
    options: *const c_char,
) -> *mut StrataStream {
    guard(null_mut(), || {
        // SAFETY: the caller says so.
        let (model, options) = unsafe { (string(model, "the model")?, json(options)?) };
        Ok(STREAMS.add(core::load(model, options)?))
    })
}

/// The model that strata_load has loaded, once its stream has ended, and only once. Returns a model that strata_model_free
/// frees, or NULL.
#[unsafe(no_mangle)]
pub extern "C" fn strata_stream_model(stream: *const StrataStream) -> *mut StrataModel {
    guard(null_mut(), || {
        let model = STREAMS.get(stream)?.take_model();
        let what = "the stream has no model: it is no load, has not ended, or gave it before";
        let missing = || Error::new(ErrorKind::InvalidArgument, what);
        Ok(MODELS.add(model.ok_or_else(missing)?))
    })
}

/// Asks for the next message of a conversation. request is the body of OpenAI's POST /v1/chat/completions as JSON, with
/// tools, response_format, lora and all else that `strata serve` takes. With "stream": true the stream's documents are
/// chunks, else there is one, the whole answer. Never waits. Returns a stream that strata_stream_free frees, or NULL.
///
/// # Safety
///
/// The text ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strata_chat(
    model: *const StrataModel,
    request: *const c_char,
) -> *mut StrataStream {
    // SAFETY: the caller says so.
    unsafe { ask(model, "/v1/chat/completions", request) }
}

/// Like strata_chat, but the conversation goes on after tool calls: where an answer ends with calls, a document
/// {"object": "tool.calls", "calls": [{"id", "name", "arguments"}]} follows it, the stream waits until each call has a result
/// from strata_tool_result, and the next answer follows. A choice that requires a call holds for the first answer only.
///
/// # Safety
///
/// The text ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strata_chat_tools(
    model: *const StrataModel,
    request: *const c_char,
) -> *mut StrataStream {
    guard(null_mut(), || {
        // SAFETY: the caller says so.
        let body = unsafe { string(request, "the request") }?.as_bytes();
        Ok(STREAMS.add(core::chat_with_tools(&MODELS.get(model)?, body)?))
    })
}

/// Gives the result of a tool call of strata_chat_tools, a text for the model. Returns 0, or -1 on errors.
///
/// # Safety
///
/// The texts end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strata_tool_result(
    stream: *const StrataStream,
    id: *const c_char,
    result: *const c_char,
) -> i32 {
    guard(-1, || {
        // SAFETY: the caller says so.
        let (id, result) = unsafe { (string(id, "the id")?, string(result, "the result")?) };
        STREAMS.get(stream)?.tool_result(id, result).map(|()| 0)
    })
}

/// Asks how a text goes on. request is the body of POST /v1/completions; all else is as with strata_chat.
///
/// # Safety
///
/// The text ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strata_complete(
    model: *const StrataModel,
    request: *const c_char,
) -> *mut StrataStream {
    // SAFETY: the caller says so.
    unsafe { ask(model, "/v1/completions", request) }
}

/// Embeds texts. request is the body of POST /v1/embeddings. The stream has one document.
///
/// # Safety
///
/// The text ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strata_embed(
    model: *const StrataModel,
    request: *const c_char,
) -> *mut StrataStream {
    // SAFETY: the caller says so.
    unsafe { ask(model, "/v1/embeddings", request) }
}

/// Ranks documents by how well they answer a query. request is the body of POST /v1/rerank. The stream has one document.
///
/// # Safety
///
/// The text ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strata_rerank(
    model: *const StrataModel,
    request: *const c_char,
) -> *mut StrataStream {
    // SAFETY: the caller says so.
    unsafe { ask(model, "/v1/rerank", request) }
}

/// Turns speech into text, with a model for speech (Whisper, Wav2Vec2, HuBERT). request has the fields of POST /v1/audio/transcriptions as JSON; file is the
/// path of a WAV, FLAC, MP3 or Ogg Vorbis file, or its bytes as "data:;base64,...". The stream has one document,
/// {"text"} alone where response_format is "text", "srt" or "vtt"; with "stream": true it has one for each piece of text.
/// Returns a stream that strata_stream_free frees, or NULL.
///
/// # Safety
///
/// The text ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strata_transcribe(
    model: *const StrataModel,
    request: *const c_char,
) -> *mut StrataStream {
    // SAFETY: the caller says so.
    unsafe { ask(model, "/v1/audio/transcriptions", request) }
}

/// Asks for anything that `strata serve` answers with one model: path is a route such as "/v1/responses", "/v1/messages" or
/// "/api/chat", request its JSON body, or NULL for a GET. All else is as with strata_chat.
///
/// # Safety
///
/// The texts end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strata_request(
    model: *const StrataModel,
    path: *const c_char,
    request: *const c_char,
) -> *mut StrataStream {
    guard(null_mut(), || {
        // SAFETY: the caller says so.
        let (path, body) = unsafe { (string(path, "the path")?, json(request)?) };
        Ok(STREAMS.add(core::request(&MODELS.get(model)?, path, body)?))
    })
}

/// Takes the next document of a stream. Waits for it for timeout_ms at most: 0 never waits, -1 waits without limit.
/// Returns STRATA_DOCUMENT, and writes a JSON text that strata_string_free frees; STRATA_PENDING if none came in time;
/// STRATA_END after the last one; STRATA_ERROR if the stream failed or was canceled, as strata_error_code says. document
/// may be NULL, which drops the text; it is set to NULL where there is none. Any number of threads may call this.
///
/// # Safety
///
/// `document` is NULL or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strata_next(
    stream: *const StrataStream,
    timeout_ms: i64,
    document: *mut *mut c_char,
) -> i32 {
    // SAFETY: the caller says so.
    unsafe { put_string(document, None) };
    guard(ERROR, || {
        match STREAMS.get(stream)?.next(milliseconds(timeout_ms)) {
            Next::Document(text) => {
                // SAFETY: the caller says so.
                unsafe { put_string(document, Some(text)) };
                Ok(DOCUMENT)
            }
            Next::Pending => Ok(PENDING),
            Next::End => Ok(END),
            Next::Failed(error) => Err(error),
        }
    })
}

/// A file descriptor for poll, epoll, kqueue and event loops: while it can be read, call strata_next with a timeout of 0
/// until that returns STRATA_PENDING. It is the stream's: do not read or close it; it is closed with the stream. Returns -1
/// on errors, and always on Windows, which has none: call strata_next in a thread there.
#[unsafe(no_mangle)]
pub extern "C" fn strata_stream_fd(stream: *const StrataStream) -> i32 {
    guard(-1, || STREAMS.get(stream)?.descriptor())
}

/// Cancels a stream, at any time, from any thread, also while its prompt is computed or another thread waits in strata_next:
/// it fails with "canceled". One that has ended stays as it is. Never waits.
#[unsafe(no_mangle)]
pub extern "C" fn strata_cancel(stream: *const StrataStream) {
    guard((), || {
        STREAMS.get(stream)?.cancel();
        Ok(())
    });
}

/// Frees a stream and cancels what it waits for. A thread that waits in strata_next at that moment is woken with the error
/// "canceled". NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn strata_stream_free(stream: *mut StrataStream) {
    guard_free(|| {
        if let Ok(stream) = STREAMS.get(stream) {
            stream.cancel();
        }
        STREAMS.free(stream)
    });
}
