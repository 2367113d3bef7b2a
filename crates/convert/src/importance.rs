//! How much each column of each matrix counts: importance matrices, in the two formats that llama.cpp has written.
//!
//! The GGUF format has for each matrix `NAME.in_sum2`, the sums of squared inputs of each column (for each expert), and
//! `NAME.counts`, how many inputs there were. The older one is a list of names and values without any header.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use strata_quant::{GgmlType, dequantize};
use strata_weights::gguf::{Builder, Layout, Name, WriteError};
use strata_weights::{Gguf, GgufError, Tensor, Value};

const SUMS: &str = ".in_sum2";
const COUNTS: &str = ".counts";
/// The most bytes of a name in the older format.
const MAX_NAME: usize = 1024;

/// Why an importance matrix cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum ImportanceError {
    #[error(transparent)]
    Gguf(#[from] GgufError),
    #[error("the file is a GGUF, but not of an importance matrix: general.type is not imatrix")]
    NotImportance,
    #[error("the tensor {tensor} has no counts of as many experts beside it")]
    Counts { tensor: Name },
    #[error("the tensor {tensor} is not of floats")]
    NotFloats { tensor: Name },
    #[error("the values of {tensor} are not all finite numbers of at least zero")]
    Values { tensor: Name },
    #[error("{tensor} is there twice")]
    Duplicate { tensor: Name },
    #[error("the file ends or makes no sense at byte {offset}")]
    Damaged { offset: usize },
    #[error("the file is empty")]
    Empty,
}

/// The importance of the columns of a model's matrices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Importance {
    columns: BTreeMap<String, Vec<f32>>,
    /// The texts that it was made from.
    pub datasets: Vec<String>,
    /// How many chunks of text there were; 0 where that is not known.
    pub chunks: u32,
}

impl Importance {
    /// Reads either format.
    pub fn parse(bytes: &[u8]) -> Result<Importance, ImportanceError> {
        let found = if bytes.starts_with(b"GGUF") {
            from_gguf(bytes)?
        } else {
            from_list(bytes)?
        };
        if found.columns.is_empty() {
            return Err(ImportanceError::Empty);
        }
        Ok(found)
    }

    /// The importance of a tensor's columns, for all experts one after the other.
    pub fn get(&self, tensor: &str) -> Option<&[f32]> {
        self.columns.get(tensor).map(Vec::as_slice)
    }

    /// How many matrices it knows.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Whether it knows none.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// The names of the matrices that it knows.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.keys().map(String::as_str)
    }

    fn insert(&mut self, name: &str, values: Vec<f32>) -> Result<(), ImportanceError> {
        let sensible = values.iter().all(|value| (0.0..=f32::MAX).contains(value));
        if !sensible {
            let tensor = Name::new(name);
            return Err(ImportanceError::Values { tensor });
        }
        match self.columns.insert(name.to_string(), values) {
            None => Ok(()),
            Some(_) => Err(ImportanceError::Duplicate {
                tensor: Name::new(name),
            }),
        }
    }
}

/// The sums of one matrix.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColumnSums {
    /// Of squared inputs: each expert's columns, one expert after the other.
    pub squares: Vec<f32>,
    /// The inputs that each expert saw; one number where there are no experts.
    pub counts: Vec<u64>,
}

/// What an importance matrix is made of.
#[derive(Clone, Debug, Default)]
pub struct ImportanceSums {
    /// By the tensors' names.
    pub tensors: BTreeMap<String, ColumnSums>,
    /// The texts.
    pub datasets: Vec<String>,
    /// How many chunks of text were read.
    pub chunks: u32,
    /// Tokens of a chunk.
    pub chunk_size: u32,
}

impl ImportanceSums {
    /// The file as GGUF: its layout, and the values of its tensors in order.
    pub fn layout(&self) -> Result<(Layout, Vec<f32>), WriteError> {
        let mut builder = Builder::new();
        builder.set("general.type", "imatrix")?;
        builder.set_array("imatrix.datasets", &self.datasets)?;
        builder.set("imatrix.chunk_count", self.chunks)?;
        builder.set("imatrix.chunk_size", self.chunk_size)?;
        for (name, sums) in &self.tensors {
            let experts = sums.counts.len() as u64;
            let columns = (sums.squares.len() as u64).checked_div(experts);
            let columns = columns.unwrap_or(0);
            let dims = [columns, experts];
            builder.tensor(&(name.clone() + SUMS), GgmlType::F32, &dims)?;
            builder.tensor(&(name.clone() + COUNTS), GgmlType::F32, &[1, experts])?;
        }
        let mut values = Vec::new();
        for sums in self.tensors.values() {
            values.extend_from_slice(&sums.squares);
            values.extend(sums.counts.iter().map(|&count| count as f32));
        }
        Ok((builder.finish()?, values))
    }

    /// The whole file.
    pub fn file(&self) -> Result<Vec<u8>, WriteError> {
        let (layout, values) = self.layout()?;
        let mut file = layout.header;
        let mut values = values.iter();
        for extent in &layout.tensors {
            let end = file.len() + extent.padded_len as usize;
            for value in values.by_ref().take((extent.len / 4) as usize) {
                file.extend_from_slice(&value.to_le_bytes());
            }
            file.resize(end, 0);
        }
        Ok(file)
    }
}

fn floats(tensor: &Tensor<'_>) -> Result<Vec<f32>, ImportanceError> {
    let refused = || ImportanceError::NotFloats {
        tensor: Name::new(tensor.name),
    };
    if !matches!(
        tensor.ty,
        GgmlType::F32 | GgmlType::F16 | GgmlType::BF16 | GgmlType::F64
    ) {
        return Err(refused());
    }
    let len = tensor.data.len() / tensor.ty.block_bytes();
    let mut values = vec![0.0; len];
    dequantize(tensor.ty, tensor.data, &mut values).map_err(|_| refused())?;
    Ok(values)
}

fn from_gguf(bytes: &[u8]) -> Result<Importance, ImportanceError> {
    let file = Gguf::parse(bytes)?;
    let metadata = file.metadata();
    if metadata.str("general.type")? != Some("imatrix") {
        return Err(ImportanceError::NotImportance);
    }
    let mut found = Importance {
        chunks: metadata.u32("imatrix.chunk_count")?.unwrap_or(0),
        ..Importance::default()
    };
    if let Some(Value::Array(list)) = metadata.get("imatrix.datasets") {
        let texts = list.iter();
        found.datasets = texts
            .filter_map(|text| Some(text.as_str()?.to_string()))
            .collect();
    }
    for tensor in file.tensors() {
        let Some(name) = tensor.name.strip_suffix(SUMS) else {
            continue;
        };
        let wrong = || ImportanceError::Counts {
            tensor: Name::new(tensor.name),
        };
        let counts = file
            .tensor(&(name.to_string() + COUNTS))
            .ok_or_else(wrong)?;
        let (mut values, counts) = (floats(tensor)?, floats(counts)?);
        let columns = tensor.dims.first().map_or(0, |&n| n as usize);
        if columns == 0 || values.len() / columns != counts.len() {
            return Err(wrong());
        }
        for (expert, count) in values.chunks_exact_mut(columns).zip(counts) {
            for value in expert {
                // An expert that no text has reached: all of its columns count alike.
                *value = if count > 0.0 { *value / count } else { 1.0 };
            }
        }
        found.insert(name, values)?;
    }
    Ok(found)
}

/// A reader of the older format.
struct List<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> List<'a> {
    fn damaged(&self) -> ImportanceError {
        ImportanceError::Damaged {
            offset: self.offset,
        }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], ImportanceError> {
        let end = self.offset.checked_add(len).ok_or_else(|| self.damaged())?;
        let bytes = self.bytes.get(self.offset..end);
        let bytes = bytes.ok_or_else(|| self.damaged())?;
        self.offset = end;
        Ok(bytes)
    }

    /// A number of things, which is never negative.
    fn count(&mut self) -> Result<usize, ImportanceError> {
        let damaged = self.damaged();
        let bytes = self.take(4)?.first_chunk().copied().unwrap_or_default();
        usize::try_from(i32::from_le_bytes(bytes)).map_err(|_| damaged)
    }

    fn text(&mut self) -> Result<&'a str, ImportanceError> {
        let damaged = self.damaged();
        let len = self.count()?;
        if len > MAX_NAME {
            return Err(damaged);
        }
        core::str::from_utf8(self.take(len)?).map_err(|_| damaged)
    }
}

fn from_list(bytes: &[u8]) -> Result<Importance, ImportanceError> {
    let mut list = List { bytes, offset: 0 };
    let mut found = Importance::default();
    for _ in 0..list.count()? {
        let name = list.text()?;
        let calls = list.count()?.max(1) as f32;
        let values = list.count()?;
        let len = values.checked_mul(4).ok_or_else(|| list.damaged())?;
        let (values, _) = list.take(len)?.as_chunks();
        let values = values
            .iter()
            .map(|&bytes| f32::from_le_bytes(bytes) / calls);
        found.insert(name, values.collect())?;
    }
    // Later versions end with the number of chunks and the text's name.
    if list.offset < bytes.len() {
        found.chunks = list.count()? as u32;
        found.datasets.push(list.text()?.to_string());
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
