//! What one tensor is made of.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use strata_quant::GgmlType;
use strata_weights::gguf::Name;
use strata_weights::{CheckpointTensor, Dtype};

use crate::config::HfConfig;
use crate::error::ConvertError;
use crate::family::{Change, Order, Share};
use crate::plan::{Parts, PlannedTensor};
use crate::row_order::{HeadCounts, RowOrder};
use crate::states;

/// What a tensor is made of.
#[derive(Clone, Debug)]
pub(crate) enum Make {
    Values(Vec<f32>),
    /// Codes and scales of 4-bit floats.
    Blocks {
        sources: [usize; 2],
        order: RowOrder,
    },
    Rows {
        /// Numbers of the checkpoint's tensors, one after the other.
        sources: Vec<usize>,
        view: View,
        order: RowOrder,
        /// The order of columns.
        columns: RowOrder,
        edit: Edit,
    },
}

/// How a source is looked at.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    /// Rows and columns of items of so many rows are exchanged.
    pub(crate) item_rows: Option<usize>,
    /// The first column, from one to the next, and how many.
    pub(crate) columns: Option<(usize, usize, usize)>,
}

impl View {
    pub(crate) const AS_IS: Self = Self {
        item_rows: None,
        columns: None,
    };

    pub(crate) fn turned(item_rows: u64) -> Self {
        Self {
            item_rows: Some(item_rows as usize),
            ..Self::AS_IS
        }
    }
}

/// What is done to the elements.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Edit {
    Nothing,
    PlusOne,
    Decay,
    OneMinus,
    /// Factors of the rows before each of these.
    Factors(Vec<(usize, f32)>),
}

impl Edit {
    fn new(change: Change, config: &HfConfig) -> Result<Self, ConvertError> {
        Ok(match change {
            Change::Nothing => Edit::Nothing,
            Change::PlusOne => Edit::PlusOne,
            Change::Decay => Edit::Decay,
            Change::OneMinus => Edit::OneMinus,
            Change::Times(keys) => {
                let mut product = 1.0;
                for &(key, place) in keys {
                    product *= match place {
                        None => config.f32(&[key])?.unwrap_or(1.0),
                        Some(place) => config.numbers(key)?.get(place).copied().unwrap_or(1.0),
                    };
                }
                Edit::Factors(vec![(usize::MAX, product)])
            }
            Change::StateMultipliers => Edit::Factors(states::multipliers(config)?),
        })
    }
}

/// The number that a tensor holds.
pub(crate) fn number(
    checkpoint: &[CheckpointTensor<'_>],
    source: usize,
) -> Result<f32, ConvertError> {
    let tensor = checkpoint.get(source).ok_or(ConvertError::NoTensors)?;
    let mut value = [0.0];
    let read = tensor.rows()?.read(0, &mut value);
    read.map(|()| value[0]).ok_or_else(|| ConvertError::Shape {
        tensor: Name::new(&tensor.name),
    })
}

/// A tensor's name, dimensions, and the type that it has in the checkpoint.
type Chosen<'p> = (&'p str, &'p [u64], Option<Dtype>);

/// Plans a tensor; `choose` says what its type becomes.
pub(crate) fn plan(
    part: &Parts,
    checkpoint: &[CheckpointTensor<'_>],
    (config, counts): (&HfConfig, HeadCounts),
    choose: impl FnOnce(Chosen<'_>) -> GgmlType,
) -> Result<PlannedTensor, ConvertError> {
    let sources: Vec<usize> = part.sources.iter().map(|&(_, source)| source).collect();
    let of = |index: usize| checkpoint.get(index);
    let first = sources.first().and_then(|&index| of(index));
    let first = first.ok_or(ConvertError::NoTensors)?;
    let shape = || ConvertError::Shape {
        tensor: Name::new(&first.name),
    };
    let planned = |name: &String, dims: Vec<u64>, make| PlannedTensor {
        ty: choose((name, &dims, Some(first.dtype))),
        name: name.clone(),
        dims,
        make,
    };
    if let Order::Blocks(_) = part.rule.order {
        let &[blocks, scales] = &sources[..] else {
            return Err(shape());
        };
        let &[experts, rows, columns, _] = &first.shape[..] else {
            return Err(shape());
        };
        let order = part.rule.order;
        let all = experts.saturating_mul(rows) as usize;
        let order = RowOrder::new(order, counts, experts as usize, all).ok_or_else(shape)?;
        let rows = order.count(all) as u64 / experts.max(1);
        let dims = vec![columns.saturating_mul(32), rows, experts];
        let sources = [blocks, scales];
        return Ok(planned(&part.name, dims, Make::Blocks { sources, order }));
    }
    let alike = |&index: &usize| of(index).is_some_and(|tensor| tensor.shape == first.shape);
    if !sources.iter().all(alike) {
        return Err(shape());
    }
    let order = settled(part.rule.order, config, &first.shape)?;
    let (view, mut dims) = view(order, counts, &first.shape).ok_or_else(shape)?;
    if order == Order::Stacked {
        dims.push(sources.len() as u64);
    }
    // What the view leaves: items of rows; a vector's elements are rows where they are moved.
    let total: u64 = dims.iter().product();
    let vector = first.shape.len() == 1 && view == View::AS_IS;
    let (mut view, items, rows) = match (vector, &dims[..]) {
        (true, _) => (view, 1, total as usize),
        (false, &[columns, rows, ..]) => {
            let all = total.checked_div(columns).unwrap_or(0);
            let all = match order {
                Order::Stacked => all.checked_div(sources.len() as u64).unwrap_or(0),
                _ => all,
            };
            (
                view,
                all.checked_div(rows).unwrap_or(0) as usize,
                all as usize,
            )
        }
        (false, _) => (view, 1, 1),
    };
    let row_order = RowOrder::new(order, counts, items, rows).ok_or_else(shape)?;
    let kept = row_order.count(rows);
    if kept != rows || matches!(row_order, RowOrder::Parts { .. }) {
        let (at, per_item) = if vector {
            (0, kept)
        } else {
            (1, kept / items.max(1))
        };
        if order == Order::LatentValues {
            dims = vec![dims[0], counts.latent.value as u64, counts.queries as u64];
        } else if let Some(rows) = dims.get_mut(at) {
            *rows = per_item as u64;
        }
    }
    if vector && row_order != RowOrder::Same {
        view = View::turned(1);
    }
    let columns = match order {
        Order::StridingColumns => {
            let columns = dims.first().copied().unwrap_or(0) as usize;
            RowOrder::new(Order::Striding, counts, 1, columns).ok_or_else(shape)?
        }
        _ => RowOrder::Same,
    };
    let edit = match part.rule.change {
        Change::PlusOne | Change::Times(_) if part.name.ends_with(".bias") => Edit::Nothing,
        change => Edit::new(change, config)?,
    };
    let make = Make::Rows {
        sources,
        view,
        order: row_order,
        columns,
        edit,
    };
    Ok(planned(&part.name, dims, make))
}

/// The order of a tensor whose shape says which of two it has.
fn settled(order: Order, config: &HfConfig, shape: &[u64]) -> Result<Order, ConvertError> {
    let width = || config.required_u32(&["hidden_size"]).map(u64::from);
    Ok(match order {
        Order::FromWidth(share) if shape.last() == Some(&width()?) => Order::Rows(share),
        Order::FromWidth(share) => Order::Turned(share),
        Order::ToWidth if shape.get(1) == Some(&width()?) => Order::Same,
        Order::ToWidth => Order::Turned(Share::All),
        order => order,
    })
}

/// How a source is looked at, and the dimensions that it then has, innermost first.
fn view(order: Order, counts: HeadCounts, shape: &[u64]) -> Option<(View, Vec<u64>)> {
    let mut dims: Vec<u64> = shape.iter().rev().copied().collect();
    let mut view = View::AS_IS;
    let experts = counts.experts as u64;
    let divided = |all: u64, count: u64| {
        let size = all.checked_div(count)?;
        (size > 0 && size * count == all).then_some(size)
    };
    match (order, shape) {
        (Order::Transposed, &[rows, _]) => {
            view = View::turned(rows);
            dims.reverse();
        }
        (Order::Flat, &[1, _]) => dims.truncate(1),
        (Order::Squeezed | Order::StridingBehindKeys, _) => {
            dims.retain(|&dim| dim != 1);
            if dims.is_empty() {
                dims.push(1);
            }
        }
        (Order::Column, _) => dims = vec![1, shape.iter().product()],
        (Order::Groups, &[size]) => {
            let groups = counts.states.groups as u64;
            dims = vec![divided(size, groups)?, groups];
        }
        (Order::Turned(_), &[items, inner, outer]) => {
            view = View::turned(inner);
            dims = vec![inner, outer, items];
        }
        (Order::Turned(_), _) => return None,
        (Order::Experts, &[rows, columns]) => {
            dims = vec![columns, divided(rows, experts)?, experts];
        }
        (Order::ExpertsTurned, &[rows, columns]) => {
            let inner = divided(rows, experts)?;
            view = View::turned(inner);
            dims = vec![inner, columns, experts];
        }
        (Order::LatentKeys, &[rows, rank]) => {
            let (heads, latent) = (counts.queries as u64, counts.latent);
            let item = divided(rows, heads)?;
            let (plain, value) = (latent.plain as u64, latent.value as u64);
            (item == plain + value).then_some(())?;
            view = View {
                columns: Some((0, 1, latent.plain)),
                ..View::turned(item)
            };
            dims = vec![plain, rank, heads];
        }
        (Order::Columns(share), &[rows, columns]) => {
            let half = divided(columns, 2)?;
            let first = usize::from(share == Share::Odd);
            view.columns = Some((first, 2, half as usize));
            dims = vec![half, rows];
        }
        _ => {}
    }
    Some((view, dims))
}
