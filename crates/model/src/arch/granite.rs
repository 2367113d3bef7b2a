//! Granite: llama with scaled embeddings, branches, attention and logits.

use crate::spec::{ArchSpec, Experts, Nope, Scale};

pub(super) const SPEC: ArchSpec = ArchSpec {
    name: "granite",
    nope: Nope::UnlessFinetuned,
    experts: Experts::Never,
    embedding_scale: Scale::Multiply,
    logit_scale: Scale::Divide,
    ..ArchSpec::LLAMA
};
