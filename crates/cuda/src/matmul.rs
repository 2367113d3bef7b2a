//! Which kernel multiplies what. The sizes are those of `kernels/matmul.cu`.

use crate::args::{self, MatmulPart};
use crate::backend::{Address, Backend, DeviceFacts, Kernel, Shape};
use crate::error::DeviceError;
use crate::launch::launch;
use crate::weights::{ExpertMatrices, Matrix};
use std::collections::HashMap;
use strata_model::GgmlType;

/// Bytes of 256 quantized activations.
const UNIT: usize = 352;

/// Bytes of a quantized row.
pub(crate) fn act_bytes(columns: usize) -> usize {
    columns.div_ceil(256) * UNIT
}

/// Rows that matrices read: as floats and quantized.
#[derive(Copy, Clone)]
pub(crate) struct Input {
    pub(crate) floats: Address,
    /// Floats from a row to the next.
    pub(crate) stride: usize,
    pub(crate) acts: Address,
    pub(crate) tokens: usize,
    /// So many tokens in a row read the same.
    pub(crate) shared_by: usize,
}

/// Tokens × rows in one tile of a kernel for several tokens.
struct Tile {
    rows: usize,
    tokens: usize,
    threads: u32,
    stages: usize,
}

const TILES: [Tile; 3] = [
    Tile {
        rows: 32,
        tokens: 8,
        threads: 64,
        stages: 4,
    },
    Tile {
        rows: 64,
        tokens: 32,
        threads: 128,
        stages: 2,
    },
    Tile {
        rows: 128,
        tokens: 64,
        threads: 128,
        stages: 2,
    },
];

/// The kernels of one type.
#[derive(Copy, Clone)]
enum TypeKernels {
    Float(Kernel),
    Quantized { gemv: Kernel, gemm: [Kernel; 3] },
}

/// The kernels of the types that a model has.
pub(crate) struct Multiplier {
    kernels: HashMap<GgmlType, TypeKernels>,
    shared: usize,
    processors: usize,
    tensor_cores: bool,
}

impl Multiplier {
    pub(crate) fn new(facts: &DeviceFacts) -> Self {
        Self {
            kernels: HashMap::new(),
            shared: facts.shared as usize,
            processors: facts.processors as usize,
            tensor_cores: facts.has_tensor_cores(),
        }
    }

    /// Finds the kernels of a type.
    pub(crate) fn load(
        &mut self,
        backend: &mut dyn Backend,
        ty: GgmlType,
    ) -> Result<(), DeviceError> {
        if self.kernels.contains_key(&ty) {
            return Ok(());
        }
        let kernels = match ty {
            GgmlType::F32 => TypeKernels::Float(backend.kernel("float", "float_f32")?),
            GgmlType::F16 => TypeKernels::Float(backend.kernel("float", "float_f16")?),
            GgmlType::BF16 => TypeKernels::Float(backend.kernel("float", "float_bf16")?),
            _ => {
                let module = format!("matmul_{ty:?}");
                let mut find = |kind: &str| backend.kernel(&module, &format!("{kind}_{ty:?}"));
                TypeKernels::Quantized {
                    gemv: find("gemv")?,
                    gemm: [find("gemm_8")?, find("gemm_32")?, find("gemm_64")?],
                }
            }
        };
        self.kernels.insert(ty, kernels);
        Ok(())
    }

    /// Matrices over one input, each to its place in rows of `out_stride` floats.
    pub(crate) fn multiply(
        &self,
        backend: &dyn Backend,
        input: Input,
        matrices: &[(Matrix, Address)],
        out_stride: usize,
    ) -> Result<(), DeviceError> {
        // Those of one type that follow each other go together.
        for run in matrices.chunk_by(|(a, _), (b, _)| a.ty == b.ty) {
            for run in run.chunks(3) {
                self.run(backend, input, run, out_stride, None)?;
            }
        }
        Ok(())
    }

    /// Experts' matrices: `experts` says for each token which one.
    pub(crate) fn multiply_experts(
        &self,
        backend: &dyn Backend,
        input: Input,
        (matrices, out): (&ExpertMatrices, Address),
        out_stride: usize,
        experts: Address,
    ) -> Result<(), DeviceError> {
        let chosen = Some((experts, matrices.stride));
        let run = &[(matrices.first, out)];
        self.run(backend, input, run, out_stride, chosen)
    }

    fn run(
        &self,
        backend: &dyn Backend,
        input: Input,
        run: &[(Matrix, Address)],
        out_stride: usize,
        experts: Option<(Address, u64)>,
    ) -> Result<(), DeviceError> {
        let Matrix { ty, columns, .. } = run[0].0;
        let mut parts = [MatmulPart::default(); 3];
        for (part, (matrix, out)) in parts.iter_mut().zip(run) {
            *part = MatmulPart {
                w: matrix.at,
                out: *out,
                rows: matrix.rows as u32,
                panels: matrix.rows.div_ceil(16) as u32,
            };
        }
        let panels: usize = parts.iter().map(|part| part.panels as usize).sum();
        let (experts, expert_bytes) = experts.unwrap_or_default();
        let mut arguments = args::Matmul {
            parts,
            experts,
            expert_bytes,
            columns: columns as u32,
            tokens: input.tokens as u32,
            out_stride: out_stride as u32,
            x_shared_by: input.shared_by as u32,
            ..args::Matmul::default()
        };
        let tokens = input.tokens;
        match self.kernels[&ty] {
            TypeKernels::Float(kernel) => {
                arguments.x = input.floats;
                arguments.x_stride = 4 * input.stride as u32;
                let rows = if experts == 0 {
                    tokens.div_ceil(4)
                } else {
                    tokens
                };
                let shape = Shape {
                    grid: [panels as u32, rows as u32, 1],
                    threads: 256,
                    shared: (128 * 16 * ty.block_bytes() + 4 * 128 * 4) as u32,
                };
                launch(backend, kernel, shape, &arguments)
            }
            TypeKernels::Quantized { gemv, gemm } => {
                arguments.x = input.acts;
                arguments.x_stride = act_bytes(columns) as u32;
                let shared_input = input.shared_by > 1;
                if tokens > 1 && self.tensor_cores && experts == 0 && !shared_input {
                    let (tile, shared) = self.tile(ty, panels * 16, tokens);
                    let Tile {
                        rows,
                        tokens: wide,
                        threads,
                        ..
                    } = TILES[tile];
                    let grid = [(panels * 16).div_ceil(rows), tokens.div_ceil(wide), 1];
                    let shape = Shape {
                        grid: grid.map(|n| n as u32),
                        threads,
                        shared: shared as u32,
                    };
                    return launch(backend, gemm[tile], shape, &arguments);
                }
                let chain = chain_arrays(ty) * 2 * 8 * 144 * 4;
                let staged = chain + act_bytes(columns) <= self.shared;
                arguments.staged = staged.into();
                let shape = Shape {
                    grid: [panels as u32, tokens as u32, 1],
                    threads: 160,
                    shared: (chain + if staged { act_bytes(columns) } else { 0 }) as u32,
                };
                launch(backend, gemv, shape, &arguments)
            }
        }
    }

    /// The largest tile that fits and leaves no processor idle, and its shared memory.
    fn tile(&self, ty: GgmlType, rows: usize, tokens: usize) -> (usize, usize) {
        let mut best = (0, shared_bytes(ty, &TILES[0]));
        for (index, tile) in TILES.iter().enumerate().skip(1) {
            let blocks = rows.div_ceil(tile.rows) * tokens.div_ceil(tile.tokens);
            let shared = shared_bytes(ty, tile);
            let wide = tokens > TILES[index - 1].tokens;
            if wide && blocks >= self.processors && shared <= self.shared {
                best = (index, shared);
            }
        }
        best
    }
}

/// Which scales a type has: see `kernels/types.cuh`.
fn is_split(ty: GgmlType) -> bool {
    matches!(ty, GgmlType::Q2_K | GgmlType::Q3_K | GgmlType::Q6_K)
}

fn chain_arrays(ty: GgmlType) -> usize {
    match ty {
        GgmlType::Q2_K => 4,
        GgmlType::Q4_1 | GgmlType::Q5_1 | GgmlType::Q4_K | GgmlType::Q5_K => 3,
        _ => 2,
    }
}

fn shared_bytes(ty: GgmlType, tile: &Tile) -> usize {
    let unit = 16 * ty.block_bytes() * (256 / ty.block_len());
    let stage = tile.rows / 16 * unit + tile.tokens * (UNIT + 16);
    let pairs = usize::from(is_split(ty)) + usize::from(ty == GgmlType::Q2_K);
    tile.stages * stage + 8 * (tile.rows + tile.tokens) * 8 + pairs * 8 * tile.rows * 4
}

#[cfg(all(test, unix))]
#[path = "matmul_tests.rs"]
mod tests;
