//! Which kernel multiplies what. The sizes are those of `kernels/matmul.comp` and `kernels/float.comp`.

use std::collections::HashMap;
use strata_gpu::args::{Matmul, MatmulPart};
use strata_gpu::{
    Address, Backend, DeviceError, ExpertMatrices, Input, Kernel, Matrix, Multiplier, Shape,
    act_bytes, launch,
};
use strata_model::GgmlType;

/// Tokens of a block in the kernel for several, and from how many on it is used: weights are read once for all of them.
const TILE: usize = 32;
const SEVERAL: usize = 4;
/// Tokens of a block in the kernels for floats.
const FLOAT_TOKENS: usize = 4;

/// The kernels of one type.
#[derive(Copy, Clone)]
enum TypeKernels {
    Float(Kernel),
    Quantized { gemv: Kernel, tiles: Kernel },
}

/// The kernels of the types that a model has.
#[derive(Default)]
pub(crate) struct Matrices {
    kernels: HashMap<GgmlType, TypeKernels>,
}

impl Multiplier for Matrices {
    fn load(&mut self, backend: &mut dyn Backend, ty: GgmlType) -> Result<(), DeviceError> {
        if self.kernels.contains_key(&ty) {
            return Ok(());
        }
        let kernels = match ty {
            GgmlType::F32 => TypeKernels::Float(backend.kernel("float", "float_f32")?),
            GgmlType::F16 => TypeKernels::Float(backend.kernel("float", "float_f16")?),
            GgmlType::BF16 => TypeKernels::Float(backend.kernel("float", "float_bf16")?),
            _ if crate::modules::Module::of(&format!("gemv_{ty:?}")).is_none() => {
                let ty = format!("{ty:?}");
                return Err(DeviceError::Type { ty });
            }
            _ => TypeKernels::Quantized {
                gemv: backend.kernel("matmul", &format!("gemv_{ty:?}"))?,
                tiles: backend.kernel("matmul", &format!("tiles_{ty:?}"))?,
            },
        };
        self.kernels.insert(ty, kernels);
        Ok(())
    }

    fn multiply(
        &self,
        backend: &dyn Backend,
        input: Input,
        matrices: &[(Matrix, Address)],
        out_stride: usize,
    ) -> Result<(), DeviceError> {
        // Those of one type that follow each other go together.
        for run in matrices.chunk_by(|(a, _), (b, _)| a.ty == b.ty) {
            for run in run.chunks(3) {
                self.run(backend, input, run, out_stride, (0, 0))?;
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
        let run = &[(matrices.first, out)];
        self.run(backend, input, run, out_stride, (experts, matrices.stride))
    }
}

impl Matrices {
    fn run(
        &self,
        backend: &dyn Backend,
        input: Input,
        run: &[(Matrix, Address)],
        out_stride: usize,
        (experts, expert_bytes): (Address, u64),
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
        let panels: u32 = parts.iter().map(|part| part.panels).sum();
        let tokens = input.tokens;
        let mut arguments = Matmul {
            parts,
            experts,
            expert_bytes,
            columns: columns as u32,
            tokens: tokens as u32,
            out_stride: out_stride as u32,
            x_shared_by: input.shared_by as u32,
            ..Matmul::default()
        };
        let (kernel, rows) = match self.kernels[&ty] {
            TypeKernels::Float(kernel) => {
                arguments.x = input.floats;
                arguments.x_stride = 4 * input.stride as u32;
                let together = if experts == 0 { FLOAT_TOKENS } else { 1 };
                (kernel, tokens.div_ceil(together))
            }
            TypeKernels::Quantized { gemv, tiles } => {
                arguments.x = input.acts;
                arguments.x_stride = act_bytes(columns) as u32;
                if tokens >= SEVERAL && experts == 0 {
                    (tiles, tokens.div_ceil(TILE))
                } else {
                    (gemv, tokens)
                }
            }
        };
        let shape = Shape {
            grid: [panels, rows as u32, 1],
            threads: 0,
            shared: 0,
        };
        launch(backend, kernel, shape, &arguments)
    }
}
