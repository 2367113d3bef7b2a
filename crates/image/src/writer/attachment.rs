//! What goes behind the image, as `strata-unikernel`'s `boot::attachment` reads it: eight bytes `STRATA\0\x01`, the
//! options' length and the model's offset (four bytes each), the model's length (eight), the options; the model on a
//! page of its own.

use crate::{ImageError, Layout};

const MAGIC: &[u8; 8] = b"STRATA\0\x01";
const HEADER: usize = 24;
/// The unikernel reads no more, of these and the command line together.
const MOST_OPTIONS: usize = 2048;
pub(crate) const PAGE: u64 = 4096;

/// Options and a model.
pub(crate) struct Attachment<'a> {
    head: Vec<u8>,
    pub(crate) model: &'a [u8],
}

impl<'a> Attachment<'a> {
    pub(crate) fn new(options: &str, model: Option<&'a [u8]>) -> Result<Self, ImageError> {
        if options.len() > MOST_OPTIONS {
            return Err(ImageError::Options {
                bytes: options.len(),
                most: MOST_OPTIONS,
            });
        }
        let model = model.unwrap_or_default();
        let len = (HEADER + options.len()).next_multiple_of(PAGE as usize);
        let mut head = MAGIC.to_vec();
        head.extend((options.len() as u32).to_le_bytes());
        head.extend((len as u32).to_le_bytes());
        head.extend((model.len() as u64).to_le_bytes());
        head.extend(options.as_bytes());
        head.resize(len, 0);
        Ok(Self { head, model })
    }

    pub(crate) fn len(&self) -> u64 {
        (self.head.len() + self.model.len()) as u64
    }

    pub(crate) fn layout(&self) -> Layout<'a> {
        let mut layout = Layout::new(0);
        layout.put(0, self.head.clone());
        layout.put(self.head.len() as u64, self.model);
        layout
    }
}
