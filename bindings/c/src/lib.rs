//! Strata's C interface. `include/strata.h` is made of this crate's source; the words above each function are its documentation.
//!
//! Handles are numbers in the guise of pointers: they are looked up, never followed, so one that was freed, or freed twice,
//! is an error and not a crash. Nothing unwinds into C.
#![allow(unsafe_code, reason = "this is the border to C")]

mod errors;
mod handles;
mod memory;
mod model;
mod session;
mod stream;
mod version;

pub use errors::{strata_error_code, strata_error_hint, strata_error_message};
pub use memory::{strata_bytes_free, strata_string_free, strata_tokens_free};
pub use model::{
    strata_adapters, strata_adapters_set, strata_detokenize, strata_model_clone, strata_model_free,
    strata_model_info, strata_open, strata_plan, strata_tokenize,
};
pub use session::{
    strata_session_append, strata_session_constrain, strata_session_fork, strata_session_free,
    strata_session_new, strata_session_restore, strata_session_run, strata_session_save,
    strata_session_text,
};
pub use stream::{
    strata_cancel, strata_chat, strata_chat_tools, strata_complete, strata_embed, strata_load,
    strata_next, strata_request, strata_rerank, strata_stream_fd, strata_stream_free,
    strata_stream_model, strata_tool_result, strata_transcribe,
};
pub use version::{strata_abi_version, strata_features, strata_require, strata_version};
