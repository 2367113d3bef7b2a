//! What can go wrong with a model.

use alloc::string::String;
use alloc::vec::Vec;
use strata_platform::OutOfMemory;
use strata_quant::GgmlType;
use strata_weights::GgufError;

/// Why a model cannot be loaded.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum LoadError {
    #[error("the architecture {name:?} is not supported")]
    Architecture { name: String },
    #[error("the architecture {name:?} is not supported yet: it needs {missing}")]
    KnownArchitecture { name: String, missing: &'static str },
    #[error("the architecture {name:?} is untested: nothing was compared with what it computes")]
    UntestedArchitecture { name: String },
    #[error("the file's architecture is {arch:?}; a projector's is \"clip\"")]
    NotATower { arch: String },
    #[error(
        "the file's architecture is {arch:?}, which is not the kind of speech model that was expected"
    )]
    NotSpeech { arch: String },
    #[error("the projector {name:?} is not supported; these are: {known}")]
    Projector { name: String, known: String },
    #[error(transparent)]
    Metadata(#[from] GgufError),
    #[error("the file was cut short while it was read")]
    Damaged,
    #[error("the metadata has no {key}")]
    MissingKey { key: String },
    #[error("{key} is {value}; it must be {needs}")]
    BadValue {
        key: String,
        value: f64,
        needs: &'static str,
    },
    #[error("{key} has {found} elements; the model has {layers} layers")]
    LayerArray {
        key: String,
        found: usize,
        layers: usize,
    },
    #[error("{key} differs between layers, which is not supported")]
    LayersDiffer { key: String },
    #[error("{heads} query heads cannot share {kv_heads} key heads evenly")]
    Heads { heads: usize, kv_heads: usize },
    #[error(
        "layer {layer} has no keys and values, and no layer before it has any that it could read"
    )]
    NothingToShare { layer: usize },
    #[error("value heads of {value} beside key heads of {key} are not supported")]
    ValueLength { key: usize, value: usize },
    #[error("the rotary scaling {kind:?} is not supported")]
    RopeScaling { kind: String },
    #[error("the tensor {name} is missing")]
    MissingTensor { name: String },
    #[error("the tensor {name} does not belong to the architecture {arch}")]
    SurplusTensor { name: String, arch: &'static str },
    #[error("the tensor {name} has the shape {found:?}; it should be {expected:?}")]
    Shape {
        name: String,
        found: Vec<u64>,
        expected: Vec<u64>,
    },
    #[error("the tensor {name} is {ty:?}, which does not serve for it")]
    TensorType { name: String, ty: GgmlType },
    #[error(
        "layers {first} to {end} of a model of {layers} layers cannot be computed by themselves: {reason}"
    )]
    Stretch {
        first: usize,
        end: usize,
        layers: usize,
        reason: &'static str,
    },
    #[error("the file has no layer that predicts the token after the next (MTP)")]
    NoNextn,
    #[error("{layers} layers predict tokens after the next (MTP), of which one is supported")]
    SeveralNextn { layers: usize },
    #[error("layers that predict the token after the next (MTP) are not supported in {name}")]
    NextnFamily { name: &'static str },
    #[error("weights were to stay in their file, and nobody keeps it")]
    NotStored,
    #[error("the load was canceled")]
    Stopped,
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
}

/// Why a batch was refused. Nothing has been computed or stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum BatchError {
    #[error("token {token} is not in the vocabulary of {vocabulary}")]
    Token { token: u32, vocabulary: usize },
    #[error("the model's file was cut short while it was read")]
    Damaged,
    #[error("the model is an encoder: it reads whole sequences and predicts nothing")]
    Encoder,
    #[error("the model is a decoder: it does not encode whole sequences")]
    Decoder,
    #[error("the model has no classifier to rank with")]
    NoRankHead,
    #[error("input {input} has no tokens")]
    EmptyInput { input: usize },
    #[error("the adapter was made for another model")]
    ForeignAdapter,
    #[error("an adapter's scale is not finite")]
    AdapterScale,
    #[error("the batch has {tokens} tokens; there is room for {room}")]
    TooManyTokens { tokens: usize, room: usize },
    #[error("the batch asks for {rows} rows of logits; there is room for {room}")]
    TooManyLogits { rows: usize, room: usize },
    #[error("position {position} is past the {positions} that the model has")]
    Position { position: usize, positions: usize },
    #[error("the sequence has pages for {room} positions and the batch reaches {needed}")]
    Pages { room: usize, needed: usize },
    #[error("the embeddings given for the positions from {start} on do not fit the model")]
    Embedded { start: usize },
    #[error("positions {start} to {end} see each other, and the batch has only some of them")]
    CutRun { start: usize, end: usize },
    #[error("{reason}")]
    Device { reason: String },
    #[error("{reason}")]
    Lost { reason: String },
    #[error("the sequence has no recurrent state, which the model needs")]
    State,
    #[error("no layer that predicts the token after the next is loaded")]
    NoNextn,
    #[error("an encoder-decoder needs a source for every sequence, and other models have none")]
    Source,
    #[error("a source is read at once: the span has {tokens} of its {source_tokens} tokens")]
    PartOfSource { tokens: usize, source_tokens: usize },
    #[error("a window begins at position {position} and the sequence holds it from {held} on")]
    Forgotten { position: usize, held: usize },
}
