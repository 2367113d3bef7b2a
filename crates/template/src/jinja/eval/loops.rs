//! `for` and its `loop` variable. Items come one by one, and only as far ahead as the template looks, because a
//! condition may depend on what the body did before.
use super::stmt::Flow;
use super::{Interp, Source};
use crate::jinja::arguments::Arguments;
use crate::jinja::ast::{For, LOOP};
use crate::jinja::error::{Missing, Run, bad_value};
use crate::jinja::value::{List, Str, Value};
use alloc::collections::VecDeque;
use alloc::sync::Arc;

/// A running loop.
pub(super) struct Loop<'t> {
    stmt: &'t For,
    source: Source,
    /// The scope around the loop.
    outer: usize,
    /// Items that were looked at before their turn.
    ahead: VecDeque<Value>,
    /// Iterations begun.
    index: usize,
    length: Option<usize>,
    before: Option<Value>,
    current: Option<Value>,
    changed: Option<List>,
    depth: usize,
}

/// What a loop's state costs.
const LOOP_BYTES: usize = 320;

impl<'t> Interp<'t> {
    pub(super) fn for_loop(&mut self, stmt: &'t For) -> Run<Flow> {
        let over = self.eval(&stmt.over)?;
        if stmt.recursive {
            let text = self.capture(|interp| interp.run_loop(stmt, &over, 0).map(|_| ()))?;
            self.write(&text)?;
            return Ok(Flow::Next);
        }
        self.run_loop(stmt, &over, 0)
    }

    fn run_loop(&mut self, stmt: &'t For, over: &Value, depth: usize) -> Run<Flow> {
        let source = self.iterate(over)?;
        let length = match stmt.condition {
            Some(_) => None,
            None => source.known_len(),
        };
        let state = Loop {
            stmt,
            source,
            outer: self.scope,
            ahead: VecDeque::new(),
            index: 0,
            length,
            before: None,
            current: None,
            changed: None,
            depth,
        };
        let handle = Arc::new(self.new_loop(state)?);
        let result = self.iterations(stmt, &handle);
        if Arc::strong_count(&handle) == 1 {
            self.free_loops.push(*handle);
        }
        // What the body says about the loop ends here; only the other branch belongs to the loop around.
        if result? {
            Ok(Flow::Next)
        } else {
            self.in_scope(self.scope, |interp| interp.block(&stmt.otherwise))
        }
    }

    fn new_loop(&mut self, state: Loop<'t>) -> Run<usize> {
        if let Some(place) = self.free_loops.pop()
            && let Some(slot) = self.loops.get_mut(place)
        {
            *slot = state;
            return Ok(place);
        }
        self._arena.grow(2 * LOOP_BYTES)?;
        self.loops.push(state);
        Ok(self.loops.len() - 1)
    }

    /// Runs the body for each item; false if it never came to its end, which is what Jinja's `else` asks.
    fn iterations(&mut self, stmt: &'t For, handle: &Arc<usize>) -> Run<bool> {
        let mut completed = false;
        while let Some(item) = self.next_item(**handle)? {
            self.step(1)?;
            let flow = self.in_scope(self.scope, |interp| {
                if stmt.uses_loop {
                    interp.assign(LOOP, Value::Loop(handle.clone()))?;
                }
                interp.assign_target(&stmt.target, item)?;
                interp.block(&stmt.body)
            })?;
            completed |= flow == Flow::Next;
            if flow == Flow::Break {
                break;
            }
        }
        Ok(completed)
    }

    fn next_item(&mut self, at: usize) -> Run<Option<Value>> {
        self.look_ahead(at, 1)?;
        let Some(state) = self.loops.get_mut(at) else {
            return Ok(None);
        };
        let item = state.ahead.pop_front();
        if item.is_some() && state.stmt.uses_loop {
            state.index += 1;
            state.before = state.current.take();
            state.current = item.clone();
        }
        Ok(item)
    }

    /// Fetches items until `count` are waiting or there are no more.
    fn look_ahead(&mut self, at: usize, count: usize) -> Run<()> {
        loop {
            let Some(state) = self.loops.get_mut(at) else {
                return Ok(());
            };
            if state.ahead.len() >= count {
                return Ok(());
            }
            let (stmt, outer) = (state.stmt, state.outer);
            let mut source = core::mem::replace(&mut state.source, Source::Empty);
            let item = self.next_of(&mut source)?;
            if let Some(state) = self.loops.get_mut(at) {
                state.source = source;
            }
            let Some(item) = item else {
                return Ok(());
            };
            self.step(1)?;
            let wanted = match &stmt.condition {
                None => true,
                Some(condition) => self.in_scope(outer, |interp| {
                    interp.assign_target(&stmt.target, item.clone())?;
                    Ok(interp.eval(condition)?.is_true())
                })?,
            };
            if wanted && let Some(state) = self.loops.get_mut(at) {
                if state.ahead.len() >= 64 {
                    // Only `loop.length` of something without a length reads this far ahead.
                    self._arena.grow(size_of::<Value>())?;
                }
                state.ahead.push_back(item);
            }
        }
    }

    fn loop_length(&mut self, at: usize) -> Run<usize> {
        if let Some(length) = self.loops.get(at).and_then(|state| state.length) {
            return Ok(length);
        }
        self.look_ahead(at, usize::MAX)?;
        let Some(state) = self.loops.get_mut(at) else {
            return Ok(0);
        };
        let length = state.index + state.ahead.len();
        state.length = Some(length);
        Ok(length)
    }

    /// The attribute `name` of the loop variable.
    pub(super) fn loop_attribute(&mut self, at: usize, name: &str) -> Run<Option<Value>> {
        let Some(state) = self.loops.get(at) else {
            return Ok(None);
        };
        let index = state.index;
        let number = |n: usize| Value::Int(i64::try_from(n).unwrap_or(i64::MAX));
        let value = match name {
            "index" => number(index),
            "index0" => number(index.saturating_sub(1)),
            "first" => Value::Bool(index == 1),
            "depth" => number(state.depth + 1),
            "depth0" => number(state.depth),
            "length" => number(self.loop_length(at)?),
            "revindex" => number((self.loop_length(at)? + 1).saturating_sub(index)),
            "revindex0" => number(self.loop_length(at)?.saturating_sub(index)),
            "last" => {
                self.look_ahead(at, 1)?;
                let ahead = self.loops.get(at).map(|state| state.ahead.is_empty());
                Value::Bool(ahead.unwrap_or(true))
            }
            "previtem" => match (index, &state.before) {
                (2.., Some(item)) => item.clone(),
                _ => self.undefined(Missing::Because("there is no previous item"))?,
            },
            "nextitem" => {
                self.look_ahead(at, 1)?;
                let state = self.loops.get(at);
                let next = state.and_then(|state| state.ahead.front().cloned());
                match next {
                    Some(item) => item,
                    None => self.undefined(Missing::Because("there is no next item"))?,
                }
            }
            _ => return Ok(None),
        };
        Ok(Some(value))
    }

    /// `loop.cycle(…)`.
    pub(super) fn loop_cycle(&mut self, at: usize, args: &Arguments) -> Run<Value> {
        let index = self.loops.get(at).map_or(0, |state| state.index);
        let count = args.positional.len();
        match index.saturating_sub(1).checked_rem(count) {
            Some(at) => Ok(args.positional.get(at).cloned().unwrap_or_default()),
            None => bad_value("loop.cycle", "no items for cycling given"),
        }
    }

    /// `loop.changed(…)`.
    pub(super) fn loop_changed(&mut self, at: usize, args: Arguments) -> Run<Value> {
        let values = self.list_of(args.positional)?;
        let last = self.loops.get(at).and_then(|state| state.changed.clone());
        let same = match last {
            Some(last) => self.equal(&Value::List(last), &Value::List(values.clone()))?,
            None => false,
        };
        if !same && let Some(state) = self.loops.get_mut(at) {
            state.changed = Some(values);
        }
        Ok(Value::Bool(!same))
    }

    /// `loop(items)`: the loop's own body over other items.
    pub(super) fn loop_again(&mut self, at: usize, over: &Value) -> Run<Value> {
        let Some(state) = self.loops.get(at) else {
            return Ok(Value::None);
        };
        if !state.stmt.recursive {
            return bad_value("loop", "the loop must have the 'recursive' marker");
        }
        let (stmt, outer, depth) = (state.stmt, state.outer, state.depth + 1);
        let inner = core::mem::replace(&mut self.scope, outer);
        let text = self.nested(|interp| {
            interp.capture(|interp| interp.run_loop(stmt, over, depth).map(|_| ()))
        });
        self.scope = inner;
        let text: Str = text?;
        Ok(Value::Str(text))
    }
}
