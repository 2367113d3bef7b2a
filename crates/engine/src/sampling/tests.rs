//! Behaviour of the samplers that a user would notice.
