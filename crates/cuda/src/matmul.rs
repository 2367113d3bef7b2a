//! Which kernel multiplies what. The sizes are those of `kernels/matmul.cu`.

use std::collections::HashMap;
use strata_gpu::args::{self, MatmulPart};
use strata_gpu::{
    Address, Backend, DeviceError, DeviceFacts, ExpertMatrices, Input, Kernel, Matrix, Shape, UNIT,
    act_bytes, launch,
};
use strata_model::GgmlType;

/// Shared memory of a block that is the driver's own.
const RESERVED: usize = 1024;

/// Tokens of a row of blocks in the kernel for a few, and how many of those rows are still faster than tiles, although each
/// reads all weights.
const FEW: usize = 8;
const FEW_ROWS: usize = 2;

/// Rows × tokens in one tile of a kernel for many tokens.
struct Tile {
    name: &'static str,
    rows: usize,
    tokens: usize,
    stages: usize,
}

/// Four warps each.
const TILE_THREADS: usize = 128;

const TILES: [Tile; 4] = [
    Tile {
        name: "gemm_32x32",
        rows: 32,
        tokens: 32,
        stages: 3,
    },
    Tile {
        name: "gemm_32x64",
        rows: 32,
        tokens: 64,
        stages: 3,
    },
    Tile {
        name: "gemm_64x64",
        rows: 64,
        tokens: 64,
        stages: 2,
    },
    Tile {
        name: "gemm_128x64",
        rows: 128,
        tokens: 64,
        stages: 2,
    },
];

/// Units in a round of `stream`, rounds that it has on their way at most, and blocks side by side.
const STREAM_ROUND: usize = 16;
const STREAM_DEPTH: usize = 8;
const STREAM_BESIDE: usize = 3;
const STREAM_THREADS: usize = (STREAM_ROUND / 2 + 1) * 32;

/// A kernel for matrices of two types, and where the second one's begin.
#[derive(Copy, Clone)]
struct Pair {
    kernel: Kernel,
    second: GgmlType,
    begins: usize,
}

/// What is multiplied.
#[derive(Copy, Clone)]
enum Work {
    Plain,
    Pair(Pair),
    /// Which expert each token takes, and the bytes from one to the next.
    Experts(Address, u64),
}

/// The kernels of one type.
#[derive(Copy, Clone)]
enum TypeKernels {
    Float(Kernel),
    Quantized {
        gemv: Kernel,
        stream: Kernel,
        few: Kernel,
        tiles: [Kernel; TILES.len()],
    },
}

/// The kernels of the types that a model has.
pub(crate) struct Multiplier {
    kernels: HashMap<GgmlType, TypeKernels>,
    /// Shared memory that a block may have, and that a processor has.
    shared: usize,
    shared_in_all: usize,
    processors: usize,
    tensor_cores: bool,
    /// Whether processors copy in bulk.
    bulk: bool,
    /// Kernels for matrices of two types, where they are.
    mixed: HashMap<(GgmlType, GgmlType), Kernel>,
}

/// Pairs of types that matrices with one input often have: see `kernels/mixed.cu`.
const MIXED: [(GgmlType, GgmlType); 4] = [
    (GgmlType::Q4_K, GgmlType::Q6_K),
    (GgmlType::Q5_K, GgmlType::Q6_K),
    (GgmlType::Q4_K, GgmlType::Q5_K),
    (GgmlType::Q3_K, GgmlType::Q5_K),
];

impl Multiplier {
    pub(crate) fn new(facts: &DeviceFacts) -> Self {
        Self {
            kernels: HashMap::new(),
            shared: facts.shared as usize,
            shared_in_all: facts.shared as usize + RESERVED,
            processors: facts.processors as usize,
            tensor_cores: facts.capability >= (8, 0),
            bulk: facts.capability >= (9, 0),
            mixed: HashMap::new(),
        }
    }

    /// Whether one kernel takes these matrices of two types: which, and where the second type begins.
    fn pair(&self, matrices: &[(Matrix, Address)]) -> Option<Pair> {
        let first = matrices.first()?.0.ty;
        let begins = matrices.iter().position(|(matrix, _)| matrix.ty != first)?;
        let second = matrices[begins].0.ty;
        let mut rest = matrices[begins..].iter();
        let known = matrices.len() <= 3 && rest.all(|(matrix, _)| matrix.ty == second);
        let kernel = *self.mixed.get(&(first, second)).filter(|_| known)?;
        Some(Pair {
            kernel,
            second,
            begins,
        })
    }

    fn run(
        &self,
        backend: &dyn Backend,
        input: Input,
        run: &[(Matrix, Address)],
        out_stride: usize,
        work: Work,
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
        let (experts, expert_bytes) = match work {
            Work::Experts(experts, bytes) => (experts, bytes),
            _ => (0, 0),
        };
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
            TypeKernels::Quantized {
                gemv,
                stream,
                few,
                tiles,
            } => {
                arguments.x = input.acts;
                arguments.x_stride = act_bytes(columns) as u32;
                if tokens > 1 && self.tensor_cores && experts == 0 && input.shared_by == 1 {
                    let (kernel, [x, y], threads, shared) = if tokens <= FEW_ROWS * FEW {
                        let grid = [panels, tokens.div_ceil(FEW)];
                        (few, grid, FEW_THREADS, few_shared_bytes(ty))
                    } else {
                        let which = self.tile(ty, panels * 16, tokens);
                        let tile = &TILES[which];
                        let grid = [
                            (panels * 16).div_ceil(tile.rows),
                            tokens.div_ceil(tile.tokens),
                        ];
                        (tiles[which], grid, TILE_THREADS, shared_bytes(ty, tile))
                    };
                    let shape = Shape {
                        grid: [x as u32, y as u32, 1],
                        threads: threads as u32,
                        shared: shared as u32,
                    };
                    return launch(backend, kernel, shape, &arguments);
                }
                let (kernel, second) = match work {
                    Work::Pair(pair) => {
                        arguments.second = pair.begins as u32;
                        (pair.kernel, pair.second)
                    }
                    _ => (stream, ty),
                };
                let streamed = self.stream([ty, second], panels * tokens, columns);
                if let Some((depth, shared)) = streamed.filter(|_| self.bulk) {
                    arguments.depth = depth as u32;
                    let shape = Shape {
                        grid: [panels as u32, tokens as u32, 1],
                        threads: STREAM_THREADS as u32,
                        shared: shared as u32,
                    };
                    return launch(backend, kernel, shape, &arguments);
                }
                let chain = chain_bytes(ty);
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

    /// How many rounds a block of `stream` has on their way, and its shared memory: as many blocks side by side as there are
    /// and still two rounds each.
    fn stream(
        &self,
        types: [GgmlType; 2],
        blocks: usize,
        columns: usize,
    ) -> Option<(usize, usize)> {
        let rounds = columns.div_ceil(256).div_ceil(STREAM_ROUND);
        let bytes = |depth: usize| {
            let of = |ty| {
                let slot = (unit_bytes(ty) + 63) / 128 * 128 + 64;
                // Two rounds in the chain, unless there is only one.
                rounds.min(2) * chain_bytes(ty) + depth * STREAM_ROUND * slot
            };
            let largest = types.into_iter().map(of).max().unwrap_or(0);
            STREAM_ROUND / 2 * 8 * STREAM_DEPTH + largest + act_bytes(columns)
        };
        let most = blocks.div_ceil(self.processors).clamp(1, STREAM_BESIDE);
        (1..=most).rev().find_map(|beside| {
            let room = (self.shared_in_all / beside - RESERVED).min(self.shared);
            let fewest = if beside == 1 { 1 } else { rounds.min(2) };
            let depth = (fewest..=rounds.min(STREAM_DEPTH)).rev();
            let depth = depth.into_iter().find(|&depth| bytes(depth) <= room)?;
            Some((depth, bytes(depth)))
        })
    }

    /// The tile that takes the least time, as far as can be told: what a group of 32 columns costs a warp, whose results
    /// wait for each other, in blocks side by side on a processor, as often as these are filled.
    fn tile(&self, ty: GgmlType, rows: usize, tokens: usize) -> usize {
        let time = |tile: &Tile| {
            let blocks = rows.div_ceil(tile.rows) * tokens.div_ceil(tile.tokens);
            let room = self.shared_in_all / (shared_bytes(ty, tile) + RESERVED);
            let beside = blocks.div_ceil(self.processors).min(room).max(1);
            let work = 6 * tile.rows * tile.tokens / TILE_THREADS + 40;
            blocks.div_ceil(self.processors * beside) * (work + 150).max(beside * work)
        };
        let fits = |tile: &Tile| shared_bytes(ty, tile) <= self.shared;
        let all = TILES.iter().enumerate().filter(|(_, tile)| fits(tile));
        all.min_by_key(|(_, tile)| time(tile))
            .map_or(0, |(index, _)| index)
    }
}

impl strata_gpu::Multiplier for Multiplier {
    fn load(&mut self, backend: &mut dyn Backend, ty: GgmlType) -> Result<(), DeviceError> {
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
                let [first, second, third, fourth] = TILES.each_ref().map(|tile| find(tile.name));
                TypeKernels::Quantized {
                    tiles: [first?, second?, third?, fourth?],
                    gemv: find("gemv")?,
                    stream: find("stream")?,
                    few: find("few")?,
                }
            }
        };
        self.kernels.insert(ty, kernels);
        for pair in MIXED.into_iter().filter(|_| self.bulk) {
            let (first, second) = pair;
            if self.kernels.contains_key(&first) && self.kernels.contains_key(&second) {
                let name = format!("stream_{first:?}_{second:?}");
                self.mixed.insert(pair, backend.kernel("mixed", &name)?);
            }
        }
        Ok(())
    }

    fn multiply(
        &self,
        backend: &dyn Backend,
        input: Input,
        matrices: &[(Matrix, Address)],
        out_stride: usize,
    ) -> Result<(), DeviceError> {
        if let Some(pair) = self.pair(matrices).filter(|_| input.tokens == 1) {
            return self.run(backend, input, matrices, out_stride, Work::Pair(pair));
        }
        // Those of one type that follow each other go together.
        for run in matrices.chunk_by(|(a, _), (b, _)| a.ty == b.ty) {
            for run in run.chunks(3) {
                self.run(backend, input, run, out_stride, Work::Plain)?;
            }
        }
        Ok(())
    }

    fn multiply_experts(
        &self,
        backend: &dyn Backend,
        input: Input,
        (matrices, out): (&ExpertMatrices, Address),
        out_stride: usize,
        experts: Address,
    ) -> Result<(), DeviceError> {
        let chosen = Work::Experts(experts, matrices.stride);
        let run = &[(matrices.first, out)];
        self.run(backend, input, run, out_stride, chosen)
    }
}

/// Which scales a type has: see `kernels/types.cuh`.
fn is_split(ty: GgmlType) -> bool {
    matches!(ty, GgmlType::Q2_K | GgmlType::Q3_K | GgmlType::Q6_K)
}

/// Bytes between the producers of a row's sums and its chain: two rounds of eight units.
fn chain_bytes(ty: GgmlType) -> usize {
    let arrays = match ty {
        GgmlType::Q2_K => 4,
        GgmlType::Q4_1 | GgmlType::Q5_1 | GgmlType::Q4_K | GgmlType::Q5_K => 3,
        _ => 2,
    };
    arrays * 2 * 8 * 144 * 4
}

/// Bytes of a unit of 256 columns of a panel.
fn unit_bytes(ty: GgmlType) -> usize {
    16 * ty.block_bytes() * (256 / ty.block_len())
}

/// As in `kernels/few.cuh`: four producers, and a thread for each row of a panel and token.
const PRODUCERS: usize = 4;
const FEW_THREADS: usize = PRODUCERS * 32 + 16 * FEW;

fn few_shared_bytes(ty: GgmlType) -> usize {
    let unit = unit_bytes(ty);
    let stages = if unit <= 2600 { 3 } else { 2 };
    let slots = PRODUCERS * stages * (unit + FEW * (UNIT + 16));
    let pairs = if ty == GgmlType::Q2_K { 16 * 4 } else { 0 };
    slots + 2 * PRODUCERS * 8 * (16 * FEW * 4 + 16 * 8 + FEW * 8 + pairs)
}

fn shared_bytes(ty: GgmlType, tile: &Tile) -> usize {
    let unit = unit_bytes(ty);
    let stage = tile.rows / 16 * unit + tile.tokens * (UNIT + 16);
    let pairs = usize::from(is_split(ty)) + usize::from(ty == GgmlType::Q2_K);
    tile.stages * stage + 8 * (tile.rows + tile.tokens) * 8 + pairs * 8 * tile.rows * 4
}

#[cfg(all(test, unix))]
#[path = "matmul_tests.rs"]
mod tests;
