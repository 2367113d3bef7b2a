//! SentencePiece's `tokenizer.model`: a protocol buffer (`sentencepiece_model.proto`), read by hand.

use super::error::VocabularyError;
use super::{Algorithm, Vocabulary};
use crate::TokenKind;

/// Reads the fields of a message.
struct Message<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where the message begins in the file.
    start: usize,
}

/// A field's value.
enum Field<'a> {
    Number(u64),
    Fixed32([u8; 4]),
    Fixed64,
    Bytes(&'a [u8], usize),
}

impl<'a> Message<'a> {
    fn new(bytes: &'a [u8], start: usize) -> Self {
        Message {
            bytes,
            at: 0,
            start,
        }
    }

    fn bad(&self) -> VocabularyError {
        VocabularyError::Protobuf {
            offset: self.start + self.at,
        }
    }

    fn varint(&mut self) -> Result<u64, VocabularyError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.get(self.at).ok_or_else(|| self.bad())?;
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.bad())
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8], VocabularyError> {
        let end = usize::try_from(len).ok();
        let end = end.and_then(|len| self.at.checked_add(len));
        let bytes = end.and_then(|end| self.bytes.get(self.at..end));
        let bytes = bytes.ok_or_else(|| self.bad())?;
        self.at += bytes.len();
        Ok(bytes)
    }

    /// The next field's number and value.
    fn field(&mut self) -> Result<Option<(u64, Field<'a>)>, VocabularyError> {
        if self.at == self.bytes.len() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let field = match tag & 7 {
            0 => Field::Number(self.varint()?),
            1 => {
                self.take(8)?;
                Field::Fixed64
            }
            2 => {
                let len = self.varint()?;
                let start = self.start + self.at;
                Field::Bytes(self.take(len)?, start)
            }
            5 => {
                let mut bytes = [0; 4];
                bytes.copy_from_slice(self.take(4)?);
                Field::Fixed32(bytes)
            }
            _ => return Err(self.bad()),
        };
        Ok(Some((tag >> 3, field)))
    }
}

/// Reads a model's pieces and habits.
pub(super) fn read(file: &[u8]) -> Result<Vocabulary, VocabularyError> {
    const UNIGRAM: u64 = 1;
    const BPE: u64 = 2;
    let mut vocabulary = Vocabulary::new(Algorithm::Spm);
    let mut kind = UNIGRAM;
    let (mut space_prefix, mut collapse) = (true, true);
    let mut charsmap: &[u8] = &[];
    let mut message = Message::new(file, 0);
    while let Some((number, field)) = message.field()? {
        match (number, field) {
            (1, Field::Bytes(bytes, start)) => piece(&mut vocabulary, bytes, start)?,
            (2, Field::Bytes(bytes, start)) => {
                let mut trainer = Message::new(bytes, start);
                while let Some((number, field)) = trainer.field()? {
                    if let (3, Field::Number(value)) = (number, field) {
                        kind = value;
                    }
                }
            }
            (3, Field::Bytes(bytes, start)) => {
                let mut normalizer = Message::new(bytes, start);
                while let Some((number, field)) = normalizer.field()? {
                    match (number, field) {
                        (2, Field::Bytes(bytes, _)) => charsmap = bytes,
                        (3, Field::Number(value)) => space_prefix = value != 0,
                        (4, Field::Number(value)) => collapse = value != 0,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    match kind {
        BPE => {}
        UNIGRAM => {
            vocabulary.algorithm = Algorithm::Unigram;
            vocabulary.charsmap = charsmap.into();
            vocabulary
                .flags
                .insert("remove_extra_whitespaces", collapse);
        }
        _ => {
            return Err(VocabularyError::Model {
                name: "SentencePiece words or characters".into(),
            });
        }
    }
    vocabulary.flags.insert("add_space_prefix", space_prefix);
    Ok(vocabulary)
}

fn piece(vocabulary: &mut Vocabulary, bytes: &[u8], start: usize) -> Result<(), VocabularyError> {
    let mut message = Message::new(bytes, start);
    let (mut text, mut score, mut kind) = ("", 0.0, TokenKind::Normal);
    while let Some((number, field)) = message.field()? {
        match (number, field) {
            (1, Field::Bytes(bytes, offset)) => {
                text =
                    core::str::from_utf8(bytes).map_err(|_| VocabularyError::NotUtf8 { offset })?;
            }
            (2, Field::Fixed32(bytes)) => score = f32::from_le_bytes(bytes),
            // SentencePiece numbers the kinds as GGUF does.
            (3, Field::Number(number)) => {
                kind = TokenKind::from_gguf(number.into()).unwrap_or(TokenKind::Undefined);
            }
            _ => {}
        }
    }
    let score = if score.is_finite() { score } else { 0.0 };
    vocabulary.push(text, score, kind)
}
