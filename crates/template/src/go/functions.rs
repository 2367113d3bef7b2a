//! The functions of Go templates: those of the language, and those that Ollama adds.

use super::error::{GoFault, Run};
use super::eval::Interp;
use super::format;
use super::value::GoValue;
use crate::jinja::DateTime;
use alloc::string::{String, ToString};
use core::cmp::Ordering;

/// A function.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Function {
    And,
    Or,
    Not,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Len,
    Index,
    Slice,
    Print,
    Printf,
    Println,
    Json,
    CurrentDate,
    YesterdayDate,
    TypeScriptType,
}

impl Function {
    const ALL: [(&'static str, Self); 19] = [
        ("and", Self::And),
        ("or", Self::Or),
        ("not", Self::Not),
        ("eq", Self::Eq),
        ("ne", Self::Ne),
        ("lt", Self::Lt),
        ("le", Self::Le),
        ("gt", Self::Gt),
        ("ge", Self::Ge),
        ("len", Self::Len),
        ("index", Self::Index),
        ("slice", Self::Slice),
        ("print", Self::Print),
        ("printf", Self::Printf),
        ("println", Self::Println),
        ("json", Self::Json),
        ("currentDate", Self::CurrentDate),
        ("yesterdayDate", Self::YesterdayDate),
        ("toTypeScriptType", Self::TypeScriptType),
    ];

    pub(super) fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|&(_, function)| function)
    }

    pub(super) fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, function)| *function == self);
        found.map_or("", |&(name, _)| name)
    }

    pub(super) fn call(self, interp: &mut Interp<'_>, arguments: &[GoValue]) -> Run<GoValue> {
        interp.step(arguments.len())?;
        let count = |least: usize, most: usize| {
            if (least..=most).contains(&arguments.len()) {
                Ok(())
            } else {
                Err(GoFault::Arguments {
                    function: self.name(),
                    found: arguments.len(),
                })
            }
        };
        let text = |text: String| Ok(GoValue::Text(text.into()));
        match self {
            // The interpreter evaluates no more of their arguments than they need.
            Self::And | Self::Or => Ok(GoValue::Nil),
            Self::Not => {
                count(1, 1)?;
                Ok(GoValue::Bool(!arguments[0].truth()))
            }
            Self::Eq => {
                count(2, usize::MAX)?;
                let (first, others) = (&arguments[0], &arguments[1..]);
                for other in others {
                    if equal(interp, first, other)? {
                        return Ok(GoValue::Bool(true));
                    }
                }
                Ok(GoValue::Bool(false))
            }
            Self::Ne => {
                count(2, 2)?;
                let same = equal(interp, &arguments[0], &arguments[1])?;
                Ok(GoValue::Bool(!same))
            }
            Self::Lt | Self::Le | Self::Gt | Self::Ge => {
                count(2, 2)?;
                let order = order(&arguments[0], &arguments[1])?;
                Ok(GoValue::Bool(match self {
                    Self::Lt => order == Some(Ordering::Less),
                    Self::Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
                    Self::Gt => order == Some(Ordering::Greater),
                    _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
                }))
            }
            Self::Len => {
                count(1, 1)?;
                Ok(GoValue::Int(len(&arguments[0], "len")? as i64))
            }
            Self::Index => {
                count(1, usize::MAX)?;
                let mut value = arguments[0].clone();
                for at in &arguments[1..] {
                    value = index(interp, &value, at)?;
                }
                Ok(value)
            }
            Self::Slice => {
                count(1, 4)?;
                slice(interp, arguments)
            }
            Self::Print => text(format::print(interp, arguments)?),
            Self::Println => text(format::println(interp, arguments)?),
            Self::Printf => {
                count(1, usize::MAX)?;
                text(format::printf(interp, arguments)?)
            }
            Self::Json => {
                count(1, 1)?;
                text(format::json(interp, &arguments[0])?)
            }
            Self::CurrentDate => text(date(interp.now)),
            Self::YesterdayDate => text(date(interp.now.map(yesterday))),
            Self::TypeScriptType => {
                count(1, 1)?;
                text(typescript(&arguments[0]))
            }
        }
    }
}

fn equal(interp: &mut Interp<'_>, a: &GoValue, b: &GoValue) -> Run<bool> {
    use GoValue::{Bool, Float, Int, List, Map, Nil, Text};
    match (a, b) {
        (List(_) | Map(_), _) | (_, List(_) | Map(_)) => Err(GoFault::Comparison {
            left: a.kind(),
            right: b.kind(),
        }),
        (Nil, Nil) => Ok(true),
        // What is missing is equal to nothing else, which is no mistake.
        (Nil, _) | (_, Nil) => Ok(false),
        (Bool(a), Bool(b)) => Ok(a == b),
        (Int(a), Int(b)) => Ok(a == b),
        (Float(a), Float(b)) => Ok(a == b),
        (Text(a), Text(b)) => {
            interp.step(a.len().min(b.len()) / 64)?;
            Ok(a == b)
        }
        _ => Err(GoFault::Comparison {
            left: a.kind(),
            right: b.kind(),
        }),
    }
}

fn order(a: &GoValue, b: &GoValue) -> Run<Option<Ordering>> {
    match (a, b) {
        (GoValue::Int(a), GoValue::Int(b)) => Ok(Some(a.cmp(b))),
        (GoValue::Float(a), GoValue::Float(b)) => Ok(a.partial_cmp(b)),
        (GoValue::Text(a), GoValue::Text(b)) => Ok(Some(a.cmp(b))),
        _ => Err(GoFault::Comparison {
            left: a.kind(),
            right: b.kind(),
        }),
    }
}

fn len(value: &GoValue, operation: &'static str) -> Run<usize> {
    match value {
        GoValue::Text(text) => Ok(text.len()),
        GoValue::List(list) => Ok(list.items().len()),
        GoValue::Map(pairs) => Ok(pairs.len()),
        // A list that is missing has nothing in it.
        GoValue::Nil => Ok(0),
        other => Err(GoFault::Type {
            of: other.kind(),
            operation,
        }),
    }
}

/// A place in something of `len` places, or, with `end`, right after it.
fn place(at: &GoValue, len: usize, end: bool) -> Run<usize> {
    let GoValue::Int(index) = *at else {
        return Err(GoFault::Type {
            of: at.kind(),
            operation: "an index",
        });
    };
    let inside = |&at: &usize| at < len || (end && at == len);
    let found = usize::try_from(index).ok().filter(inside);
    found.ok_or(GoFault::Index { index, len })
}

fn index(interp: &mut Interp<'_>, value: &GoValue, at: &GoValue) -> Run<GoValue> {
    match (value, at) {
        (GoValue::Map(pairs), GoValue::Text(key)) => {
            interp.step(pairs.len() / 8 + 1)?;
            let found = pairs.iter().find(|(known, _)| known == key);
            Ok(found.map(|(_, value)| value.clone()).unwrap_or_default())
        }
        (GoValue::List(list), at) => {
            let at = place(at, list.items().len(), false)?;
            Ok(list.items()[at].clone())
        }
        (GoValue::Text(text), at) => {
            let at = place(at, text.len(), false)?;
            Ok(GoValue::Int(i64::from(text.as_bytes()[at])))
        }
        (other, _) => Err(GoFault::Type {
            of: other.kind(),
            operation: "index",
        }),
    }
}

fn slice(interp: &mut Interp<'_>, arguments: &[GoValue]) -> Run<GoValue> {
    let value = &arguments[0];
    let all = len(value, "slice")?;
    let bound = |at: usize, otherwise| match arguments.get(at) {
        Some(at) => place(at, all, true),
        None => Ok(otherwise),
    };
    let (from, to) = (bound(1, 0)?, bound(2, all)?);
    // A third bound limits the capacity, which nothing here has.
    bound(3, all)?;
    let wrong = GoFault::Index {
        index: from as i64,
        len: to,
    };
    match value {
        GoValue::List(list) => list.part(from, to).map(GoValue::List).ok_or(wrong),
        GoValue::Text(text) => {
            interp.make(to.saturating_sub(from))?;
            // Texts are cut at bytes in Go; half a character is no text.
            let part = text.get(from..to).ok_or(wrong)?;
            Ok(GoValue::Text(part.into()))
        }
        GoValue::Nil => Ok(GoValue::Nil),
        other => Err(GoFault::Type {
            of: other.kind(),
            operation: "slice",
        }),
    }
}

fn date(now: Option<DateTime>) -> String {
    now.map_or_else(String::new, |now| {
        alloc::format!("{:04}-{:02}-{:02}", now.year, now.month, now.day)
    })
}

fn yesterday(now: DateTime) -> DateTime {
    let leap = |year: u16| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let days = |year, month| match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap(year) => 29,
        2 => 28,
        _ => 31,
    };
    match (now.month, now.day) {
        (_, 2..) => DateTime {
            day: now.day - 1,
            ..now
        },
        (2.., _) => DateTime {
            month: now.month - 1,
            day: days(now.year, now.month - 1),
            ..now
        },
        _ => DateTime {
            year: now.year.saturating_sub(1),
            month: 12,
            day: 31,
            ..now
        },
    }
}

/// The type of a schema in TypeScript's words.
fn typescript(value: &GoValue) -> String {
    let word = |name: &str| match name {
        "integer" | "number" => "number",
        "boolean" => "boolean",
        "string" => "string",
        "array" => "any[]",
        "object" => "Record<string, any>",
        "null" => "null",
        _ => "any",
    };
    match value {
        GoValue::Text(name) => word(name).to_string(),
        GoValue::List(list) => {
            let words = list.items().iter().map(|item| match item {
                GoValue::Text(name) => word(name),
                _ => "any",
            });
            words.collect::<alloc::vec::Vec<_>>().join(" | ")
        }
        _ => "any".to_string(),
    }
}
