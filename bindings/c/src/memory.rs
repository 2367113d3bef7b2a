//! Texts, bytes and tokens across the border, and how they are freed.

use crate::errors::text;
use std::ffi::{CStr, CString, c_char};
use std::ptr::null_mut;
use strata_bindings::{Error, ErrorKind};

fn invalid(what: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, what)
}

/// A text that C gave.
///
/// # Safety
///
/// `pointer` is NULL, or leads to bytes that end with a zero and stay as they are for `'a`.
pub(crate) unsafe fn string<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, Error> {
    if pointer.is_null() {
        return Err(invalid(&format!("{name} is NULL")));
    }
    // SAFETY: the caller says so.
    let bytes = unsafe { CStr::from_ptr(pointer) };
    let problem = |_| invalid(&format!("{name} is not UTF-8"));
    bytes.to_str().map_err(problem)
}

/// A JSON text that C gave, empty where it is NULL.
///
/// # Safety
///
/// As for [`string`].
pub(crate) unsafe fn json<'a>(pointer: *const c_char) -> Result<&'a [u8], Error> {
    if pointer.is_null() {
        return Ok(&[]);
    }
    // SAFETY: the caller says so.
    Ok(unsafe { string(pointer, "the JSON text") }?.as_bytes())
}

/// So many items that C gave.
///
/// # Safety
///
/// `pointer` is NULL, or leads to `count` items that stay as they are for `'a`.
pub(crate) unsafe fn items<'a, T>(pointer: *const T, count: usize) -> Result<&'a [T], Error> {
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() || count > isize::MAX as usize / size_of::<T>() {
        return Err(invalid("the items are NULL, or too many"));
    }
    // SAFETY: the caller says so, and their bytes are not more than an address can reach.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// A text for C, which frees it. It is not copied unless there is no room for its end.
pub(crate) fn give_string(given: String) -> *mut c_char {
    text(given).into_raw()
}

/// Items for C, which frees them; their number goes to `count`.
///
/// # Safety
///
/// `count` is NULL or can be written to.
pub(crate) unsafe fn give_items<T>(given: Vec<T>, count: *mut usize) -> Result<*mut T, Error> {
    if count.is_null() {
        return Err(invalid("count is NULL"));
    }
    // SAFETY: the caller says so.
    unsafe { count.write(given.len()) };
    Ok(Box::into_raw(given.into_boxed_slice()).cast())
}

/// # Safety
///
/// `pointer` is NULL, or came from [`give_items`] with this count and was not freed.
unsafe fn free_items<T>(pointer: *mut T, count: usize) {
    if !pointer.is_null() {
        let given = std::ptr::slice_from_raw_parts_mut(pointer, count);
        // SAFETY: the caller says so.
        drop(unsafe { Box::from_raw(given) });
    }
}

/// Writes a pointer for C.
///
/// # Safety
///
/// `place` is NULL or can be written to.
pub(crate) unsafe fn put_string(place: *mut *mut c_char, value: Option<String>) {
    if !place.is_null() {
        let pointer = value.map_or(null_mut(), give_string);
        // SAFETY: the caller says so.
        unsafe { place.write(pointer) };
    }
}

/// Frees a text that a function of this library returned for the caller to free. NULL is allowed.
///
/// # Safety
///
/// `text` is NULL, or such a text that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strata_string_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: the caller says so, and all such texts come from `CString::into_raw`.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// Frees tokens that strata_tokenize returned, with their count. NULL is allowed.
///
/// # Safety
///
/// `tokens` is NULL, or such tokens that were not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strata_tokens_free(tokens: *mut u32, count: usize) {
    // SAFETY: the caller says so.
    unsafe { free_items(tokens, count) };
}

/// Frees bytes that strata_session_save returned, with their count. NULL is allowed.
///
/// # Safety
///
/// `bytes` is NULL, or such bytes that were not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strata_bytes_free(bytes: *mut u8, count: usize) {
    // SAFETY: the caller says so.
    unsafe { free_items(bytes, count) };
}
