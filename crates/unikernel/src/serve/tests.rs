//! The whole server, from frames to answers, with the built-in model.
