//! The interpreter: walks the tree, with every step, level and byte counted.
mod attribute;
mod call;
mod compare;
mod expr;
mod iterate;
mod loops;
mod operators;
mod scope;
mod stmt;

pub(crate) use attribute::slice_indices;
pub(crate) use compare::{check_key, is_number};
pub(crate) use iterate::Source;
pub(crate) use operators::as_float;

use super::RenderOptions;
use super::ast::Ast;
use super::error::{Fault, LimitKind, Missing, Run, TemplateError, TypeFault};
use super::limits::{Buffer, Charge, Growing, Meter};
use super::value::{List, Map, Str, Undefined, Value};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use loops::Loop;
use scope::Scope;

/// Renders a template.
pub(crate) fn render(
    ast: &Ast,
    context: &Value,
    options: &RenderOptions,
) -> Result<String, TemplateError> {
    let meter = Meter::new(options.limits.memory_bytes);
    let mut interp = Interp {
        ast,
        context,
        options,
        meter,
        steps_left: options.limits.steps,
        depth_left: options.limits.depth,
        line: 1,
        scopes: Vec::new(),
        free_scopes: Vec::new(),
        scope: 0,
        namespaces: Vec::new(),
        loops: Vec::new(),
        free_loops: Vec::new(),
        captures: Vec::new(),
        output: String::new(),
        _arena: Charge::default(),
    };
    match interp.run() {
        Ok(()) => Ok(interp.output),
        Err(fault) => Err(fault.at(interp.line)),
    }
}

/// What a small object costs: an undefined value, a range, a method.
pub(crate) const OBJECT_BYTES: usize = 128;

/// The attributes of one `namespace(…)`.
pub(crate) type Namespace = Vec<(Value, Value)>;

/// The state of one render.
pub(crate) struct Interp<'t> {
    ast: &'t Ast,
    context: &'t Value,
    pub(crate) options: &'t RenderOptions,
    pub(crate) meter: Arc<Meter>,
    steps_left: u64,
    depth_left: u32,
    /// The line of the last thing evaluated, for errors.
    pub(crate) line: u32,
    scopes: Vec<Scope>,
    free_scopes: Vec<usize>,
    /// The current scope.
    scope: usize,
    pub(crate) namespaces: Vec<Namespace>,
    loops: Vec<Loop<'t>>,
    free_loops: Vec<usize>,
    /// Output that macros and blocks hold back, innermost last.
    captures: Vec<Buffer>,
    output: String,
    /// What the arenas above hold of the meter.
    _arena: Charge,
}

impl<'t> Interp<'t> {
    fn run(&mut self) -> Run<()> {
        let Value::Map(context) = self.context else {
            let of = self.context.type_name();
            let needed = "a mapping of variables";
            return Err(TypeFault::Not { of, needed }.into());
        };
        if context.depth() > self.options.limits.depth {
            return Err(self.too_deep());
        }
        self._arena = self.meter.charge(0)?;
        self.scope = self.new_scope(None)?;
        let ast = self.ast;
        self.block(&ast.body)?;
        Ok(())
    }

    fn too_deep(&self) -> Fault {
        let limit = self.options.limits.depth;
        Fault::Limit(LimitKind::Depth, u64::from(limit))
    }

    /// Counts `steps` of work.
    pub(crate) fn step(&mut self, steps: usize) -> Run<()> {
        match self.steps_left.checked_sub(steps as u64) {
            Some(left) => {
                self.steps_left = left;
                Ok(())
            }
            None => {
                let limit = self.options.limits.steps;
                Err(Fault::Limit(LimitKind::Steps, limit))
            }
        }
    }

    /// Counts the work of moving or scanning `bytes`.
    pub(crate) fn touch(&mut self, bytes: usize) -> Run<()> {
        self.step(1 + bytes / 64)
    }

    /// Counts the work of looking at every character of `bytes` of text.
    pub(crate) fn scan(&mut self, bytes: usize) -> Run<()> {
        self.step(1 + bytes / 8)
    }

    /// Counts the work of finding a text key among `count`.
    pub(crate) fn find_key(&mut self, key: &Value, count: usize) -> Run<()> {
        let len = key.as_str().map_or(8, str::len);
        let rounds = (usize::BITS - count.leading_zeros()) as usize;
        self.step(1 + len.saturating_mul(rounds) / 256)
    }

    /// Runs `work` one level deeper.
    pub(crate) fn nested<T>(&mut self, work: impl FnOnce(&mut Self) -> Run<T>) -> Run<T> {
        match self.depth_left.checked_sub(1) {
            Some(left) => self.depth_left = left,
            None => return Err(self.too_deep()),
        }
        let result = work(self);
        self.depth_left += 1;
        result
    }

    /// Adds to the output, or to the innermost capture.
    pub(crate) fn write(&mut self, text: &str) -> Run<()> {
        self.touch(text.len())?;
        if let Some(capture) = self.captures.last_mut() {
            return capture.push_str(text);
        }
        let limit = self.options.limits.output_bytes;
        if text.len() > limit.saturating_sub(self.output.len()) {
            return Err(Fault::Limit(LimitKind::Output, limit as u64));
        }
        self.output.push_str(text);
        Ok(())
    }

    pub(crate) fn buffer(&self) -> Run<Buffer> {
        Buffer::new(&self.meter)
    }

    pub(crate) fn buffer_of(&self, bytes: usize) -> Run<Buffer> {
        Buffer::with_capacity(&self.meter, bytes)
    }

    pub(crate) fn growing<T>(&self) -> Run<Growing<T>> {
        Growing::new(&self.meter)
    }

    pub(crate) fn growing_of<T>(&self, count: usize) -> Run<Growing<T>> {
        Growing::with_capacity(&self.meter, count)
    }

    /// A string value with this text.
    pub(crate) fn text(&mut self, text: &str) -> Run<Value> {
        Ok(Value::Str(self.str(text)?))
    }

    pub(crate) fn str(&mut self, text: &str) -> Run<Str> {
        self.step(3 + text.len() / 64)?;
        let mut buffer = self.buffer_of(text.len())?;
        buffer.push_str(text)?;
        Ok(Str::from_buffer(buffer))
    }

    /// A string value with this text, HTML-safe if `like` is.
    pub(crate) fn text_like(&mut self, text: &str, like: &Str) -> Run<Value> {
        self.step(3 + text.len() / 64)?;
        let mut buffer = self.buffer_of(text.len())?;
        buffer.push_str(text)?;
        Ok(self.finish_like(buffer, like))
    }

    /// A finished buffer as a value, HTML-safe if `like` is.
    pub(crate) fn finish_like(&self, buffer: Buffer, like: &Str) -> Value {
        Value::Str(if like.is_markup() {
            Str::markup_from_buffer(buffer)
        } else {
            Str::from_buffer(buffer)
        })
    }

    pub(crate) fn finish_list(&self, growing: Growing<Value>) -> Run<List> {
        let (items, charge) = growing.finish();
        let list = List::charged(items, charge);
        if list.depth() > self.options.limits.depth {
            Err(self.too_deep())
        } else {
            Ok(list)
        }
    }

    pub(crate) fn list_of(&self, items: impl IntoIterator<Item = Value>) -> Run<List> {
        let mut growing = self.growing()?;
        for item in items {
            growing.push(item)?;
        }
        self.finish_list(growing)
    }

    /// A dictionary of these pairs, whose keys are checked to be hashable.
    pub(crate) fn finish_map(&mut self, growing: Growing<(Value, Value)>) -> Run<Map> {
        let count = growing.len();
        for (key, _) in growing.as_slice() {
            check_key(key)?;
            self.find_key(key, count)?;
        }
        let (pairs, mut charge) = growing.finish();
        // The index of keys.
        charge.grow(count.saturating_mul(16))?;
        let map = Map::charged(pairs, charge);
        if map.depth() > self.options.limits.depth {
            Err(self.too_deep())
        } else {
            Ok(map)
        }
    }

    pub(crate) fn map_of(&mut self, pairs: impl IntoIterator<Item = (Value, Value)>) -> Run<Map> {
        let mut growing = self.growing()?;
        for pair in pairs {
            growing.push(pair)?;
        }
        self.finish_map(growing)
    }

    /// A value that is not there.
    pub(crate) fn undefined(&self, why: Missing) -> Run<Value> {
        let _charge = self.meter.charge(OBJECT_BYTES)?;
        Ok(Value::Undefined(Arc::new(Undefined { why, _charge })))
    }

    /// What `work` writes, as text.
    fn capture(&mut self, work: impl FnOnce(&mut Self) -> Run<()>) -> Run<Str> {
        let buffer = self.buffer()?;
        self.captures.push(buffer);
        let result = work(self);
        let buffer = self.captures.pop();
        result?;
        match buffer {
            Some(buffer) => Ok(Str::from_buffer(buffer)),
            None => Ok("".into()),
        }
    }
}
