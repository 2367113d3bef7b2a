//! Llama, Mistral and Mixtral: the trunk that other families vary.

use crate::spec::ArchSpec;

pub(super) const SPEC: ArchSpec = ArchSpec::LLAMA;
