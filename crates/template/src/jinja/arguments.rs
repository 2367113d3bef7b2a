//! The arguments of a call, and how functions written in Rust take them.
use super::error::{Run, TypeFault, bad_value};
use super::value::{Str, Value};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Evaluated arguments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arguments {
    pub(crate) positional: Vec<Value>,
    pub(crate) named: Vec<(Arc<str>, Value)>,
}

impl Arguments {
    /// The arguments in the order of `names`, wherever they were given.
    pub(crate) fn bind<const N: usize>(
        self,
        function: &str,
        names: [&str; N],
    ) -> Run<[Option<Value>; N]> {
        let mut bound = [const { None }; N];
        if self.positional.len() > N {
            return Err(TypeFault::TooMany {
                function: String::from(function),
                most: N,
            }
            .into());
        }
        for (slot, value) in bound.iter_mut().zip(self.positional) {
            *slot = Some(value);
        }
        for (name, value) in self.named {
            let place = names.iter().position(|known| **known == *name);
            match place.and_then(|place| bound.get_mut(place)) {
                Some(slot @ None) => *slot = Some(value),
                _ => {
                    return Err(TypeFault::Keyword {
                        function: String::from(function),
                        name: String::from(&*name),
                    }
                    .into());
                }
            }
        }
        Ok(bound)
    }

    /// Fails unless there are no arguments.
    pub(crate) fn none(self, function: &str) -> Run<()> {
        self.bind::<0>(function, []).map(|_| ())
    }
}

/// An argument that must be given.
pub(crate) fn required(value: Option<Value>, function: &str, name: &'static str) -> Run<Value> {
    value.ok_or_else(|| {
        let function = String::from(function);
        TypeFault::Argument { function, name }.into()
    })
}

/// An optional integer.
pub(crate) fn int(value: Option<Value>, function: &'static str) -> Run<Option<i64>> {
    match value {
        None | Some(Value::None) => Ok(None),
        Some(value) => match value.as_int() {
            Some(number) => Ok(Some(number)),
            None => bad_value(function, "an argument must be an integer"),
        },
    }
}

/// An optional string.
pub(crate) fn text(value: Option<Value>, function: &'static str) -> Run<Option<Str>> {
    match value {
        None | Some(Value::None) => Ok(None),
        Some(Value::Str(text)) => Ok(Some(text)),
        Some(_) => bad_value(function, "an argument must be a string"),
    }
}

/// An optional flag: any value has a truth.
pub(crate) fn flag(value: Option<Value>, default: bool) -> bool {
    value.map_or(default, |value| value.is_true())
}
