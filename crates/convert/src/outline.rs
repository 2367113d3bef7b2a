//! What a plan will write, before it is written: so that a loader can refuse it while refusing costs nothing.

use std::vec::Vec;

use strata_host::MappedFile;
use strata_platform::Inline;
use strata_weights::gguf::Dims;
use strata_weights::{Gguf, GgufSet, Tensor};

use crate::error::ConvertError;
use crate::folder_error::FolderError;
use crate::plan::Plan;
use crate::write::WriteFailure;

/// Tensors that are longer are not made: nobody looks at a matrix's values before it is loaded.
const LONGEST_MADE: u64 = 1 << 20;

/// A plan's file with its short tensors as they will be, and zeros for the others.
pub struct Outline<'p> {
    plan: &'p Plan<'p, 'p>,
    /// One for each tensor; `None` for those that are zeros.
    made: Vec<Option<Vec<u8>>>,
    /// As long as the longest of the others: a file without blocks on the disk.
    zeros: MappedFile,
}

impl<'p> Outline<'p> {
    /// Makes the short tensors.
    pub fn new(plan: &'p Plan<'p, 'p>) -> Result<Self, FolderError> {
        let mut made = Vec::with_capacity(plan.tensors().len());
        let mut longest = 1;
        for (tensor, extent) in plan.tensors().iter().zip(&plan.layout().tensors) {
            if extent.len > LONGEST_MADE {
                longest = longest.max(extent.len);
                made.push(None);
                continue;
            }
            let mut bytes = Vec::with_capacity(extent.len as usize);
            let written = plan.write(tensor, &Inline, &mut |rows| {
                bytes.extend_from_slice(rows);
                Ok::<(), core::convert::Infallible>(())
            });
            written.map_err(|failure| match failure {
                WriteFailure::Convert(error) => FolderError::Convert(error),
                WriteFailure::Sink(never) => match never {},
            })?;
            made.push(Some(bytes));
        }
        Ok(Self {
            plan,
            made,
            zeros: zeros(longest)?,
        })
    }

    /// The model, as if it had been written.
    pub fn parse(&self) -> Result<GgufSet<'_>, FolderError> {
        let metadata = Gguf::parse(self.plan.metadata())?;
        let planned = self.plan.tensors().iter();
        let extents = self.plan.layout().tensors.iter().zip(&self.made);
        let tensors = planned.zip(extents).map(|(tensor, (extent, made))| {
            let zeros = || self.zeros.bytes().get(..extent.len as usize);
            let data = made.as_deref().or_else(zeros);
            Ok(Tensor {
                name: &tensor.name,
                ty: tensor.ty,
                dims: Dims::new(&tensor.dims).map_err(|_| ConvertError::NoTensors)?,
                offset: 0,
                data: data.unwrap_or_default(),
            })
        });
        let tensors = tensors.collect::<Result<_, ConvertError>>()?;
        Ok(GgufSet::assemble(metadata, tensors)?)
    }
}

fn zeros(length: u64) -> Result<MappedFile, FolderError> {
    let io = |source| FolderError::Io {
        path: std::env::temp_dir(),
        source,
    };
    let file = tempfile::NamedTempFile::new().map_err(io)?;
    file.as_file().set_len(length).map_err(io)?;
    MappedFile::open(file.path()).map_err(io)
}
