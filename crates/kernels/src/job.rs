//! Matmuls, and what goes with them, shared out among workers.
//!
//! Every worker begins with a stretch of each matrix that is its own, so that it reads memory in order; it claims a run
//! of panels at a time, and who is done helps with what the others have not claimed yet.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicUsize, Ordering};

use strata_quant::GgmlType;

use crate::{ActRows, Kernels, PANEL_ROWS, Panels, TileMut, pack_panel, packed_bytes};

/// A matrix, packed already or as it is in the file.
#[derive(Copy, Clone)]
pub enum Weights<'a> {
    /// Packed.
    Packed(Panels<'a>),
    /// To be packed panel by panel while it is multiplied: the same bits, more slowly, in no memory of its own.
    Rows(Rows<'a>),
}

/// The rows of a matrix as they are in the file.
#[derive(Copy, Clone)]
pub struct Rows<'a> {
    ty: GgmlType,
    rows: usize,
    cols: usize,
    bytes: &'a [u8],
}

impl<'a> Rows<'a> {
    /// Rows one after the other.
    ///
    /// # Panics
    /// If the length is another.
    pub fn new(ty: GgmlType, rows: usize, cols: usize, bytes: &'a [u8]) -> Self {
        let row = cols / ty.block_len() * ty.block_bytes();
        assert_eq!(
            bytes.len(),
            rows * row,
            "the length of {rows} × {cols} {ty}"
        );
        Self {
            ty,
            rows,
            cols,
            bytes,
        }
    }
}

impl Weights<'_> {
    /// Rows before `at`, and rows from `at`; `None` where the matrix cannot be cut there.
    pub fn split_rows(self, at: usize) -> Option<(Self, Self)> {
        match self {
            _ if at > self.rows() => None,
            Self::Packed(panels) => at.is_multiple_of(PANEL_ROWS).then(|| {
                let (first, second) = panels.split_rows(at);
                (Self::Packed(first), Self::Packed(second))
            }),
            Self::Rows(matrix) => {
                let (first, second) = matrix
                    .bytes
                    .split_at(at * (matrix.bytes.len() / matrix.rows.max(1)));
                let part = |rows, bytes| {
                    Self::Rows(Rows {
                        rows,
                        bytes,
                        ..matrix
                    })
                };
                Some((part(at, first), part(matrix.rows - at, second)))
            }
        }
    }

    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Packed(panels) => panels.rows(),
            Self::Rows(rows) => rows.rows,
        }
    }
}

/// One matmul: `out[t][r] = weights[r] · x[t]`.
pub struct Product<'a> {
    /// The matrix.
    pub weights: Weights<'a>,
    /// The activations, in the format of the matrix's type.
    pub x: ActRows<'a>,
    /// Where the results go.
    pub out: TileMut<'a>,
}

/// Work on a number of panels, any run of which can be done by itself.
///
/// # Safety
/// It may be shared between threads that compute different runs: these touch different memory.
pub unsafe trait PanelWork {
    /// How many there are.
    fn panels(&self) -> usize;

    /// Runs are multiples of this many panels.
    fn granule(&self) -> usize {
        1
    }

    /// Does `count` panels from `panel` on, or what there is of them. `scratch` holds a panel of the largest matrix that
    /// comes as [`Weights::Rows`].
    ///
    /// # Safety
    /// Nobody else does any of these panels until it returns.
    unsafe fn compute(&self, kernels: &Kernels, panel: usize, count: usize, scratch: &mut [u8]);
}

// SAFETY: it writes only the rows of the panels that it is asked for.
unsafe impl PanelWork for Product<'_> {
    fn panels(&self) -> usize {
        self.weights.rows().div_ceil(PANEL_ROWS)
    }

    unsafe fn compute(&self, kernels: &Kernels, panel: usize, count: usize, scratch: &mut [u8]) {
        let start = panel * PANEL_ROWS;
        assert_eq!(self.weights.rows(), self.out.rows(), "the output's rows");
        let rows = (count * PANEL_ROWS).min(self.out.rows() - start);
        // SAFETY: the caller says that nobody else has these rows; the job borrows the product mutably, so nobody
        // outside has them.
        let out = unsafe { self.out.share_rows(start, rows) };
        self.multiply(kernels, start, out, scratch);
    }
}

// SAFETY: as its content, or nothing at all.
unsafe impl<T: PanelWork> PanelWork for Option<T> {
    fn panels(&self) -> usize {
        self.as_ref().map_or(0, PanelWork::panels)
    }

    fn granule(&self) -> usize {
        self.as_ref().map_or(1, PanelWork::granule)
    }

    unsafe fn compute(&self, kernels: &Kernels, panel: usize, count: usize, scratch: &mut [u8]) {
        if let Some(task) = self {
            // SAFETY: the caller's promise.
            unsafe { task.compute(kernels, panel, count, scratch) }
        }
    }
}

impl Product<'_> {
    /// Rows from `start` on, as many as `out` has.
    pub(crate) fn multiply(
        &self,
        kernels: &Kernels,
        start: usize,
        mut out: TileMut<'_>,
        scratch: &mut [u8],
    ) {
        let rows = out.rows();
        match self.weights {
            Weights::Packed(panels) => {
                let (_, panels) = panels.split_rows(start);
                let panels = if rows == panels.rows() {
                    panels
                } else {
                    panels.split_rows(rows).0
                };
                kernels.matmul(panels, self.x, out);
            }
            Weights::Rows(matrix) => {
                let row = matrix.bytes.len() / matrix.rows;
                let bytes = &matrix.bytes[start * row..][..rows * row];
                for bytes in bytes.chunks(PANEL_ROWS * row) {
                    let rows = bytes.len() / row;
                    let panel = &mut scratch[..packed_bytes(matrix.ty, rows, matrix.cols)];
                    pack_panel(matrix.ty, matrix.cols, bytes, panel);
                    let panel = Panels::new(matrix.ty, rows, matrix.cols, panel);
                    let (now, later) = out.split_rows(rows);
                    kernels.matmul(panel, self.x, now);
                    out = later;
                }
            }
        }
    }
}

/// Tasks that do not depend on each other, done by all who call [`Job::work`].
pub struct Job<'a, T> {
    kernels: &'static Kernels,
    tasks: &'a [T],
    stretches: usize,
    /// How many runs of a stretch are claimed, for each of them.
    claimed: [AtomicUsize; MAX_STRETCHES],
}

/// Into how many stretches a matrix is cut at most. More workers than that share them.
const MAX_STRETCHES: usize = 16;

/// Runs in a stretch: enough to even out a slow worker, few enough that each stays long.
const RUNS: usize = 8;

// SAFETY: workers only read the weights and activations, and write through tiles that no two of them have: a claim is
// unique, and different claims cover different panels or different tasks.
unsafe impl<T: PanelWork> Sync for Job<'_, T> {}

impl<'a, T: PanelWork> Job<'a, T> {
    /// Work for about `workers` workers.
    pub fn new(kernels: &'static Kernels, tasks: &'a mut [T], workers: usize) -> Self {
        Self {
            kernels,
            tasks,
            stretches: workers.clamp(1, MAX_STRETCHES),
            claimed: [const { AtomicUsize::new(0) }; MAX_STRETCHES],
        }
    }

    /// Computes runs of panels until none is left. Workers of different numbers begin with different panels. `scratch`
    /// holds a panel of the largest matrix that comes as [`Weights::Rows`].
    pub fn work(&self, worker: usize, scratch: &mut [u8]) {
        for other in 0..self.stretches {
            self.work_on((worker + other) % self.stretches, scratch);
        }
    }

    /// Computes what is left of a stretch.
    fn work_on(&self, stretch: usize, scratch: &mut [u8]) {
        let mut first = 0;
        let mut tasks = self.tasks.iter();
        let mut current = tasks.next();
        loop {
            let claim = self.claimed[stretch].fetch_add(1, Ordering::Relaxed);
            // Claims only grow, so the task that has this one is the current or a later one.
            loop {
                let Some(task) = current else { return };
                let granules = task.panels().div_ceil(task.granule());
                let cut = |at: usize| granules * at / self.stretches;
                let (from, to) = (cut(stretch), cut(stretch + 1));
                let run = (to - from).div_ceil(RUNS).max(1);
                let claims = (to - from).div_ceil(run);
                if claim - first < claims {
                    let from = from + (claim - first) * run;
                    let count = run.min(to - from) * task.granule();
                    // SAFETY: the claim is unique, and claims of one task cover different panels.
                    unsafe {
                        task.compute(self.kernels, from * task.granule(), count, scratch);
                    }
                    break;
                }
                first += claims;
                current = tasks.next();
            }
        }
    }
}
