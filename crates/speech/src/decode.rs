//! Audio files to samples: one channel at [`RATE`].

use crate::RATE;
use crate::resample::Resampler;
use crate::wav::Wav;
use std::io::{Cursor, ErrorKind};
use symphonia::core::codecs::audio::{AudioDecoder, AudioDecoderOptions};
use symphonia::core::errors::Error;
use symphonia::core::formats::{FormatOptions, FormatReader, TrackType};
use symphonia::core::io::MediaSourceStream;
use symphonia::core::packet::Packet;
use symphonia::default::formats::{FlacReader, MpaReader, OggReader};

/// What an audio file may take. Looked at before memory is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a file.
    pub bytes: usize,
    /// Seconds of sound.
    pub seconds: usize,
}

impl Default for Limits {
    /// 1 GiB of file, four hours of sound.
    fn default() -> Self {
        Self {
            bytes: 1 << 30,
            seconds: 4 * 3600,
        }
    }
}

/// The formats that are read.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// WAV: samples as they are.
    Wav,
    /// FLAC.
    Flac,
    /// MP3.
    Mp3,
    /// Ogg with Vorbis or FLAC.
    Ogg,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Wav, Self::Flac, Self::Mp3, Self::Ogg];

    /// The format that a file's first bytes are of.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let starts = |with: &[u8]| bytes.starts_with(with);
        if starts(b"RIFF") && bytes.get(8..12) == Some(b"WAVE") {
            Some(Self::Wav)
        } else if starts(b"fLaC") {
            Some(Self::Flac)
        } else if starts(b"OggS") {
            Some(Self::Ogg)
        } else if matches!(bytes, [0xff, second, ..] if second & 0xe6 == 0xe2) {
            // Eleven bits of ones, and layer III.
            Some(Self::Mp3)
        } else {
            None
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wav => "WAV",
            Self::Flac => "FLAC",
            Self::Mp3 => "MP3",
            Self::Ogg => "Ogg",
        }
    }
}

/// Why a file is no sound that can be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum DecodeError {
    #[error("the file is not audio of a known format: WAV, FLAC, MP3 and Ogg Vorbis are read")]
    Format,
    #[error("the audio file has {bytes} bytes; {limit} are allowed")]
    Bytes { bytes: usize, limit: usize },
    #[error("the audio is longer than {limit} seconds, which is the limit")]
    TooLong { limit: usize },
    #[error("the {} file has no sound in it", .0.name())]
    Empty(Format),
    #[error("the audio has {rate} samples a second, a rate that is not read")]
    Rate { rate: u32 },
    #[error("the {} file changes its sample rate on the way, which is not read", .0.name())]
    RateChanges(Format),
    #[error("the {} file is damaged: {reason}", .format.name())]
    Damaged { format: Format, reason: String },
}

impl DecodeError {
    fn damaged(format: Format, reason: impl ToString) -> Self {
        let reason = reason.to_string();
        Self::Damaged { format, reason }
    }
}

/// Samples louder than this are clipped: files of floats may claim anything, and a spectrogram needs finite squares.
const LOUDEST: f32 = 100.0;

/// Samples of a WAV file that are resampled together.
const PIECE: usize = 1 << 14;

/// Decodes an audio file, whatever format its first bytes are of, into one channel of 16,000 samples a second: the mean
/// of its channels, resampled. Damaged packets in the middle are left out, as players do.
pub fn decode(bytes: &[u8], limits: Limits) -> Result<Vec<f32>, DecodeError> {
    if bytes.len() > limits.bytes {
        return Err(DecodeError::Bytes {
            bytes: bytes.len(),
            limit: limits.bytes,
        });
    }
    let bytes = after_tag(bytes);
    let format = Format::of(bytes).ok_or(DecodeError::Format)?;
    let mut sound = Sound::new(format, limits);
    match format {
        Format::Wav => sound.add_wav(&Wav::parse(bytes)?)?,
        Format::Flac | Format::Mp3 | Format::Ogg => sound.add_packets(bytes)?,
    }
    sound.finish()
}

/// What comes after an ID3 tag, which stands before MP3 and sometimes FLAC.
fn after_tag(bytes: &[u8]) -> &[u8] {
    let [b'I', b'D', b'3', _, _, flags, a, b, c, d, ..] = *bytes else {
        return bytes;
    };
    let size = [a, b, c, d];
    let size = size
        .iter()
        .fold(0, |size, &byte| size << 7 | usize::from(byte & 0x7f));
    let footer = if flags & 0x10 == 0 { 0 } else { 10 };
    let rest = bytes.get(10 + size + footer..).unwrap_or_default();
    // Some writers pad with zeros beyond what the tag says.
    let zeros = rest.iter().take_while(|&&byte| byte == 0).count();
    &rest[zeros..]
}

fn open(format: Format, bytes: &[u8]) -> Result<Box<dyn FormatReader + '_>, Error> {
    let stream = MediaSourceStream::new(Box::new(Cursor::new(bytes)), Default::default());
    let options = FormatOptions::default();
    Ok(match format {
        Format::Flac => Box::new(FlacReader::try_new(stream, options)?),
        Format::Mp3 => Box::new(MpaReader::try_new(stream, options)?),
        Format::Wav | Format::Ogg => Box::new(OggReader::try_new(stream, options)?),
    })
}

/// What has been decoded so far.
struct Sound {
    format: Format,
    limits: Limits,
    /// From the first packet on, and the rate that it is made for.
    resampler: Option<(u32, Resampler)>,
    packet: Vec<f32>,
    mono: Vec<f32>,
    samples: Vec<f32>,
    /// Why the first damaged packet was left out.
    reason: Option<&'static str>,
}

impl Sound {
    fn new(format: Format, limits: Limits) -> Self {
        Self {
            format,
            limits,
            resampler: None,
            packet: Vec::new(),
            mono: Vec::new(),
            samples: Vec::new(),
            reason: None,
        }
    }

    fn add_wav(&mut self, wav: &Wav<'_>) -> Result<(), DecodeError> {
        let mut samples = wav.mono().peekable();
        while samples.peek().is_some() {
            self.mono.clear();
            self.mono.extend(samples.by_ref().take(PIECE));
            self.take(wav.rate)?;
        }
        Ok(())
    }

    fn add_packets(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        let format = self.format;
        let damaged = |error: Error| DecodeError::damaged(format, error);
        let mut reader = open(format, bytes).map_err(damaged)?;
        let track = reader
            .default_track(TrackType::Audio)
            .ok_or(DecodeError::Empty(format))?;
        let (id, params) = (track.id, track.codec_params.as_ref());
        let params = params
            .and_then(|params| params.audio())
            .ok_or(DecodeError::Empty(format))?;
        let mut decoder = symphonia::default::get_codecs()
            .make_audio_decoder(params, &AudioDecoderOptions::default())
            .map_err(damaged)?;
        loop {
            let packet = match reader.next_packet() {
                Ok(Some(packet)) => packet,
                // Another stream may follow in Ogg; one is enough.
                Ok(None) | Err(Error::ResetRequired) => return Ok(()),
                Err(Error::IoError(error)) if error.kind() == ErrorKind::UnexpectedEof => {
                    return Ok(());
                }
                Err(_) if !self.samples.is_empty() => return Ok(()),
                Err(error) => return Err(damaged(error)),
            };
            if packet.track_id == id {
                self.add(&mut *decoder, &packet)?;
            }
        }
    }

    fn add(&mut self, decoder: &mut dyn AudioDecoder, packet: &Packet) -> Result<(), DecodeError> {
        let decoded = match decoder.decode(packet) {
            Ok(decoded) => decoded,
            Err(Error::DecodeError(reason) | Error::LimitError(reason)) => {
                self.reason.get_or_insert(reason);
                return Ok(());
            }
            Err(Error::IoError(_)) => {
                self.reason.get_or_insert("a packet ends early");
                return Ok(());
            }
            Err(error) => return Err(DecodeError::damaged(self.format, error)),
        };
        let (rate, channels) = (decoded.spec().rate(), decoded.num_planes());
        if decoded.frames() == 0 || channels == 0 {
            return Ok(());
        }
        decoded.copy_to_vec_interleaved(&mut self.packet);
        let scale = 1.0 / channels as f32;
        self.mono.clear();
        let frames = self.packet.chunks_exact(channels);
        self.mono
            .extend(frames.map(|frame| frame.iter().sum::<f32>() * scale));
        self.take(rate)
    }

    /// Takes the samples in `mono`.
    fn take(&mut self, rate: u32) -> Result<(), DecodeError> {
        for x in &mut self.mono {
            *x = if x.is_finite() {
                x.clamp(-LOUDEST, LOUDEST)
            } else {
                0.0
            };
        }
        let resampler = match &mut self.resampler {
            Some((before, resampler)) if *before == rate => resampler,
            Some(_) => return Err(DecodeError::RateChanges(self.format)),
            empty => {
                let resampler = Resampler::new(rate).ok_or(DecodeError::Rate { rate })?;
                &mut empty.insert((rate, resampler)).1
            }
        };
        resampler.push(&self.mono, &mut self.samples);
        self.check()
    }

    fn check(&self) -> Result<(), DecodeError> {
        let limit = self.limits.seconds;
        if self.samples.len() / RATE >= limit {
            return Err(DecodeError::TooLong { limit });
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<f32>, DecodeError> {
        if let Some((_, resampler)) = self.resampler {
            resampler.finish(&mut self.samples);
        }
        if !self.samples.is_empty() {
            return Ok(self.samples);
        }
        Err(match self.reason {
            Some(reason) => DecodeError::damaged(self.format, reason),
            None => DecodeError::Empty(self.format),
        })
    }
}
