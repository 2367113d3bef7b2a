//! Models split over several files: `name-00001-of-00005.gguf` and so on.
//!
//! The first part has the metadata; each part has some of the tensors, its number (`split.no`, from 0),
//! the number of parts (`split.count`) and the number of tensors in all of them (`split.tensors.count`).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::error::GgufError;
use super::metadata::{Metadata, index_by_name, position_by_name};
use super::name::Name;
use super::reader::Gguf;
use super::tensor::{Tensor, byte_len};
use super::{ALIGNMENT_KEY, MAX_TENSORS};

const NUMBER_KEY: &str = "split.no";
const COUNT_KEY: &str = "split.count";
const TENSORS_KEY: &str = "split.tensors.count";

/// The most parts; `split.count` is a 16-bit number.
const MAX_PARTS: u32 = 65_535;

/// The file name of one part of a split model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitName {
    /// What comes before `-00001-of-00005.gguf`, directories included.
    pub prefix: String,
    /// The part's number, from 1.
    pub index: u32,
    /// The number of parts.
    pub count: u32,
}

impl SplitName {
    /// Takes a file name apart; `None` if it is not that of a part.
    pub fn parse(name: &str) -> Option<SplitName> {
        let stem = name.strip_suffix(".gguf")?;
        let (stem, count) = stem.rsplit_once("-of-")?;
        let (prefix, index) = stem.rsplit_once('-')?;
        let [index, count] = [number(index)?, number(count)?];
        let valid = (1..=MAX_PARTS).contains(&count) && (1..=count).contains(&index);
        valid.then(|| SplitName {
            prefix: prefix.into(),
            index,
            count,
        })
    }

    /// The file name of a part, from 1.
    pub fn name(&self, index: u32) -> String {
        format!("{}-{index:05}-of-{:05}.gguf", self.prefix, self.count)
    }

    /// The file names of all parts, in order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = String> {
        (0..self.count as usize).map(|part| self.name(part as u32 + 1))
    }
}

/// A number written with exactly five digits.
fn number(digits: &str) -> Option<u32> {
    let right = digits.len() == 5 && digits.bytes().all(|byte| byte.is_ascii_digit());
    right.then(|| digits.parse().ok()).flatten()
}

/// Why files are not one model. Parts are numbered from 1, as in their file names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum SplitError {
    #[error("no file was given")]
    Empty,
    #[error("file {position} of those given has metadata that cannot be used: {source}")]
    Metadata { position: usize, source: GgufError },
    #[error("file {position} of those given is not a part of a split model: it has no {key}")]
    NotSplit { position: usize, key: &'static str },
    #[error("file {position} of those given says that it is part {part} of {count}")]
    PartNumber {
        position: usize,
        part: u32,
        count: u32,
    },
    #[error("part {part} says that there are {found} parts; {expected} was expected")]
    PartCount {
        part: u32,
        found: u32,
        expected: u32,
    },
    #[error("part {part} of {count} is missing")]
    MissingPart { part: u32, count: u32 },
    #[error("part {part} of {count} was given twice")]
    DuplicatePart { part: u32, count: u32 },
    #[error("part {part} has another value of {key} than part 1: they are of different models")]
    Mixed { part: u32, key: Name },
    #[error("the tensor {tensor} of part {part} is in an earlier part too")]
    DuplicateTensor { part: u32, tensor: Name },
    #[error("the tensor {tensor} has other data than its type and dimensions say")]
    DataLength { tensor: Name },
    #[error("the parts have {found} tensors together; {expected} were expected")]
    TensorCount { found: u64, expected: u64 },
    #[error("the parts have {found} tensors together; at most {MAX_TENSORS} are allowed")]
    TooManyTensors { found: u64 },
}

/// One model in one or more files: the metadata of the first and the tensors of all.
#[derive(Clone, Debug)]
pub struct GgufSet<'a> {
    parts: u32,
    metadata: Metadata<'a>,
    tensors: Vec<Tensor<'a>>,
    by_name: Vec<u32>,
}

/// A file and what it says about itself.
struct Part<'a> {
    /// From 1.
    number: u32,
    count: u32,
    tensors: Option<u64>,
    gguf: Gguf<'a>,
}

impl<'a> GgufSet<'a> {
    /// Joins all files of a model, given in any order. A file that is not split is a set of one.
    pub fn new(files: Vec<Gguf<'a>>) -> Result<GgufSet<'a>, SplitError> {
        let alone = files.len() == 1;
        let mut parts = Vec::with_capacity(files.len());
        for (position, gguf) in files.into_iter().enumerate() {
            parts.push(Part::new(gguf, position + 1, alone)?);
        }
        parts.sort_by_key(|part| part.number);
        check_complete(&parts)?;
        let expected = check_same_model(&parts)?;
        join(parts, expected)
    }

    /// The metadata of a file and tensors whose data lies elsewhere, for models that are put together in memory.
    ///
    /// Each tensor's data must be as long as its type and dimensions say.
    pub fn assemble(file: Gguf<'a>, tensors: Vec<Tensor<'a>>) -> Result<GgufSet<'a>, SplitError> {
        let found = tensors.len() as u64;
        if found > MAX_TENSORS {
            return Err(SplitError::TooManyTensors { found });
        }
        let damaged = |tensor: &&Tensor<'a>| {
            byte_len(tensor.ty, &tensor.dims).ok() != Some(tensor.data.len() as u64)
        };
        if let Some(tensor) = tensors.iter().find(damaged) {
            return Err(SplitError::DataLength {
                tensor: Name::new(tensor.name),
            });
        }
        match index_by_name(&tensors, |tensor| tensor.name) {
            Ok(by_name) => Ok(GgufSet {
                parts: 1,
                metadata: file.into_parts().0,
                tensors,
                by_name,
            }),
            Err(position) => Err(SplitError::DuplicateTensor {
                part: 1,
                tensor: Name::new(tensors[position].name),
            }),
        }
    }

    /// The number of files.
    pub fn parts(&self) -> u32 {
        self.parts
    }

    /// The first part's metadata. Other parts only number themselves.
    pub fn metadata(&self) -> &Metadata<'a> {
        &self.metadata
    }

    /// The tensors of all parts, in order.
    pub fn tensors(&self) -> &[Tensor<'a>] {
        &self.tensors
    }

    /// The tensor of a name.
    pub fn tensor(&self, name: &str) -> Option<&Tensor<'a>> {
        self.tensors.get(self.tensor_index(name)?)
    }

    /// Where the tensor of a name stands among [`tensors`](Self::tensors).
    pub fn tensor_index(&self, name: &str) -> Option<usize> {
        position_by_name(&self.tensors, &self.by_name, name, |tensor| tensor.name)
    }
}

impl<'a> Part<'a> {
    fn new(gguf: Gguf<'a>, position: usize, alone: bool) -> Result<Part<'a>, SplitError> {
        let metadata = gguf.metadata();
        let wrap = |source| SplitError::Metadata { position, source };
        let number = metadata.u32(NUMBER_KEY).map_err(wrap)?;
        let count = metadata.u32(COUNT_KEY).map_err(wrap)?;
        let tensors = metadata.u64(TENSORS_KEY).map_err(wrap)?;
        let (number, count) = match (number, count) {
            // llama.cpp takes a count of 0 to mean that the file is whole.
            (_, None | Some(0)) if alone => {
                return Ok(Part {
                    number: 1,
                    count: 1,
                    tensors: None,
                    gguf,
                });
            }
            (_, None) => {
                return Err(SplitError::NotSplit {
                    position,
                    key: COUNT_KEY,
                });
            }
            (None, _) => {
                return Err(SplitError::NotSplit {
                    position,
                    key: NUMBER_KEY,
                });
            }
            (Some(number), Some(count)) => (number.saturating_add(1), count),
        };
        if count > MAX_PARTS || !(1..=count).contains(&number) {
            return Err(SplitError::PartNumber {
                position,
                part: number,
                count,
            });
        }
        Ok(Part {
            number,
            count,
            tensors,
            gguf,
        })
    }
}

/// Every part is there once, and they agree on how many there are.
fn check_complete(parts: &[Part<'_>]) -> Result<(), SplitError> {
    let count = parts.first().ok_or(SplitError::Empty)?.count;
    for part in parts {
        if part.count != count {
            let (found, expected) = (part.count, count);
            return Err(SplitError::PartCount {
                part: part.number,
                found,
                expected,
            });
        }
    }
    for (part, expected) in parts.iter().zip(1..) {
        if part.number < expected {
            return Err(SplitError::DuplicatePart {
                part: part.number,
                count,
            });
        }
        if part.number > expected {
            return Err(SplitError::MissingPart {
                part: expected,
                count,
            });
        }
    }
    let given = parts.len() as u32;
    if given < count {
        return Err(SplitError::MissingPart {
            part: given + 1,
            count,
        });
    }
    Ok(())
}

/// What parts say twice they say alike. Gives the number of tensors that they promise, if they do.
fn check_same_model(parts: &[Part<'_>]) -> Result<Option<u64>, SplitError> {
    let Some((first, others)) = parts.split_first() else {
        return Err(SplitError::Empty);
    };
    let known = first.gguf.metadata();
    for part in others {
        for (key, value) in part.gguf.metadata().iter() {
            // The number differs by nature, and each file has its own layout.
            let own = key == NUMBER_KEY || key == ALIGNMENT_KEY;
            if !own && known.get(key).is_some_and(|first| first != value) {
                return Err(SplitError::Mixed {
                    part: part.number,
                    key: Name::new(key),
                });
            }
        }
    }
    Ok(parts.iter().find_map(|part| part.tensors))
}

fn join(parts: Vec<Part<'_>>, expected: Option<u64>) -> Result<GgufSet<'_>, SplitError> {
    let found: u64 = parts
        .iter()
        .map(|part| part.gguf.tensors().len() as u64)
        .sum();
    if found > MAX_TENSORS {
        return Err(SplitError::TooManyTensors { found });
    }
    if let Some(expected) = expected.filter(|&expected| expected != found) {
        return Err(SplitError::TensorCount { found, expected });
    }
    let mut set = GgufSet {
        parts: parts.len() as u32,
        metadata: Metadata::default(),
        tensors: Vec::with_capacity(found as usize),
        by_name: Vec::new(),
    };
    let mut ends = Vec::with_capacity(parts.len());
    for part in parts {
        let (metadata, tensors) = part.gguf.into_parts();
        if part.number == 1 {
            set.metadata = metadata;
        }
        set.tensors.extend(tensors);
        ends.push(set.tensors.len());
    }
    match index_by_name(&set.tensors, |tensor| tensor.name) {
        Ok(by_name) => set.by_name = by_name,
        Err(position) => {
            let part = ends.partition_point(|&end| end <= position) as u32 + 1;
            let tensor = set.tensors.get(position).map_or("", |tensor| tensor.name);
            return Err(SplitError::DuplicateTensor {
                part,
                tensor: Name::new(tensor),
            });
        }
    }
    Ok(set)
}
