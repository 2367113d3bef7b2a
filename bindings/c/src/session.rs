//! Sessions: a text that grows over many requests.

use crate::errors::{guard, guard_free};
use crate::handles::{MODELS, SESSIONS, STREAMS, StrataModel, StrataSession, StrataStream};
use crate::memory::{give_items, give_string, items, json, string};
use std::ffi::c_char;
use std::ptr::null_mut;
use strata_bindings::{Error, ErrorKind, SharedSession};

/// An empty session: a text that grows over many runs and can be saved, restored and forked. Returns a session that
/// strata_session_free frees, or NULL.
#[unsafe(no_mangle)]
pub extern "C" fn strata_session_new(model: *const StrataModel) -> *mut StrataSession {
    guard(null_mut(), || {
        Ok(SESSIONS.add(SharedSession::new(&MODELS.get(model)?)?))
    })
}

/// Holds all later runs of a session, and of its forks, to constraints, in place of those before. constraints is a JSON object:
/// deadline_ms, first_token_ms and token_ms for each run, memory for its keys and values in bytes, the format of its answers
/// (response_format, guided_regex, guided_choice, grammar), never_to_disk and never_off_machine. Returns 0, or -1 on errors.
///
/// # Safety
///
/// The text ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strata_session_constrain(
    session: *const StrataSession,
    constraints: *const c_char,
) -> i32 {
    guard(-1, || {
        // SAFETY: the caller says so.
        let constraints = unsafe { json(constraints) }?;
        if constraints.is_empty() {
            let what = "the constraints are NULL or empty";
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        SESSIONS.get(session)?.constrain(constraints).map(|()| 0)
    })
}

/// Appends to a session's text. Control tokens in it are read as such. Returns 0, or -1 on errors.
///
/// # Safety
///
/// The text ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strata_session_append(
    session: *const StrataSession,
    text: *const c_char,
) -> i32 {
    guard(-1, || {
        // SAFETY: the caller says so.
        let text = unsafe { string(text, "the text") }?;
        SESSIONS.get(session)?.append(text).map(|()| 0)
    })
}

/// Continues a session's text. request is the body of POST /v1/completions without a prompt, or NULL. What is generated
/// belongs to the session once the stream has been read to its end; if it fails or is canceled, the text stays as it was.
/// Returns a stream that strata_stream_free frees, or NULL.
///
/// # Safety
///
/// The text ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strata_session_run(
    session: *const StrataSession,
    request: *const c_char,
) -> *mut StrataStream {
    guard(null_mut(), || {
        // SAFETY: the caller says so.
        let request = unsafe { json(request) }?;
        Ok(STREAMS.add(SESSIONS.get(session)?.run(request)?))
    })
}

/// A session's text so far. Returns a text that strata_string_free frees, or NULL.
#[unsafe(no_mangle)]
pub extern "C" fn strata_session_text(session: *const StrataSession) -> *mut c_char {
    guard(null_mut(), || {
        Ok(give_string(SESSIONS.get(session)?.text()))
    })
}

/// Another session with the same text; both share what was computed of it. Returns a session that strata_session_free
/// frees, or NULL.
#[unsafe(no_mangle)]
pub extern "C" fn strata_session_fork(session: *const StrataSession) -> *mut StrataSession {
    guard(null_mut(), || {
        Ok(SESSIONS.add(SESSIONS.get(session)?.fork()))
    })
}

/// A session as bytes, with what the cache holds of it where the model was opened with "sessions": true. Their number goes
/// to count. Returns bytes that strata_bytes_free frees, or NULL.
///
/// # Safety
///
/// `count` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strata_session_save(
    session: *const StrataSession,
    count: *mut usize,
) -> *mut u8 {
    guard(null_mut(), || {
        // SAFETY: the caller says so.
        unsafe { give_items(SESSIONS.get(session)?.save()?, count) }
    })
}

/// A session from bytes that strata_session_save returned, perhaps in another process; they need not be trusted. Returns a
/// session that strata_session_free frees, or NULL.
///
/// # Safety
///
/// There are `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strata_session_restore(
    model: *const StrataModel,
    bytes: *const u8,
    count: usize,
) -> *mut StrataSession {
    guard(null_mut(), || {
        // SAFETY: the caller says so.
        let bytes = unsafe { items(bytes, count) }?;
        Ok(SESSIONS.add(SharedSession::restore(&MODELS.get(model)?, bytes)?))
    })
}

/// Frees a session. A stream of it runs on. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn strata_session_free(session: *mut StrataSession) {
    guard_free(|| SESSIONS.free(session));
}
