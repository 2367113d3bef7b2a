//! What can be wrong with a call.

use crate::GgmlType;

/// Why nothing was quantized or dequantized.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantError {
    /// The values are not whole blocks.
    #[error("{len} values are not whole blocks of {ty}, which holds {} each", ty.block_len())]
    PartialBlock {
        /// The block's type.
        ty: GgmlType,
        /// The number of values.
        len: usize,
    },
    /// The bytes are not as many as the values need.
    #[error("{values} values of {ty} take {expected} bytes, but the buffer has {actual}")]
    ByteLength {
        /// The type of the bytes.
        ty: GgmlType,
        /// The number of values.
        values: usize,
        /// The bytes that they take.
        expected: usize,
        /// The bytes that there are.
        actual: usize,
    },
    /// The type has no quantizer here.
    #[error("{ty} can be read but not written")]
    CannotQuantize {
        /// The type asked for.
        ty: GgmlType,
    },
    /// A value is NaN or infinite.
    #[error("value {index} is not finite")]
    NotFinite {
        /// Where the value is.
        index: usize,
    },
    /// A value is beyond what the type can hold.
    #[error("value {index} is larger than {ty} can hold")]
    TooLarge {
        /// The type asked for.
        ty: GgmlType,
        /// Where the value is.
        index: usize,
    },
    /// The importance is not a row of the values.
    #[error("{len} importances do not make whole rows of {values} values in blocks of {ty}")]
    ImportanceLength {
        /// The type asked for.
        ty: GgmlType,
        /// The number of importances.
        len: usize,
        /// The number of values.
        values: usize,
    },
    /// An importance is NaN, infinite or negative.
    #[error("importance {index} is not a finite number of at least zero")]
    BadImportance {
        /// Where it is.
        index: usize,
    },
}
