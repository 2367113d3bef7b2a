//! Arithmetic, concatenation and repetition.
use super::Interp;
use crate::jinja::ast::ArithOp;
use crate::jinja::error::{Fault, Run, TypeFault, not};
use crate::jinja::filters::html;
use crate::jinja::format;
use crate::jinja::value::{List, Str, Value};

/// Two numbers made alike.
enum Pair {
    Ints(i64, i64),
    Floats(f64, f64),
}

pub(crate) fn as_float(value: &Value) -> Option<f64> {
    match value {
        Value::Float(number) => Some(*number),
        other => other.as_int().map(|number| number as f64),
    }
}

fn numbers(a: &Value, b: &Value) -> Option<Pair> {
    match (a, b) {
        (Value::Float(_), _) | (_, Value::Float(_)) => {
            Some(Pair::Floats(as_float(a)?, as_float(b)?))
        }
        _ => Some(Pair::Ints(a.as_int()?, b.as_int()?)),
    }
}

fn symbol(op: ArithOp) -> &'static str {
    match op {
        ArithOp::Add => "+",
        ArithOp::Sub => "-",
        ArithOp::Mul => "*",
        ArithOp::Div => "/",
        ArithOp::FloorDiv => "//",
        ArithOp::Mod => "%",
        ArithOp::Pow => "**",
    }
}

impl Interp<'_> {
    pub(crate) fn arith(&mut self, op: ArithOp, a: &Value, b: &Value) -> Run<Value> {
        // A string's own `%` comes before the right operand is asked.
        if let (ArithOp::Mod, Value::Str(template)) = (op, a) {
            return format::percent(self, template, b);
        }
        for side in [a, b] {
            if let Value::Undefined(missing) = side {
                return Err(Fault::Undefined(missing.why.clone()));
            }
        }
        if let Some(pair) = numbers(a, b) {
            return match pair {
                Pair::Ints(a, b) => int_arith(op, a, b),
                Pair::Floats(a, b) => float_arith(op, a, b),
            };
        }
        match (op, a, b) {
            (ArithOp::Add, Value::Str(a), Value::Str(b)) => self.add_text(a, b),
            (ArithOp::Add, Value::List(a), Value::List(b)) => Ok(Value::List(self.chain(a, b)?)),
            (ArithOp::Add, Value::Tuple(a), Value::Tuple(b)) => Ok(Value::Tuple(self.chain(a, b)?)),
            (ArithOp::Mul, sequence, count) | (ArithOp::Mul, count, sequence)
                if count.as_int().is_some() && repeats(sequence) =>
            {
                let count = count.as_int().unwrap_or(0);
                self.repeat(sequence, usize::try_from(count).unwrap_or(0))
            }
            _ => {
                let (left, right) = (a.type_name(), b.type_name());
                let op = symbol(op);
                Err(TypeFault::Operands { op, left, right }.into())
            }
        }
    }

    fn add_text(&mut self, a: &Str, b: &Str) -> Run<Value> {
        let mut buffer = self.buffer_of(a.len().saturating_add(b.len()))?;
        self.touch(a.len().saturating_add(b.len()))?;
        if !a.is_markup() && !b.is_markup() {
            buffer.push_str(a)?;
            buffer.push_str(b)?;
            return Ok(Value::Str(Str::from_buffer(buffer)));
        }
        for side in [a, b] {
            if side.is_markup() {
                buffer.push_str(side)?;
            } else {
                html::escape_into(&mut buffer, side)?;
            }
        }
        Ok(Value::Str(Str::markup_from_buffer(buffer)))
    }

    fn chain(&mut self, a: &List, b: &List) -> Run<List> {
        self.step(1 + (a.len() + b.len()) / 2)?;
        let mut growing = self.growing_of(a.len() + b.len())?;
        for item in a.iter().chain(b.iter()) {
            growing.push(item.clone())?;
        }
        self.finish_list(growing)
    }

    fn repeat(&mut self, sequence: &Value, count: usize) -> Run<Value> {
        match sequence {
            Value::Str(text) => {
                let bytes = text.len().saturating_mul(count);
                let mut buffer = self.buffer_of(bytes)?;
                self.touch(bytes)?;
                if !text.is_empty() {
                    buffer.push_repeated(text, count)?;
                }
                Ok(self.finish_like(buffer, text))
            }
            Value::List(items) | Value::Tuple(items) => {
                let total = items.len().saturating_mul(count);
                let mut growing = self.growing_of(total)?;
                self.step(1 + total / 2)?;
                if !items.is_empty() {
                    for _ in 0..count {
                        for item in items.iter() {
                            growing.push(item.clone())?;
                        }
                    }
                }
                let list = self.finish_list(growing)?;
                Ok(match sequence {
                    Value::List(_) => Value::List(list),
                    _ => Value::Tuple(list),
                })
            }
            other => not(other.type_name(), "repeatable"),
        }
    }

    pub(super) fn negate(&mut self, value: &Value) -> Run<Value> {
        match value {
            Value::Float(number) => Ok(Value::Float(-number)),
            other => match self.operand(other)?.checked_neg() {
                Some(number) => Ok(Value::Int(number)),
                None => Err(TypeFault::Overflow.into()),
            },
        }
    }

    pub(super) fn positive(&mut self, value: &Value) -> Run<Value> {
        match value {
            Value::Float(number) => Ok(Value::Float(*number)),
            other => Ok(Value::Int(self.operand(other)?)),
        }
    }

    fn operand(&mut self, value: &Value) -> Run<i64> {
        if let Value::Undefined(missing) = value {
            return Err(Fault::Undefined(missing.why.clone()));
        }
        match value.as_int() {
            Some(number) => Ok(number),
            None => not(value.type_name(), "a number"),
        }
    }
}

fn repeats(value: &Value) -> bool {
    matches!(value, Value::Str(_) | Value::List(_) | Value::Tuple(_))
}

fn int_arith(op: ArithOp, a: i64, b: i64) -> Run<Value> {
    let zero = || Fault::from(TypeFault::ZeroDivision);
    let result = match op {
        ArithOp::Add => a.checked_add(b),
        ArithOp::Sub => a.checked_sub(b),
        ArithOp::Mul => a.checked_mul(b),
        ArithOp::Div if b == 0 => return Err(zero()),
        ArithOp::Div => return Ok(Value::Float(a as f64 / b as f64)),
        ArithOp::FloorDiv | ArithOp::Mod if b == 0 => return Err(zero()),
        ArithOp::FloorDiv => floor_div(a, b),
        ArithOp::Mod => a.checked_rem(b).map(|rest| {
            if rest != 0 && (rest < 0) != (b < 0) {
                rest + b
            } else {
                rest
            }
        }),
        ArithOp::Pow if b < 0 && a == 0 => return Err(zero()),
        ArithOp::Pow if b < 0 => return Ok(Value::Float(libm::pow(a as f64, b as f64))),
        ArithOp::Pow => match (a, u32::try_from(b)) {
            (_, Ok(exponent)) => a.checked_pow(exponent),
            (0 | 1, _) => Some(a),
            (-1, _) => Some(if b % 2 == 0 { 1 } else { -1 }),
            _ => None,
        },
    };
    result.map(Value::Int).ok_or(TypeFault::Overflow.into())
}

fn floor_div(a: i64, b: i64) -> Option<i64> {
    let quotient = a.checked_div(b)?;
    let inexact = a.checked_rem(b)? != 0;
    Some(if inexact && (a < 0) != (b < 0) {
        quotient - 1
    } else {
        quotient
    })
}

fn float_arith(op: ArithOp, a: f64, b: f64) -> Run<Value> {
    let divides = matches!(op, ArithOp::Div | ArithOp::FloorDiv | ArithOp::Mod);
    if divides && b == 0.0 || op == ArithOp::Pow && a == 0.0 && b < 0.0 {
        return Err(TypeFault::ZeroDivision.into());
    }
    Ok(Value::Float(match op {
        ArithOp::Add => a + b,
        ArithOp::Sub => a - b,
        ArithOp::Mul => a * b,
        ArithOp::Div => a / b,
        ArithOp::FloorDiv => libm::floor((a - float_mod(a, b)) / b),
        ArithOp::Mod => float_mod(a, b),
        ArithOp::Pow => {
            let power = libm::pow(a, b);
            if power.is_infinite() && a.is_finite() && b.is_finite() {
                return Err(Fault::from(TypeFault::Overflow));
            }
            power
        }
    }))
}

fn float_mod(a: f64, b: f64) -> f64 {
    let rest = libm::fmod(a, b);
    if rest == 0.0 {
        return libm::copysign(0.0, b);
    }
    if (rest < 0.0) != (b < 0.0) {
        rest + b
    } else {
        rest
    }
}
