//! Mixers: what lets a layer's tokens see each other.

pub(crate) mod attention;
