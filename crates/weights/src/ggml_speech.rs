//! The files of whisper.cpp: sizes, a filter bank, a vocabulary, and tensors, one after the other.
//!
//! <https://github.com/ggml-org/whisper.cpp/blob/master/models/convert-pt-to-ggml.py> writes them. Numbers are of 32 bits,
//! little-endian.

use crate::checkpoint_tensor::{CheckpointTensor, Payload};
use crate::dtype::Dtype;
use alloc::vec::Vec;
use strata_quant::GgmlType;

/// What such a file begins with.
const MAGIC: [u8; 4] = 0x6767_6d6c_u32.to_le_bytes();
/// No vocabulary has more words.
const MOST_WORDS: usize = 1 << 20;
/// No file has more tensors.
const MOST_TENSORS: usize = 1 << 16;

/// The types that its programs write.
const TYPES: [GgmlType; 12] = [
    GgmlType::F32,
    GgmlType::F16,
    GgmlType::Q4_0,
    GgmlType::Q4_1,
    GgmlType::Q5_0,
    GgmlType::Q5_1,
    GgmlType::Q8_0,
    GgmlType::Q2_K,
    GgmlType::Q3_K,
    GgmlType::Q4_K,
    GgmlType::Q5_K,
    GgmlType::Q6_K,
];

/// Why a file is none of whisper.cpp's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum GgmlSpeechError {
    #[error("the file is none of whisper.cpp's")]
    Magic,
    #[error("the file ends at byte {0}, in the middle of something")]
    End(usize),
    #[error("{what} at byte {at} is {found}, which cannot be")]
    Number {
        what: &'static str,
        at: usize,
        found: i64,
    },
    #[error("the tensor at byte {at} is of type {ty}, which no file of whisper.cpp has")]
    Type { at: usize, ty: u32 },
    #[error("the tensor at byte {at} has rows of {columns}, which are no whole blocks of {ty}")]
    Blocks {
        at: usize,
        columns: u64,
        ty: &'static str,
    },
    #[error("the tensor at byte {at} has a name that is no text")]
    Name { at: usize },
}

/// The sizes of a model.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain words")]
pub struct SpeechSizes {
    pub vocabulary: u32,
    pub audio_positions: u32,
    pub width: u32,
    pub audio_heads: u32,
    pub audio_layers: u32,
    pub text_positions: u32,
    pub text_heads: u32,
    pub text_layers: u32,
    pub bands: u32,
}

/// A parsed file.
#[derive(Clone, Debug)]
pub struct GgmlSpeech<'a> {
    /// Its sizes.
    pub sizes: SpeechSizes,
    /// The bytes of each token of text.
    pub words: Vec<&'a [u8]>,
    /// Its tensors, under whisper.cpp's names.
    pub tensors: Vec<CheckpointTensor<'a>>,
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], GgmlSpeechError> {
        let end = self.at.checked_add(len);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or(GgmlSpeechError::End(self.bytes.len()))?;
        self.at += len;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32, GgmlSpeechError> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// A number up to `most`.
    fn bounded(&mut self, what: &'static str, most: usize) -> Result<usize, GgmlSpeechError> {
        let at = self.at;
        let found = self.number()?;
        if found as usize > most {
            let found = i64::from(found);
            return Err(GgmlSpeechError::Number { what, at, found });
        }
        Ok(found as usize)
    }

    fn tensor(&mut self) -> Result<CheckpointTensor<'a>, GgmlSpeechError> {
        let start = self.at;
        let dims = self.bounded("the number of dimensions", 4)?;
        let name = self.bounded("the length of a name", 256)?;
        let ty = self.number()?;
        let known = GgmlType::from_id(ty).filter(|ty| TYPES.contains(ty));
        let ty = known.ok_or(GgmlSpeechError::Type { at: start, ty })?;
        let mut shape = Vec::with_capacity(dims);
        for _ in 0..dims {
            shape.push(u64::from(self.number()?));
        }
        shape.reverse();
        let name = core::str::from_utf8(self.take(name)?);
        let name = name.map_err(|_| GgmlSpeechError::Name { at: start })?;
        let columns = shape.last().copied().unwrap_or(1);
        let row = ty.row_bytes(columns).ok_or(GgmlSpeechError::Blocks {
            at: start,
            columns,
            ty: ty.name(),
        })?;
        let rows = shape.iter().rev().skip(1);
        let bytes = rows
            .copied()
            .try_fold(row, |bytes, dim| bytes.checked_mul(dim));
        let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
        let bytes = bytes.ok_or(GgmlSpeechError::End(self.bytes.len()))?;
        let bytes = self.take(bytes)?;
        let (dtype, payload) = match ty {
            GgmlType::F32 => (Dtype::F32, Payload::Plain(bytes)),
            GgmlType::F16 => (Dtype::F16, Payload::Plain(bytes)),
            ty => (Dtype::F32, Payload::Blocks(ty, bytes)),
        };
        Ok(CheckpointTensor {
            name: name.into(),
            dtype,
            shape,
            strides: None,
            payload,
        })
    }
}

impl<'a> GgmlSpeech<'a> {
    /// Whether a file begins as one of whisper.cpp's.
    pub fn is(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// Parses a file.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, GgmlSpeechError> {
        if !Self::is(bytes) {
            return Err(GgmlSpeechError::Magic);
        }
        let mut reader = Reader { bytes, at: 4 };
        let mut numbers = [0; 11];
        for number in &mut numbers {
            *number = reader.number()?;
        }
        let [
            vocabulary,
            audio_positions,
            width,
            audio_heads,
            audio_layers,
            text_positions,
            _,
            text_heads,
            text_layers,
            bands,
            _,
        ] = numbers;
        let rows = reader.bounded("the number of filters", 1 << 12)?;
        let columns = reader.bounded("the length of filters", 1 << 12)?;
        reader.take(4 * rows * columns)?;
        let count = reader.bounded("the number of words", MOST_WORDS)?;
        let mut words = Vec::new();
        for _ in 0..count {
            let len = reader.bounded("the length of a word", 1 << 12)?;
            words.push(reader.take(len)?);
        }
        let mut tensors = Vec::new();
        while reader.at < bytes.len() {
            if tensors.len() >= MOST_TENSORS {
                let (at, found) = (reader.at, tensors.len() as i64);
                let what = "the number of tensors";
                return Err(GgmlSpeechError::Number { what, at, found });
            }
            tensors.push(reader.tensor()?);
        }
        let sizes = SpeechSizes {
            vocabulary,
            audio_positions,
            width,
            audio_heads,
            audio_layers,
            text_positions,
            text_heads,
            text_layers,
            bands,
        };
        Ok(Self {
            sizes,
            words,
            tensors,
        })
    }
}
