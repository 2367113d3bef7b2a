//! `strata learn quantization`: a row of weights in ever fewer bits, and what that does to what it computes.

use super::{Staging, tale};
use crate::failure::Failure;
use crate::learn::show::{clip, curve};
use strata::{Look, SeenRow};
use strata_model::RowFormat;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The tensor
    #[arg(long, value_name = "NAME", default_value = "blk.0.ffn_down.weight")]
    tensor: String,
    /// The row, from 0 on
    #[arg(long, value_name = "N", default_value_t = 0)]
    row: usize,
    /// The prompt whose last token the row is multiplied with
    #[arg(long, value_name = "TEXT", default_value = "Once upon a time")]
    prompt: String,
    #[command(flatten)]
    staging: Staging,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let model = tale()?;
    let mut show = arguments.staging.show();
    let seen = model.look(Look {
        prompt: model.tokenize(&arguments.prompt),
        head: None,
        row: Some((arguments.tensor.clone(), arguments.row)),
    })?;
    let Some(row) = &seen.row else {
        return Ok(());
    };
    let columns = show.columns();
    let most = row.values.iter().fold(0.0f32, |most, x| most.max(x.abs()));
    let size = size(row);
    show.say(&format!(
        "{}, row {}: {} weights, stored as {}. The heights of the first {columns} (the largest weight is {most:.3}):",
        arguments.tensor,
        arguments.row,
        row.values.len(),
        row.ty.name()
    ))?;
    show.line(curve(row.values.iter().take(columns).copied(), most))?;
    show.line("")?;
    show.say(
        "The row is written in each format and read again. Under each name is what is wrong with those weights, on a scale \
         four times as fine:",
    )?;
    for format in &row.formats {
        let wrong = format.values.iter().zip(&row.values);
        let wrong = wrong.map(|(a, b)| a - b).take(columns);
        show.line("")?;
        show.line(format!("{} ({:.2} bits)", format.ty.name(), format.bits))?;
        show.line(curve(wrong, most / 4.0))?;
    }
    show.line("")?;
    show.line("format  bits  error  row × token")?;
    let exact = RowFormat::product(&row.values, &row.input);
    let name = row.ty.name();
    show.line(format!(
        "{:<6}  {:>4}  {:>5}  {exact:>11.5}",
        clip(name, 6),
        "",
        ""
    ))?;
    for format in &row.formats {
        let error = 100.0 * format.error(&row.values) / size;
        let product = RowFormat::product(&format.values, &row.input);
        show.line(format!(
            "{:<6}  {:>4.1}  {error:>4.1}%  {product:>11.5}",
            format.ty.name(),
            format.bits
        ))?;
    }
    show.line("")?;
    show.say(
        "The error is the root of the mean square, of what is wrong and of the weights themselves. The last column is what \
         the row gives for the last token of the prompt. Its own format has nothing to lose: the file holds what that format \
         can say.",
    )
}

/// The root of the mean square of the weights.
fn size(row: &SeenRow) -> f64 {
    let squares = RowFormat::product(&row.values, &row.values);
    (squares / row.values.len().max(1) as f64).sqrt()
}
