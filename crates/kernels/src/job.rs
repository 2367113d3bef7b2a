//! Matmuls, and what goes with them, shared out among workers.
//!
//! Every worker begins with a stretch of each matrix that is its own, so that it reads memory in order; it claims a run
//! of panels at a time, and who is done helps with what the others have not claimed yet.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicUsize, Ordering};

use strata_quant::{GgmlType, dequantize};

use crate::panel::float::together;
use crate::{
    ActRows, Kernels, PANEL_ROWS, Panels, TileMut, is_packed, pack_panel, packed_bytes, panel_bytes,
};

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

    const fn shape(&self) -> (GgmlType, usize) {
        match self {
            Self::Packed(panels) => (panels.ty(), panels.cols()),
            Self::Rows(rows) => (rows.ty, rows.cols),
        }
    }

    /// The type of its panels on a device: types that are not packed become F32, which gives the same bits.
    pub const fn panel_type(&self) -> GgmlType {
        let (ty, _) = self.shape();
        if is_packed(ty) { ty } else { GgmlType::F32 }
    }

    /// Bytes of one of its panels on a device.
    pub const fn device_panel_bytes(&self) -> usize {
        panel_bytes(self.panel_type(), self.shape().1)
    }

    /// Writes panel `index`, in the type of [`panel_type`](Self::panel_type).
    ///
    /// # Panics
    /// If there is no such panel, or `out` is not [`device_panel_bytes`](Self::device_panel_bytes) long.
    pub fn write_panel(&self, index: usize, out: &mut [u8]) {
        let (ty, cols) = self.shape();
        let first = index * PANEL_ROWS;
        let count = PANEL_ROWS.min(self.rows() - first);
        let bytes = match self {
            Self::Packed(panels) if is_packed(ty) => {
                let panel = panel_bytes(ty, cols);
                out.copy_from_slice(&panels.bytes()[index * panel..][..panel]);
                return;
            }
            Self::Packed(panels) => panels.bytes(),
            Self::Rows(rows) => rows.bytes,
        };
        let row = bytes.len() / self.rows();
        let rows = &bytes[first * row..][..count * row];
        if is_packed(ty) {
            return pack_panel(ty, cols, rows, out);
        }
        out.fill(0);
        let mut values = [0.0; 256];
        let block = ty.block_len();
        for (r, row) in rows.chunks_exact(row).enumerate() {
            for (b, bytes) in row.chunks_exact(ty.block_bytes()).enumerate() {
                let values = &mut values[..block];
                // As in a product of such weights, NaN says that a type has no values.
                if dequantize(ty, bytes, values).is_err() {
                    values.fill(f32::NAN);
                }
                for (c, value) in values.iter().enumerate() {
                    let at = ((b * block + c) * PANEL_ROWS + r) * 4;
                    out[at..][..4].copy_from_slice(&value.to_le_bytes());
                }
            }
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

    /// The packed weights from a panel on, to be asked for before they are needed.
    fn weights_from(&self, panel: usize) -> &[u8];

    /// Does a run of panels. `scratch` holds a panel of the largest matrix that comes as [`Weights::Rows`].
    ///
    /// # Safety
    /// Nobody else does any of these panels until it returns.
    unsafe fn compute(&self, kernels: &Kernels, run: PanelRun<'_>, scratch: &mut [u8]);
}

/// Panels that a worker does without a break.
#[derive(Copy, Clone, Debug)]
pub struct PanelRun<'a> {
    /// The first.
    pub panel: usize,
    /// How many, if there are so many.
    pub count: usize,
    /// The weights that the worker is likely to read next: memory is kept busy while the run ends.
    pub next: &'a [u8],
}

// SAFETY: it writes only the rows of the panels that it is asked for.
unsafe impl PanelWork for Product<'_> {
    fn panels(&self) -> usize {
        self.weights.rows().div_ceil(PANEL_ROWS)
    }

    fn granule(&self) -> usize {
        match self.weights {
            Weights::Packed(panels) => together(panels.ty(), self.x.tokens()),
            Weights::Rows(_) => 1,
        }
    }

    fn weights_from(&self, panel: usize) -> &[u8] {
        match self.weights {
            Weights::Packed(panels) => panels.bytes_from(panel),
            Weights::Rows(_) => &[],
        }
    }

    unsafe fn compute(&self, kernels: &Kernels, run: PanelRun<'_>, scratch: &mut [u8]) {
        let start = run.panel * PANEL_ROWS;
        assert_eq!(self.weights.rows(), self.out.rows(), "the output's rows");
        let rows = (run.count * PANEL_ROWS).min(self.out.rows() - start);
        // SAFETY: the caller says that nobody else has these rows; the job borrows the product mutably, so nobody
        // outside has them.
        let out = unsafe { self.out.share_rows(start, rows) };
        self.multiply(kernels, start, out, (run.next, scratch));
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

    fn weights_from(&self, panel: usize) -> &[u8] {
        self.as_ref().map_or(&[], |task| task.weights_from(panel))
    }

    unsafe fn compute(&self, kernels: &Kernels, run: PanelRun<'_>, scratch: &mut [u8]) {
        if let Some(task) = self {
            // SAFETY: the caller's promise.
            unsafe { task.compute(kernels, run, scratch) }
        }
    }
}

impl Product<'_> {
    /// Rows from `start` on, as many as `out` has. The weights in `next` are read after them.
    pub(crate) fn multiply(
        &self,
        kernels: &Kernels,
        start: usize,
        mut out: TileMut<'_>,
        (next, scratch): (&[u8], &mut [u8]),
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
                kernels.matmul_before(panels, self.x, out, next);
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
                let runs = self.runs(task, stretch);
                if let Some((panel, count)) = runs.get(claim - first) {
                    let later = || tasks.clone().map(|task| (task, self.runs(task, stretch)));
                    let next = match runs.get(claim - first + 1) {
                        Some((panel, _)) => task.weights_from(panel),
                        None => later()
                            .find_map(|(task, runs)| Some(task.weights_from(runs.get(0)?.0)))
                            .unwrap_or(&[]),
                    };
                    let run = PanelRun { panel, count, next };
                    // SAFETY: the claim is unique, and claims of one task cover different panels.
                    unsafe { task.compute(self.kernels, run, scratch) };
                    break;
                }
                first += runs.count();
                current = tasks.next();
            }
        }
    }

    /// A task's part of a stretch.
    fn runs(&self, task: &T, stretch: usize) -> Runs {
        let granules = task.panels().div_ceil(task.granule());
        let cut = |at: usize| granules * at / self.stretches;
        let (from, to) = (cut(stretch), cut(stretch + 1));
        Runs {
            from,
            to,
            each: (to - from).div_ceil(RUNS).max(1),
            granule: task.granule(),
        }
    }
}

/// A stretch of a task, in runs that are claimed one by one. All but the granule's panels are counted in granules.
struct Runs {
    from: usize,
    to: usize,
    each: usize,
    granule: usize,
}

impl Runs {
    fn count(&self) -> usize {
        (self.to - self.from).div_ceil(self.each)
    }

    /// The first panel of a run, and how many it has.
    fn get(&self, index: usize) -> Option<(usize, usize)> {
        let from = self.from + index * self.each;
        let granules = self.each.min(self.to.checked_sub(from)?);
        (granules > 0).then_some((from * self.granule, granules * self.granule))
    }
}
