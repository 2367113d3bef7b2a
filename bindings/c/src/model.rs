//! Models: opened, planned, asked about themselves.

use crate::errors::{guard, guard_free};
use crate::handles::{MODELS, StrataModel};
use crate::memory::{give_items, give_string, items, json, string};
use std::ffi::c_char;
use std::ptr::null_mut;
use strata_bindings as core;

/// Opens a model and waits until it is in memory: a GGUF file, a Hugging Face folder, a name in the store, or "tale", which
/// is built in. options is a JSON object or NULL: memory ("6G"), threads, batch, kv ("f16", "q8_0", "f32"), context,
/// requests, stream ("auto", "never", "always"), quantize, max_draft, drafts ("mtp", "auto"), draft_model, adapters (a list of paths or of
/// {"path", "scale"}), projector (the file that lets the model see; one beside the model is found by itself), device ("cpu",
/// "auto", "cuda:N", "vulkan:N", "cuda:N,M"), gpu_layers, device_lost ("stop", "cpu"), cache ({"folder", "bytes"}), sessions, image_urls (true: images are fetched from the https addresses that
/// requests name), peers ({"addresses": ["HOST:PORT"], "key", "layers"}: machines that run `strata peer` and have some of the
/// layers). A model for speech takes threads alone. Returns a model that strata_model_free frees, or NULL.
///
/// # Safety
///
/// The texts end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strata_open(
    model: *const c_char,
    options: *const c_char,
) -> *mut StrataModel {
    guard(null_mut(), || {
        // SAFETY: the caller says so.
        let (model, options) = unsafe { (string(model, "the model")?, json(options)?) };
        Ok(MODELS.add(core::open(model, options)?))
    })
}

/// Says what a model would take, in bytes, without loading it: a JSON object with weights, kv, activations, total, limit,
/// fits, context, remedies and others. Takes what strata_open takes. Returns a text that strata_string_free frees, or NULL.
///
/// # Safety
///
/// The texts end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strata_plan(model: *const c_char, options: *const c_char) -> *mut c_char {
    guard(null_mut(), || {
        // SAFETY: the caller says so.
        let (model, options) = unsafe { (string(model, "the model")?, json(options)?) };
        Ok(give_string(core::plan(model, options)?.text()))
    })
}

/// Another handle to the same model, which strata_model_free frees too. Returns NULL on errors.
#[unsafe(no_mangle)]
pub extern "C" fn strata_model_clone(model: *const StrataModel) -> *mut StrataModel {
    guard(null_mut(), || Ok(MODELS.add(MODELS.get(model)?)))
}

/// Frees a handle to a model. Streams and sessions hold the model too: it leaves memory with the last of them all, and the
/// call that frees that one waits for it. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn strata_model_free(model: *mut StrataModel) {
    guard_free(|| MODELS.free(model));
}

/// What is known of a model: a JSON object with name, family, parameters, context, capabilities, adapters, peers and others.
/// Returns a text that strata_string_free frees, or NULL.
#[unsafe(no_mangle)]
pub extern "C" fn strata_model_info(model: *const StrataModel) -> *mut c_char {
    guard(null_mut(), || {
        Ok(give_string(core::info(&MODELS.get(model)?).text()))
    })
}

/// The adapters that a model was opened with: a JSON list of {"id", "path", "scale"}. Requests ask for one with
/// "lora": [{"id": 0, "scale": 1}]. Returns a text that strata_string_free frees, or NULL.
#[unsafe(no_mangle)]
pub extern "C" fn strata_adapters(model: *const StrataModel) -> *mut c_char {
    guard(null_mut(), || {
        Ok(give_string(core::adapters(&MODELS.get(model)?).text()))
    })
}

/// Sets the strength of adapters for requests that name none, from a JSON list of {"id", "scale"}; those that are not
/// listed are left out. Returns 0, or -1 on errors.
///
/// # Safety
///
/// The text ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strata_adapters_set(
    model: *const StrataModel,
    scales: *const c_char,
) -> i32 {
    guard(-1, || {
        // SAFETY: the caller says so.
        let scales = unsafe { json(scales) }?;
        core::set_adapters(&MODELS.get(model)?, scales).map(|()| 0)
    })
}

/// Tokenizes a text of so many bytes of UTF-8, with the tokens that the model wants around one. Control tokens in it are
/// read as plain text. Their number goes to count. Returns tokens that strata_tokens_free frees, or NULL.
///
/// # Safety
///
/// `text` has so many bytes, and `count` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strata_tokenize(
    model: *const StrataModel,
    text: *const c_char,
    bytes: usize,
    count: *mut usize,
) -> *mut u32 {
    guard(null_mut(), || {
        // SAFETY: the caller says so.
        let text = unsafe { items(text.cast::<u8>(), bytes) }?;
        let problem =
            |_| core::Error::new(core::ErrorKind::InvalidArgument, "the text is not UTF-8");
        let text = std::str::from_utf8(text).map_err(problem)?;
        // SAFETY: the caller says so.
        unsafe { give_items(MODELS.get(model)?.tokenize(text)?, count) }
    })
}

/// The text of tokens, without control tokens and without zero bytes. Returns a text that strata_string_free frees, or
/// NULL.
///
/// # Safety
///
/// There are `count` tokens.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strata_detokenize(
    model: *const StrataModel,
    tokens: *const u32,
    count: usize,
) -> *mut c_char {
    guard(null_mut(), || {
        // SAFETY: the caller says so.
        let tokens = unsafe { items(tokens, count) }?;
        Ok(give_string(MODELS.get(model)?.detokenize(tokens)?))
    })
}
