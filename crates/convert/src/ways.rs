//! What becomes of a tensor of eyes or ears on its way into a file of its own.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use strata_quant::GgmlType;
use strata_weights::gguf::Name;
use strata_weights::{CheckpointTensor, Dtype};

use crate::error::ConvertError;
use crate::plan::PlannedTensor;
use crate::row_order::RowOrder;
use crate::tensor_plan::{Edit, Make, View};

/// How a tensor is changed on the way.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Not at all.
    Same,
    /// One is added to its elements.
    PlusOne,
    /// Rows of heads from halves to pairs.
    Pairs,
    /// A convolution over two frames, each of which becomes a tensor.
    Frames,
    /// A matrix over patches whose colors are innermost, which becomes a convolution.
    Colors,
    /// A vector behind dimensions of one.
    Vectors,
    /// A bias that becomes a column.
    Column,
    /// Queries, keys and values, one below the other, which part: `@` in the name is their letter.
    Thirds,
    /// Rows and columns change places.
    Turned,
}

/// A tensor's place in the file, or the places of its parts.
pub(crate) fn planned(
    tensor: &CheckpointTensor<'_>,
    source: usize,
    name: String,
    (way, heads): (Way, u32),
) -> Result<Vec<PlannedTensor>, ConvertError> {
    let shape = || ConvertError::Shape {
        tensor: Name::new(&tensor.name),
    };
    // Tables of vectors are none.
    let table = name.contains("position") || name == "resampler.query";
    let matrix = tensor.shape.len() == 2 && !table;
    let ty = match tensor.dtype {
        Dtype::F32 | Dtype::F64 => GgmlType::F32,
        _ if matrix => GgmlType::F16,
        _ => GgmlType::F32,
    };
    let mut dims: Vec<u64> = tensor.shape.iter().rev().copied().collect();
    if dims.is_empty() {
        dims.push(1);
    }
    let make = |order, edit| Make::Rows {
        sources: vec![source],
        view: View::AS_IS,
        order,
        columns: RowOrder::Same,
        edit,
    };
    let one = |name, dims, order, edit| PlannedTensor {
        name,
        ty,
        dims,
        make: make(order, edit),
    };
    Ok(match (way, &tensor.shape[..]) {
        (Way::Frames, &[width, channels, 2, height, columns]) => {
            let dims = vec![columns, height, channels, width];
            let items = width.saturating_mul(channels) as usize;
            let height = height as usize;
            let names = [name.clone(), name + ".1"];
            let frames = names.into_iter().enumerate().map(|(frame, name)| {
                let order = RowOrder::Parts {
                    items,
                    item: 2 * height,
                    parts: [(frame * height, height), (0, 0), (0, 0)],
                };
                one(name, dims.clone(), order, Edit::Nothing)
            });
            frames.collect()
        }
        // A bias.
        (Way::Frames, &[_]) => vec![one(name, dims, RowOrder::Same, Edit::Nothing)],
        (Way::Frames, _) => return Err(shape()),
        (Way::Colors, &[width, columns]) => {
            let pixels = columns / 3;
            let side = pixels.isqrt();
            if side == 0 || 3 * side * side != columns {
                return Err(shape());
            }
            let mut patches = one(
                name,
                vec![side, side, 3, width],
                RowOrder::Same,
                Edit::Nothing,
            );
            if let Make::Rows { columns, .. } = &mut patches.make {
                *columns = RowOrder::Parts {
                    items: pixels as usize,
                    item: 3,
                    parts: [(0, 1), (1, 1), (2, 1)],
                };
            }
            vec![patches]
        }
        (Way::Colors, _) => return Err(shape()),
        (Way::Vectors, &[1, 1, width]) => {
            vec![one(name, vec![width], RowOrder::Same, Edit::Nothing)]
        }
        (Way::Vectors, &[1, count, width]) => {
            vec![one(name, vec![width, count], RowOrder::Same, Edit::Nothing)]
        }
        (Way::Vectors, _) => return Err(shape()),
        (Way::Column, &[count]) => {
            vec![one(name, vec![1, count], RowOrder::Same, Edit::Nothing)]
        }
        (Way::Pairs, &[rows, _]) => {
            let size = (rows as usize).checked_div(heads as usize).unwrap_or(0);
            if size == 0 || !size.is_multiple_of(2) || size * heads as usize != rows as usize {
                return Err(shape());
            }
            vec![one(name, dims, RowOrder::Pairs { size }, Edit::Nothing)]
        }
        (Way::Thirds, &[all] | &[all, _]) => {
            let third = all / 3;
            if third == 0 || 3 * third != all {
                return Err(shape());
            }
            let parts = "qkv".chars().enumerate().map(|(index, letter)| {
                let (first, third) = (index * third as usize, third as usize);
                let name = name.replace('@', letter.encode_utf8(&mut [0; 4]));
                let mut part = one(name, dims.clone(), RowOrder::Same, Edit::Nothing);
                if let Some(last) = part.dims.last_mut() {
                    *last = third as u64;
                }
                if let Make::Rows { view, order, .. } = &mut part.make {
                    if dims.len() == 1 {
                        view.columns = Some((first, 1, third));
                    } else {
                        *order = RowOrder::Parts {
                            items: 1,
                            item: all as usize,
                            parts: [(first, third), (0, 0), (0, 0)],
                        };
                    }
                }
                part
            });
            parts.collect()
        }
        (Way::Thirds, _) => return Err(shape()),
        (Way::Turned, &[rows, _]) => {
            let dims = dims.into_iter().rev().collect();
            let mut turned = one(name, dims, RowOrder::Same, Edit::Nothing);
            if let Make::Rows { view, .. } = &mut turned.make {
                *view = View::turned(rows);
            }
            vec![turned]
        }
        (Way::Turned, _) => return Err(shape()),
        (Way::PlusOne, _) => vec![one(name, dims, RowOrder::Same, Edit::PlusOne)],
        _ => vec![one(name, dims, RowOrder::Same, Edit::Nothing)],
    })
}
