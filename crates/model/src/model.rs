//! A loaded model: its parts, and where each matrix is.

use crate::blueprint::{Blueprint, LoadOptions, Parts, Placement};
use crate::config::Config;
use crate::error::LoadError;
use crate::matrix::{Home, Matrix};
use crate::tensors::NamedMatrices;
use alloc::boxed::Box;
use alloc::vec::Vec;
use strata_kernels::{Panels, Rows, Weights};
use strata_platform::{Backing, Memory, Pool, Region, Resident};
use strata_weights::GgufSet;

/// A model, ready to run.
pub struct Model<'f> {
    pub(crate) parts: Parts,
    packed: Box<dyn Region>,
    /// By the matrices' numbers.
    homes: Vec<Home<'f>>,
    backing: &'f dyn Backing,
}

impl Model<'static> {
    /// Checks a file and packs all of it into memory; the file is not needed any more. [`Blueprint`] has the choices.
    pub fn load(
        file: &GgufSet<'_>,
        options: LoadOptions,
        memory: &dyn Memory,
        pool: &dyn Pool,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Self, LoadError> {
        let blueprint = Blueprint::new(file, options)?;
        let model = blueprint.build(Placement::Packed, memory, &Resident, pool, progress)?;
        let homes = model.homes.iter().map(|home| match home {
            Home::Packed(offset) => Home::Packed(*offset),
            Home::File(_) => unreachable!("everything was to be packed"),
        });
        Ok(Self {
            homes: homes.collect(),
            parts: model.parts,
            packed: model.packed,
            backing: &Resident,
        })
    }
}

impl<'f> Model<'f> {
    pub(crate) fn new(
        parts: Parts,
        packed: Box<dyn Region>,
        homes: Vec<Home<'f>>,
        backing: &'f dyn Backing,
    ) -> Self {
        Self {
            parts,
            packed,
            homes,
            backing,
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
        let streamed = |home: &Home<'_>| match home {
            Home::Packed(_) => 0,
            Home::File(bytes) => bytes.len(),
        };
        self.homes.iter().map(streamed).sum()
    }

    /// A matrix's weights.
    pub(crate) fn weights(&self, matrix: &Matrix) -> Weights<'_> {
        let Matrix {
            ty, rows, columns, ..
        } = *matrix;
        match self.homes[matrix.id] {
            Home::Packed(offset) => {
                let bytes = strata_kernels::packed_bytes(ty, rows, columns);
                let bytes = &self.packed[offset..][..bytes];
                Weights::Packed(Panels::new(ty, rows, columns, bytes))
            }
            Home::File(bytes) => Weights::Rows(Rows::new(ty, rows, columns, bytes)),
        }
    }

    /// A matrix is about to be used: the file's next one is fetched meanwhile.
    pub(crate) fn before(&self, matrix: &Matrix) {
        if let Home::File(_) = self.homes[matrix.id] {
            let (before, after) = self.homes.split_at(matrix.id + 1);
            let next = after.iter().chain(before).find_map(|home| match home {
                Home::Packed(_) => None,
                Home::File(bytes) => Some(*bytes),
            });
            if let Some(bytes) = next {
                self.backing.will_need(bytes);
            }
        }
    }

    /// A matrix has been used.
    pub(crate) fn after(&self, matrix: &Matrix) {
        if let Home::File(bytes) = self.homes[matrix.id] {
            self.backing.done_with(bytes);
        }
    }

    /// A token's row of the embedding, through `bytes`, which is as long as a row in the file.
    pub(crate) fn embedding(&self, token: u32, bytes: &mut [u8], out: &mut [f32]) {
        let matrix = &self.parts.token_embd;
        match (self.weights(matrix), self.homes[matrix.id]) {
            (Weights::Packed(panels), _) => panels.read_row(token as usize, bytes),
            (Weights::Rows(_), Home::File(file)) => {
                let row = bytes.len();
                bytes.copy_from_slice(&file[token as usize * row..][..row]);
            }
            (Weights::Rows(_), Home::Packed(_)) => unreachable!("packed matrices have panels"),
        }
        strata_quant::dequantize(matrix.ty, bytes, out)
            .expect("the row's length was checked when the model was loaded");
    }
}
