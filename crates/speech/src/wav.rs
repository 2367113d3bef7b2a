//! WAV files: chunks, of which one says how samples are stored and one has them.

use crate::decode::{DecodeError, Format};

/// How a sample is stored.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Sample {
    Unsigned8,
    Signed16,
    Signed24,
    Signed32,
    Float32,
    Float64,
    ALaw,
    MuLaw,
}

impl Sample {
    /// By the tag of the format and the bits of a sample.
    fn new(tag: u16, bits: u16) -> Option<Self> {
        Some(match (tag, bits) {
            (1, 8) => Self::Unsigned8,
            (1, 16) => Self::Signed16,
            (1, 24) => Self::Signed24,
            (1, 32) => Self::Signed32,
            (3, 32) => Self::Float32,
            (3, 64) => Self::Float64,
            (6, 8) => Self::ALaw,
            (7, 8) => Self::MuLaw,
            _ => return None,
        })
    }

    fn bytes(self) -> usize {
        match self {
            Self::Unsigned8 | Self::ALaw | Self::MuLaw => 1,
            Self::Signed16 => 2,
            Self::Signed24 => 3,
            Self::Signed32 | Self::Float32 => 4,
            Self::Float64 => 8,
        }
    }

    fn read(self, bytes: &[u8]) -> f32 {
        let word = |len: usize| {
            let mut word = [0; 8];
            word[8 - len..].copy_from_slice(&bytes[..len]);
            i64::from_le_bytes(word)
        };
        let float = |x: u32| f32::from_bits(x);
        match self {
            Self::Unsigned8 => (f32::from(bytes[0]) - 128.0) / 128.0,
            Self::Signed16 | Self::Signed24 | Self::Signed32 => {
                // In the upper bytes, so that all are shares of one range.
                (word(self.bytes()) as f64 / (1u64 << 63) as f64) as f32
            }
            Self::Float32 => float((word(4) as u64 >> 32) as u32),
            Self::Float64 => f64::from_bits(word(8) as u64) as f32,
            Self::ALaw => a_law(bytes[0]),
            Self::MuLaw => mu_law(bytes[0]),
        }
    }
}

/// ITU-T G.711.
fn mu_law(byte: u8) -> f32 {
    let byte = !byte;
    let (exponent, mantissa) = (byte >> 4 & 7, i32::from(byte & 15));
    let size = ((mantissa << 3 | 0x84) << exponent) - 0x84;
    (if byte & 0x80 == 0 { size } else { -size }) as f32 / 32768.0
}

/// ITU-T G.711.
fn a_law(byte: u8) -> f32 {
    let byte = byte ^ 0x55;
    let (exponent, mantissa) = (byte >> 4 & 7, i32::from(byte & 15));
    let size = match exponent {
        0 => mantissa << 4 | 8,
        _ => (mantissa << 4 | 0x108) << (exponent - 1),
    };
    (if byte & 0x80 == 0 { -size } else { size }) as f32 / 32768.0
}

/// A file's samples.
pub(crate) struct Wav<'a> {
    pub(crate) rate: u32,
    channels: usize,
    sample: Sample,
    data: &'a [u8],
}

fn damaged(reason: &str) -> DecodeError {
    DecodeError::Damaged {
        format: Format::Wav,
        reason: reason.into(),
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_le_bytes([bytes[0], bytes[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

impl<'a> Wav<'a> {
    /// Finds the format and the samples. A length beyond the file's end, as streams have, means all that is there.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut rest = bytes.get(12..).unwrap_or_default();
        let mut format = None;
        while rest.len() >= 8 {
            let (name, len) = (&rest[..4], u32_at(rest, 4).unwrap_or(0) as usize);
            let body = &rest[8..];
            let chunk = &body[..len.min(body.len())];
            match name {
                b"fmt " => format = Some(Self::format(chunk)?),
                b"data" => {
                    let found =
                        format.ok_or_else(|| damaged("samples come before their format"))?;
                    let (sample, channels, rate) = found;
                    return Ok(Self {
                        rate,
                        channels,
                        sample,
                        data: chunk,
                    });
                }
                _ => {}
            }
            // Chunks begin at even places.
            rest = body.get(len.saturating_add(len & 1)..).unwrap_or_default();
        }
        Err(damaged("it has no samples"))
    }

    fn format(chunk: &[u8]) -> Result<(Sample, usize, u32), DecodeError> {
        let short = || damaged("its format is cut off");
        let tag = u16_at(chunk, 0).ok_or_else(short)?;
        let channels = u16_at(chunk, 2).ok_or_else(short)?;
        let rate = u32_at(chunk, 4).ok_or_else(short)?;
        let bits = u16_at(chunk, 14).ok_or_else(short)?;
        // The extensible format has the tag further on.
        let tag = match tag {
            0xfffe => u16_at(chunk, 24).ok_or_else(short)?,
            tag => tag,
        };
        let sample = Sample::new(tag, bits).ok_or_else(|| {
            damaged(&format!(
                "its samples are of kind {tag} with {bits} bits, which is not read"
            ))
        })?;
        if channels == 0 || channels > 32 {
            return Err(damaged(&format!("it has {channels} channels")));
        }
        Ok((sample, usize::from(channels), rate))
    }

    /// Its samples, the mean of the channels.
    pub(crate) fn mono(&self) -> impl ExactSizeIterator<Item = f32> {
        let (sample, bytes) = (self.sample, self.sample.bytes());
        let scale = 1.0 / self.channels as f32;
        self.data
            .chunks_exact(bytes * self.channels)
            .map(move |frame| {
                let channels = frame.chunks_exact(bytes).map(|bytes| sample.read(bytes));
                channels.sum::<f32>() * scale
            })
    }
}
