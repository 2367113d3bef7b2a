//! The unikernel as it is linked: an ELF file whose loaded bytes begin with a PE header.

use super::attachment::{Attachment, PAGE};
use super::authenticode::{self, ProgramSigner};
use super::pe;
use crate::{Architecture, Form, ImageError, Layout, measure};
use std::ops::Range;
use thiserror::Error;

const LOADED: u32 = 1;
const ENTRY_BYTES: usize = 56;
/// How much memory the image takes, in the header that loaders of Linux on AArch64 read.
const LINUX_IMAGE_BYTES: usize = 16;
/// Hypervisors have other things from here on.
const LOW_MEMORY: u64 = 3 << 30;

/// Why a file is not the unikernel.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum KernelError {
    /// It is no 64-bit ELF file.
    #[error("the kernel is no 64-bit ELF file")]
    NotElf,
    /// It ends too early.
    #[error("the kernel's file is cut off: there is nothing at byte {at}")]
    CutOff {
        /// Where something should be.
        at: u64,
    },
    /// It is for another kind of processor.
    #[error("the kernel is for processors of ELF's number {machine}, neither x86-64 nor AArch64")]
    Architecture {
        /// The number.
        machine: u64,
    },
    /// It does not begin with a PE header.
    #[error("the kernel does not begin with a PE header")]
    NotPe,
    /// There is no room in a header.
    #[error("the kernel's {header} header has no room for an attachment")]
    NoRoom {
        /// Which one.
        header: &'static str,
    },
}

/// Little-endian numbers of a file that may be cut off.
pub(crate) fn number(bytes: &[u8], at: usize, size: usize) -> Result<u64, KernelError> {
    let end = at.checked_add(size);
    let field = end.and_then(|end| bytes.get(at..end));
    let field = field.ok_or(KernelError::CutOff { at: at as u64 })?;
    Ok(field
        .iter()
        .rev()
        .fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
}

/// Changes bytes, of which `number` has found that they are there.
pub(crate) fn set(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// A part of the file that is loaded.
#[derive(Clone, Debug)]
struct Segment {
    file: Range<usize>,
    address: u64,
}

/// The unikernel.
#[derive(Clone, Debug)]
pub struct Kernel<'a> {
    file: &'a [u8],
    segments: Vec<Segment>,
    base: u64,
    architecture: Architecture,
}

impl<'a> Kernel<'a> {
    /// Looks at an ELF file.
    pub fn parse(file: &'a [u8]) -> Result<Self, KernelError> {
        if !file.starts_with(b"\x7fELF\x02\x01") {
            return Err(KernelError::NotElf);
        }
        let architecture = match number(file, 18, 2)? {
            62 => Architecture::X86_64,
            183 => Architecture::Aarch64,
            machine => return Err(KernelError::Architecture { machine }),
        };
        let (table, size, count) = (
            number(file, 32, 8)?,
            number(file, 54, 2)?,
            number(file, 56, 2)?,
        );
        if size != ENTRY_BYTES as u64 {
            return Err(KernelError::NotElf);
        }
        let mut segments = Vec::new();
        for index in 0..count {
            let at = table.checked_add(index * size).ok_or(KernelError::NotElf)?;
            let cut_off = KernelError::CutOff { at };
            let at = usize::try_from(at).map_err(|_| cut_off)?;
            let field = |offset, bytes| match at.checked_add(offset) {
                Some(at) => number(file, at, bytes),
                None => Err(cut_off),
            };
            if field(0, 4)? != LOADED.into() {
                continue;
            }
            let (start, bytes) = (field(8, 8)?, field(32, 8)?);
            let end = start.checked_add(bytes);
            let end = end.filter(|end| *end <= file.len() as u64).ok_or(cut_off)?;
            segments.push(Segment {
                file: start as usize..end as usize,
                address: field(24, 8)?,
            });
        }
        let first = segments.iter().min_by_key(|segment| segment.address);
        let first = first.ok_or(KernelError::NotElf)?;
        if !file[first.file.clone()].starts_with(b"MZ") {
            return Err(KernelError::NotPe);
        }
        let base = first.address;
        let kernel = Self {
            file,
            segments,
            base,
            architecture,
        };
        pe::image_bytes(&kernel.flat()?)?;
        Ok(kernel)
    }

    /// What it runs on.
    pub fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// The file without symbols and what helps to find faults.
    pub fn stripped(&self) -> Vec<u8> {
        let ends = self.segments.iter().map(|segment| segment.file.end);
        let mut out = self.file[..ends.max().unwrap_or(0)].to_vec();
        out[40..48].fill(0);
        out[58..64].fill(0);
        out
    }

    /// The digest that the machine measures of it.
    pub fn measured(&self) -> Result<[u8; 32], KernelError> {
        let image = self.flat()?;
        let [fixed, variables] = pe::parts(&image)?;
        let offset = |address: u64| {
            let place = address
                .checked_sub(self.base)?
                .checked_sub(variables.start as u64)?;
            usize::try_from(place).ok()
        };
        let pointers = self.pointers(&image)?;
        let pointers = pointers.into_iter().filter_map(offset);
        Ok(measure::program(
            &image[fixed],
            &image[variables.clone()],
            pointers,
        ))
    }

    /// The addresses of pointers that the program moves when it starts.
    fn pointers(&self, image: &[u8]) -> Result<Vec<u64>, KernelError> {
        const DYNAMIC: u64 = 2;
        const RELOCATIONS: u64 = 7;
        const RELOCATION_BYTES: u64 = 8;
        let (table, count) = (number(self.file, 32, 8)?, number(self.file, 56, 2)?);
        let (mut start, mut bytes) = (0, 0);
        for at in (0..count).map(|index| table as usize + index as usize * ENTRY_BYTES) {
            if number(self.file, at, 4)? != DYNAMIC {
                continue;
            }
            let (from, len) = (
                number(self.file, at + 8, 8)?,
                number(self.file, at + 32, 8)?,
            );
            for entry in (0..len / 16).map(|index| (from + index * 16) as usize) {
                let value = number(self.file, entry + 8, 8)?;
                match number(self.file, entry, 8)? {
                    RELOCATIONS => start = value.saturating_sub(self.base) as usize,
                    RELOCATION_BYTES => bytes = value as usize,
                    _ => {}
                }
            }
        }
        (0..bytes / 24)
            .map(|index| number(image, start + index * 24, 8))
            .collect()
    }

    /// The bytes as they are loaded.
    fn flat(&self) -> Result<Vec<u8>, KernelError> {
        let mut out = Vec::new();
        for segment in &self.segments {
            let start = segment.address - self.base;
            let bytes = &self.file[segment.file.clone()];
            // A gap larger than the file is no kernel of ours.
            let start = usize::try_from(start).ok();
            let start = start.filter(|start| *start <= 4 * self.file.len());
            let start = start.ok_or(KernelError::NotElf)?;
            out.resize(out.len().max(start + bytes.len()), 0);
            set(&mut out, start, bytes);
        }
        Ok(out)
    }

    /// For hypervisors: the attachment is a further segment, right behind the kernel in memory.
    pub(crate) fn elf<'m>(&self, attachment: &Attachment<'m>) -> Result<Layout<'m>, ImageError> {
        if self.architecture != Architecture::X86_64 {
            return Err(ImageError::NoHypervisor);
        }
        let mut file = self.stripped();
        let first = self.segments.iter().find(|part| part.address == self.base);
        let first = first.ok_or(KernelError::NotElf)?.file.clone();
        let image = pe::image_bytes(&self.flat()?)?;
        let bytes = attachment.len();
        let address = self.base.saturating_add(image);
        let room = LOW_MEMORY.saturating_sub(address);
        if bytes > room {
            return Err(too_large(Form::Elf, attachment, room));
        }
        pe::describe(&mut file[first.clone()], image, None, bytes)?;
        let offset = (file.len() as u64).next_multiple_of(PAGE);
        let count = number(&file, 56, 2)?;
        let entry = number(&file, 32, 8)? as usize + count as usize * ENTRY_BYTES;
        let no_room = KernelError::NoRoom { header: "ELF" };
        let place = file.get(entry..entry + ENTRY_BYTES).ok_or(no_room)?;
        if entry + ENTRY_BYTES > first.start || place.iter().any(|byte| *byte != 0) {
            return Err(no_room.into());
        }
        set(&mut file, 56, &(count as u16 + 1).to_le_bytes());
        // Loaded, readable.
        set(&mut file, entry, &LOADED.to_le_bytes());
        set(&mut file, entry + 4, &4u32.to_le_bytes());
        let fields = [offset, address, address, bytes, bytes, PAGE];
        set(&mut file, entry + 8, &fields.map(u64::to_le_bytes).concat());
        let mut layout = Layout::new(0);
        layout.put(0, file);
        layout.embed(offset, attachment.layout());
        Ok(layout)
    }

    /// For firmware: the attachment is a further section. For AArch64 it is what loaders of Linux take too, who read the file
    /// into memory as it is.
    pub(crate) fn efi<'m>(
        &self,
        attachment: &Attachment<'m>,
        signer: Option<&ProgramSigner<'_>>,
    ) -> Result<Layout<'m>, ImageError> {
        let mut file = self.flat()?;
        let image = pe::image_bytes(&file)?;
        let bytes = attachment.len();
        let room = u64::from(u32::MAX) / PAGE * PAGE;
        if bytes > room.saturating_sub(image) {
            return Err(too_large(Form::Efi, attachment, room.saturating_sub(image)));
        }
        let offset = match self.architecture {
            Architecture::X86_64 => (file.len() as u64).next_multiple_of(pe::FILE_UNIT),
            Architecture::Aarch64 => image,
        };
        pe::describe(&mut file, image, Some(offset), bytes)?;
        if self.architecture == Architecture::Aarch64 {
            let memory = (image + bytes).next_multiple_of(PAGE);
            set(&mut file, LINUX_IMAGE_BYTES, &memory.to_le_bytes());
        }
        let join = |file: Vec<u8>| {
            let mut layout = Layout::new(0);
            layout.put(0, file);
            layout.embed(offset, attachment.layout());
            layout.pad(pe::FILE_UNIT);
            layout
        };
        let Some(signer) = signer else {
            return Ok(join(file));
        };
        let body = join(file.clone());
        let place = pe::optional_header(&file)?;
        let signature = authenticode::sign(&mut file, &body, place, signer)?;
        let mut layout = join(file);
        layout.put(layout.len(), signature);
        Ok(layout)
    }
}

fn too_large(form: Form, attachment: &Attachment<'_>, room: u64) -> ImageError {
    let others = attachment.len() - attachment.model.len() as u64;
    ImageError::TooLarge {
        form,
        bytes: attachment.model.len() as u64,
        most: room.saturating_sub(others),
    }
}
