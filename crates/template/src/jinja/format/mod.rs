//! Values as text: Python's `str` and `repr`, JSON, `str.format`, `%` and `strftime`.
mod braces;
mod float;
mod json;
mod percent;
mod python_repr;
mod spec;
mod strftime;

pub(crate) use braces::braces;
pub(crate) use float::{parse_float, round_half_even};
pub(crate) use json::{JsonStyle, json};
pub(crate) use percent::percent;
pub(crate) use spec::fixed;
pub use strftime::DateTime;
pub(crate) use strftime::strftime;
