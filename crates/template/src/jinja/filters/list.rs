//! Filters over sequences.
use super::select::attribute_path;
use crate::jinja::arguments::{Arguments, int, required};
use crate::jinja::error::{Missing, Run, bad_value, not};
use crate::jinja::eval::Interp;
use crate::jinja::value::{Str, Value};

pub(super) fn apply(
    interp: &mut Interp<'_>,
    name: &str,
    value: &Value,
    args: Arguments,
) -> Run<Value> {
    match name {
        "join" => join(interp, value, args),
        "batch" => batch(interp, value, args),
        "slice" => slice(interp, value, args),
        _ => {
            args.none(name)?;
            match name {
                "first" => {
                    let mut source = interp.iterate(value)?;
                    match interp.next_of(&mut source)? {
                        Some(item) => Ok(item),
                        None => {
                            interp.undefined(Missing::Because("No first item, sequence was empty."))
                        }
                    }
                }
                "last" => last(interp, value),
                "reverse" => reverse(interp, value),
                _ => match value {
                    Value::List(items) => Ok(Value::List(items.clone())),
                    value => Ok(Value::List(interp.collect(value)?)),
                },
            }
        }
    }
}

fn last(interp: &mut Interp<'_>, value: &Value) -> Run<Value> {
    let item = match value {
        Value::Iterator(_) => return not("generator", "reversible"),
        Value::Str(text) => text.chars().next_back().map(|c| {
            let mut bytes = [0; 4];
            interp.text_like(c.encode_utf8(&mut bytes), text)
        }),
        Value::List(items) | Value::Tuple(items) => items.last().cloned().map(Ok),
        other => interp.collect(other)?.last().cloned().map(Ok),
    };
    match item {
        Some(item) => item,
        None => interp.undefined(Missing::Because("No last item, sequence was empty.")),
    }
}

fn reverse(interp: &mut Interp<'_>, value: &Value) -> Run<Value> {
    if let Value::Str(text) = value {
        let mut buffer = interp.buffer_of(text.len())?;
        interp.touch(text.len())?;
        for c in text.chars().rev() {
            buffer.push(c)?;
        }
        return Ok(interp.finish_like(buffer, text));
    }
    let mut items = interp.collect_growing(value)?;
    items.items_mut().reverse();
    match value {
        // Python falls back to a list for what cannot be walked backwards.
        Value::Iterator(_) => Ok(Value::List(interp.finish_list(items)?)),
        _ => interp.once(items),
    }
}

fn join(interp: &mut Interp<'_>, value: &Value, args: Arguments) -> Run<Value> {
    let [separator, attribute] = args.bind("join", ["d", "attribute"])?;
    let separator = match separator {
        Some(separator) => interp.str_of(&separator)?,
        None => "".into(),
    };
    let path = attribute_path(attribute.as_ref())?;
    let mut source = interp.iterate(value)?;
    let mut buffer = interp.buffer()?;
    let mut first = true;
    while let Some(item) = interp.next_of(&mut source)? {
        if !first {
            interp.touch(separator.len())?;
            buffer.push_str(&separator)?;
        }
        first = false;
        let item = path.get(interp, item, None)?;
        interp.write_str(&mut buffer, &item)?;
    }
    Ok(Value::Str(Str::from_buffer(buffer)))
}

fn batch(interp: &mut Interp<'_>, value: &Value, args: Arguments) -> Run<Value> {
    let [size, fill] = args.bind("batch", ["linecount", "fill_with"])?;
    let size = int(Some(required(size, "batch", "linecount")?), "batch")?;
    let size = usize::try_from(size.unwrap_or(0)).unwrap_or(0);
    let items = interp.collect(value)?;
    let mut batches = interp.growing()?;
    let mut rest = &items[..];
    // A batch of none is full at once, and the next never is.
    if size == 0 && !rest.is_empty() {
        let none = interp.list_of([])?;
        batches.push(Value::List(none))?;
    }
    while !rest.is_empty() {
        let taken = if size == 0 {
            rest.len()
        } else {
            size.min(rest.len())
        };
        let (batch, after) = rest.split_at_checked(taken).unwrap_or((rest, &[]));
        let mut line = interp.growing_of(batch.len())?;
        interp.step(batch.len())?;
        for item in batch {
            line.push(item.clone())?;
        }
        if let Some(fill) = fill.as_ref().filter(|fill| !matches!(fill, Value::None)) {
            while line.len() < size {
                interp.step(1)?;
                line.push(fill.clone())?;
            }
        }
        let line = interp.finish_list(line)?;
        batches.push(Value::List(line))?;
        rest = after;
    }
    interp.once(batches)
}

fn slice(interp: &mut Interp<'_>, value: &Value, args: Arguments) -> Run<Value> {
    let [count, fill] = args.bind("slice", ["slices", "fill_with"])?;
    let count = int(Some(required(count, "slice", "slices")?), "slice")?;
    let count = match usize::try_from(count.unwrap_or(0)) {
        Ok(0) | Err(_) => return bad_value("slice", "the number of slices must be positive"),
        Ok(count) => count,
    };
    let items = interp.collect(value)?;
    let (each, extra) = (items.len() / count, items.len() % count);
    let mut slices = interp.growing()?;
    let mut rest = items.iter();
    for nth in 0..count {
        let size = each + usize::from(nth < extra);
        interp.step(1 + size)?;
        let mut slice = interp.growing_of(size)?;
        for item in rest.by_ref().take(size) {
            slice.push(item.clone())?;
        }
        if let Some(fill) = fill.as_ref().filter(|fill| !matches!(fill, Value::None))
            && nth >= extra
        {
            slice.push(fill.clone())?;
        }
        let slice = interp.finish_list(slice)?;
        slices.push(Value::List(slice))?;
    }
    interp.once(slices)
}
