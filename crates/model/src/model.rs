//! A loaded model: its parts, and where each matrix is.

use crate::blueprint::{Blueprint, LoadOptions, Parts, Placement};
use crate::config::Config;
use crate::error::{BatchError, LoadError};
use crate::matrix::{Home, Matrix};
use crate::tensors::NamedMatrices;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use strata_kernels::{Panels, Rows, Weights};
use strata_platform::{Backing, Memory, Pool, Region, Resident};
use strata_quant::GgmlType;
use strata_weights::GgufSet;

/// A model, ready to run.
pub struct Model {
    pub(crate) parts: Parts,
    packed: Box<dyn Region>,
    /// By the matrices' numbers.
    homes: Vec<Home>,
    backing: Arc<dyn Backing>,
}

impl Model {
    /// Checks a file and packs all of it into memory; the file is not needed any more. [`Blueprint`] has the choices.
    pub fn load(
        file: &GgufSet<'_>,
        options: LoadOptions,
        memory: &dyn Memory,
        pool: &dyn Pool,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Self, LoadError> {
        let nothing = Arc::new(Resident(&[]));
        Blueprint::new(file, options)?.build(Placement::Packed, memory, nothing, pool, progress)
    }

    pub(crate) fn new(
        parts: Parts,
        packed: Box<dyn Region>,
        homes: Vec<Home>,
        backing: Arc<dyn Backing>,
    ) -> Self {
        Self {
            parts,
            packed,
            homes,
            backing,
        }
    }

    /// The bytes of a matrix that stays in its file.
    fn file_bytes(&self, home: &Home) -> Option<&[u8]> {
        match home {
            Home::Packed(_) => None,
            Home::File { part, range } => {
                let part = self.backing.part(*part);
                Some(&part.expect("it was there when the model was loaded")[range.clone()])
            }
        }
    }

    /// The tensors that hold its matrices.
    pub(crate) fn tensors(&self) -> &[NamedMatrices] {
        &self.parts.names
    }

    /// A number for the names and shapes of all matrices.
    pub(crate) fn signature(&self) -> u64 {
        self.parts.signature
    }

    /// Its sizes and scales.
    pub fn config(&self) -> &Config {
        &self.parts.config
    }

    /// Bytes of the matrices that are in memory.
    pub fn packed_bytes(&self) -> usize {
        self.packed.len()
    }

    /// The memory that they are in.
    pub fn packed(&self) -> &[u8] {
        &self.packed
    }

    /// Bytes that are read from the file for each batch.
    pub fn streamed_bytes(&self) -> usize {
        let streamed = |home: &Home| match home {
            Home::Packed(_) => 0,
            Home::File { range, .. } => range.len(),
        };
        self.homes.iter().map(streamed).sum()
    }

    /// A matrix's weights.
    pub(crate) fn weights(&self, matrix: &Matrix) -> Weights<'_> {
        let Matrix {
            ty, rows, columns, ..
        } = *matrix;
        let home = &self.homes[matrix.id];
        if let Some(bytes) = self.file_bytes(home) {
            return Weights::Rows(Rows::new(ty, rows, columns, bytes));
        }
        let Home::Packed(offset) = *home else {
            unreachable!("what is not in the file is packed")
        };
        let bytes = strata_kernels::packed_bytes(ty, rows, columns);
        let bytes = &self.packed[offset..][..bytes];
        Weights::Packed(Panels::new(ty, rows, columns, bytes))
    }

    /// A matrix is about to be used: the file's next one is fetched meanwhile.
    pub(crate) fn before(&self, matrix: &Matrix) {
        if let Home::File { .. } = self.homes[matrix.id] {
            let (before, after) = self.homes.split_at(matrix.id + 1);
            let mut others = after.iter().chain(before);
            let next = others.find_map(|home| self.file_bytes(home));
            if let Some(bytes) = next {
                self.backing.will_need(bytes);
            }
        }
    }

    /// A matrix has been used.
    pub(crate) fn after(&self, matrix: &Matrix) {
        if let Some(bytes) = self.file_bytes(&self.homes[matrix.id]) {
            self.backing.done_with(bytes);
        }
    }

    /// Refuses what was computed of weights that are not in the file any more.
    pub fn check_file(&self) -> Result<(), BatchError> {
        if self.backing.is_intact() {
            Ok(())
        } else {
            Err(BatchError::Damaged)
        }
    }

    /// A row of the matrix of a number as it is stored, and the type of its bytes; `None` if there is no such row.
    pub fn matrix_row(&self, matrix: usize, row: usize) -> Option<(GgmlType, Vec<u8>)> {
        let mut tensors = self.parts.names.iter();
        let named = tensors.find(|named| {
            let first = named.matrix.id;
            (first..first + named.matrices).contains(&matrix)
        })?;
        let matrix = Matrix {
            id: matrix,
            ..named.matrix
        };
        if row >= matrix.rows {
            return None;
        }
        let mut bytes = vec![0; matrix.row_bytes()];
        match self.weights(&matrix) {
            Weights::Packed(panels) => panels.read_row(row, &mut bytes),
            Weights::Rows(_) => {
                let file = self.file_bytes(&self.homes[matrix.id])?;
                let len = bytes.len();
                bytes.copy_from_slice(&file[row * len..][..len]);
            }
        }
        Some((matrix.ty, bytes))
    }

    /// A token's row of the embedding, through `bytes`, which is as long as a row in the file.
    pub(crate) fn embedding(&self, token: u32, bytes: &mut [u8], out: &mut [f32]) {
        self.table_row(&self.parts.token_embd, token, bytes, out);
    }

    /// A token's row of a table.
    pub(crate) fn table_row(&self, matrix: &Matrix, token: u32, bytes: &mut [u8], out: &mut [f32]) {
        if let Some(file) = self.file_bytes(&self.homes[matrix.id]) {
            let row = bytes.len();
            bytes.copy_from_slice(&file[token as usize * row..][..row]);
        } else if let Weights::Packed(panels) = self.weights(matrix) {
            panels.read_row(token as usize, bytes);
        }
        strata_quant::dequantize(matrix.ty, bytes, out)
            .expect("the row's length was checked when the model was loaded");
    }
}
