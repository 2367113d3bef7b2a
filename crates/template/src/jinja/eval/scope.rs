//! Variables. Scopes live in one arena and name their parents by index, so that macros can keep the scope that they
//! were defined in without counting references; a scope's place is used again unless a macro kept it.
use super::Interp;
use crate::jinja::ast::Symbol;
use crate::jinja::error::{Missing, Run};
use crate::jinja::value::{Function, Value};
use alloc::vec::Vec;

/// One level of variables.
pub(super) struct Scope {
    /// By symbol. A scope has few variables and comes and goes with every iteration.
    vars: Vec<(Symbol, Value)>,
    parent: Option<usize>,
    /// A macro refers to this scope.
    kept: bool,
}

/// What a scope costs, and what a variable costs in it.
const SCOPE_BYTES: usize = 64;
const VARIABLE_BYTES: usize = 96;

impl Interp<'_> {
    pub(super) fn new_scope(&mut self, parent: Option<usize>) -> Run<usize> {
        if let Some(place) = self.free_scopes.pop()
            && let Some(scope) = self.scopes.get_mut(place)
        {
            scope.parent = parent;
            return Ok(place);
        }
        let scope = Scope {
            vars: Vec::new(),
            parent,
            kept: false,
        };
        self._arena.grow(2 * SCOPE_BYTES)?;
        self.scopes.push(scope);
        Ok(self.scopes.len() - 1)
    }

    fn free_scope(&mut self, place: usize) {
        if let Some(scope) = self.scopes.get_mut(place)
            && !scope.kept
        {
            scope.vars.clear();
            self.free_scopes.push(place);
        }
    }

    /// Runs `work` in a new scope inside `parent`.
    pub(super) fn in_scope<T>(
        &mut self,
        parent: usize,
        work: impl FnOnce(&mut Self) -> Run<T>,
    ) -> Run<T> {
        let scope = self.new_scope(Some(parent))?;
        let outer = core::mem::replace(&mut self.scope, scope);
        let result = work(self);
        self.scope = outer;
        self.free_scope(scope);
        result
    }

    /// Marks the current scope and those around it as kept by a macro.
    pub(super) fn keep_scopes(&mut self) {
        let mut place = Some(self.scope);
        while let Some(scope) = place.and_then(|place| self.scopes.get_mut(place)) {
            if scope.kept {
                break;
            }
            scope.kept = true;
            place = scope.parent;
        }
    }

    pub(super) fn assign(&mut self, symbol: Symbol, value: Value) -> Run<()> {
        let Some(scope) = self.scopes.get_mut(self.scope) else {
            return Ok(());
        };
        match scope
            .vars
            .binary_search_by_key(&symbol, |(known, _)| *known)
        {
            Ok(place) => {
                if let Some((_, slot)) = scope.vars.get_mut(place) {
                    *slot = value;
                }
                Ok(())
            }
            Err(place) => {
                let moved = scope.vars.len() - place;
                if scope.kept {
                    self._arena.grow(VARIABLE_BYTES)?;
                }
                scope.vars.insert(place, (symbol, value));
                self.step(moved / 8)
            }
        }
    }

    /// The value of a variable: in the scopes, then in the context, then among the functions.
    pub(super) fn lookup(&mut self, symbol: Symbol) -> Run<Value> {
        let mut place = Some(self.scope);
        while let Some(scope) = place.and_then(|place| self.scopes.get(place)) {
            let found = scope
                .vars
                .binary_search_by_key(&symbol, |(known, _)| *known);
            if let Some((_, value)) = found.ok().and_then(|place| scope.vars.get(place)) {
                return Ok(value.clone());
            }
            place = scope.parent;
        }
        let Some(name) = self.ast.names.get(symbol as usize) else {
            return Ok(Value::None);
        };
        if let Some(value) = self.context.as_map().and_then(|map| map.get_str(name)) {
            return Ok(value.clone());
        }
        match self.function(name) {
            Some(function) => Ok(function),
            None => self.undefined(Missing::Name(name.clone())),
        }
    }

    fn function(&self, name: &str) -> Option<Value> {
        let function = match name {
            "range" => Function::Range,
            "dict" => Function::Dict,
            "namespace" => Function::Namespace,
            "cycler" => Function::Cycler,
            "joiner" => Function::Joiner,
            "raise_exception" => Function::RaiseException,
            "strftime_now" if self.options.now.is_some() => Function::StrftimeNow,
            _ => return None,
        };
        Some(Value::Function(function))
    }
}
