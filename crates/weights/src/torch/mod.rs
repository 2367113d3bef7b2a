//! PyTorch checkpoints (`.bin`, `.pt`, `.pth`): a zip archive with a pickle that describes tensors, and their storages.
//!
//! The pickle is read as data by an interpreter of its own ([`pickle`](self)) that can call nothing.

mod error;
mod pickle;
mod zip;

use alloc::borrow::Cow;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

pub use error::{PickleError, TensorFault, TorchError, ZipError};
pub(crate) use zip::inflate;

use crate::checkpoint_tensor::{CheckpointTensor, MAX_DIMS, Payload};
use crate::gguf::Name;
use pickle::{Pickled, TensorView, Value};
use zip::Entry;

/// The most bytes of a pickle that is compressed. PyTorch stores it as it is.
const MAX_INFLATED_PICKLE: u64 = 16 << 20;
/// What a compressed storage may take beyond the file's own length.
const INFLATED_ROOM: u64 = 32 << 20;

/// How files from before 1.6 begin: a pickle of PyTorch's magic number.
const LEGACY: &[u8] = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.";

/// Maps in which trainers keep a model's tensors.
const NESTED: &[&str] = &["state_dict", "model", "module", "model_state_dict"];

/// Reads a file's directory: its tensors in the pickle's order. Nothing in the pickle is run.
pub fn parse(file: &[u8]) -> Result<Vec<CheckpointTensor<'_>>, TorchError> {
    if file.starts_with(LEGACY) {
        return Err(TorchError::Legacy);
    }
    let entries = zip::entries(file)?;
    let mut pickles = entries
        .iter()
        .filter(|(name, _)| name.ends_with("/data.pkl"));
    let (name, pickle) = match (pickles.next(), pickles.next()) {
        (Some(only), None) => only,
        (None, _) => return Err(TorchError::NoPickle),
        (Some(_), Some(_)) => return Err(TorchError::TwoPickles),
    };
    let folder = name.strip_suffix("data.pkl").unwrap_or("");
    let within = |rest: &str| entries.get([folder, rest].concat().as_str());
    if within("constants.pkl").is_some() {
        return Err(TorchError::Program);
    }
    let little = |entry: &Entry<'_>| {
        if entry.deflated {
            entry.len == 6
                && inflate(entry.bytes, 6, entry.crc).is_some_and(|bytes| bytes == b"little")
        } else {
            entry.bytes == b"little"
        }
    };
    if within("byteorder").is_some_and(|entry| !little(entry)) {
        return Err(TorchError::BigEndian);
    }
    let storages = storages(&entries, folder);
    let read = storages.iter().chain([(name, pickle)]);
    if let Some((damaged, _)) = read.into_iter().find(|(_, entry)| !entry.is_sound()) {
        let entry = Name::new(damaged);
        return Err(ZipError::Checksum { entry }.into());
    }
    if !pickle.deflated {
        return tensors(file, &pickle::read(pickle.bytes)?, &storages, Cow::Borrowed);
    }
    let damaged = || ZipError::Inflate {
        entry: Name::new(name),
    };
    let inflated = Some(pickle.len)
        .filter(|&len| len <= MAX_INFLATED_PICKLE)
        .and_then(|len| inflate(pickle.bytes, len as usize, pickle.crc))
        .ok_or_else(damaged)?;
    tensors(file, &pickle::read(&inflated)?, &storages, |name| {
        Cow::Owned(name.into())
    })
}

/// The storages by key.
fn storages<'a>(
    entries: &BTreeMap<&'a str, Entry<'a>>,
    folder: &str,
) -> BTreeMap<&'a str, Entry<'a>> {
    let data = [folder, "data/"].concat();
    entries
        .iter()
        .filter_map(|(name, entry)| Some((name.strip_prefix(data.as_str())?, *entry)))
        .collect()
}

/// The tensors of the map that a pickle holds. `own` makes names outlive the pickle.
fn tensors<'a, 'p>(
    file: &'a [u8],
    pickled: &Pickled<'p>,
    storages: &BTreeMap<&'a str, Entry<'a>>,
    own: impl Fn(&'p str) -> Cow<'a, str>,
) -> Result<Vec<CheckpointTensor<'a>>, TorchError> {
    let mut tensors = Vec::new();
    let mut names = BTreeSet::new();
    for &(key, value) in state(pickled).ok_or(TorchError::NoTensors)? {
        let (Value::Text(name), Some(view)) = (key, pickled.tensor(value)) else {
            continue;
        };
        if !names.insert(name) {
            return Err(TorchError::DuplicateTensor {
                tensor: Name::new(name),
            });
        }
        let entry = storages.get(view.storage.key);
        tensors.push(tensor(file, own(name), view, entry)?);
    }
    Ok(tensors)
}

/// The pairs with tensors: the root's, or those of a map that it holds under a usual name.
fn state<'m, 'p>(pickled: &'m Pickled<'p>) -> Option<&'m [(Value<'p>, Value<'p>)]> {
    let has_tensors = |pairs: &&[(Value<'p>, Value<'p>)]| {
        let mut values = pairs.iter().map(|pair| pair.1);
        values.any(|value| pickled.tensor(value).is_some())
    };
    let root = pickled.map(pickled.root)?;
    let nested = NESTED.iter().flat_map(|name| {
        let named = root.iter().filter(|pair| pair.0 == Value::Text(name));
        named.filter_map(|pair| pickled.map(pair.1))
    });
    core::iter::once(root).chain(nested).find(has_tensors)
}

/// A tensor whose elements are known to lie in its storage.
fn tensor<'a>(
    file: &'a [u8],
    name: Cow<'a, str>,
    view: &TensorView<'_>,
    entry: Option<&Entry<'a>>,
) -> Result<CheckpointTensor<'a>, TorchError> {
    let storage = view.storage;
    let size = storage.dtype.size() as u64;
    let missing = || PickleError::Storage {
        key: Name::new(storage.key),
    };
    let elements = u64::try_from(storage.elements).ok();
    let bytes = elements.and_then(|elements| elements.checked_mul(size));
    let entry = entry
        .filter(|entry| bytes == Some(entry.len))
        .ok_or_else(missing)?;
    let elements = entry.len / size;
    if entry.deflated && entry.len > file.len() as u64 + INFLATED_ROOM {
        return Err(ZipError::Ratio {
            entry: Name::new(storage.key),
            len: entry.len,
            compressed: entry.bytes.len() as u64,
        }
        .into());
    }
    let extent = extent(view, elements).map_err(|fault| TorchError::Tensor {
        tensor: Name::new(&name),
        fault,
    })?;
    // Both fit: they are bounded by the storage, which is in memory or will be.
    let (start, len) = (
        (extent.offset * size) as usize,
        (extent.reach * size) as usize,
    );
    let payload = if entry.deflated {
        Payload::Deflated {
            bytes: entry.bytes,
            len: entry.len as usize,
            crc: entry.crc,
            offset: start,
        }
    } else {
        let bytes = start
            .checked_add(len)
            .and_then(|end| entry.bytes.get(start..end));
        Payload::Plain(bytes.ok_or_else(missing)?)
    };
    Ok(CheckpointTensor {
        name,
        dtype: storage.dtype,
        shape: extent.shape,
        strides: extent.strides,
        payload,
    })
}

/// Where a tensor lies in its storage, in elements.
struct Extent {
    offset: u64,
    /// From the first element to behind the last.
    reach: u64,
    shape: Vec<u64>,
    /// `None` where the elements are side by side.
    strides: Option<Vec<u64>>,
}

fn extent(view: &TensorView<'_>, elements: u64) -> Result<Extent, TensorFault> {
    if view.shape.len() != view.strides.len() || view.shape.len() > MAX_DIMS {
        return Err(TensorFault::DimCount);
    }
    let unsigned = |numbers: &[i64]| {
        let numbers = numbers.iter().map(|&n| u64::try_from(n));
        numbers
            .collect::<Result<Vec<u64>, _>>()
            .map_err(|_| TensorFault::Negative)
    };
    let (shape, strides) = (unsigned(&view.shape)?, unsigned(&view.strides)?);
    let offset = u64::try_from(view.offset).map_err(|_| TensorFault::Negative)?;
    let count = shape.iter().try_fold(1u64, |n, &dim| n.checked_mul(dim));
    let count = count.ok_or(TensorFault::Overflow)?;
    if count > elements {
        return Err(TensorFault::Repeated);
    }
    let mut reach = 0;
    if count > 0 {
        let mut steps = shape.iter().zip(&strides);
        let last = steps.try_fold(0u64, |last, (&dim, &stride)| {
            last.checked_add((dim - 1).checked_mul(stride)?)
        });
        reach = last
            .and_then(|last| last.checked_add(1))
            .ok_or(TensorFault::Overflow)?;
    }
    let end = offset.checked_add(reach).ok_or(TensorFault::Overflow)?;
    if end > elements {
        return Err(TensorFault::OutsideStorage { elements });
    }
    let mut expected = 1;
    let mut contiguous = true;
    for (&dim, &stride) in shape.iter().zip(&strides).rev() {
        // The stride of a dimension of one is never used.
        contiguous &= dim <= 1 || stride == expected;
        expected *= dim.max(1);
    }
    Ok(Extent {
        offset,
        reach,
        shape,
        strides: (!contiguous && count > 0).then_some(strides),
    })
}
