//! Statements.
use super::{Interp, OBJECT_BYTES};
use crate::jinja::ast::{Postfix, Stmt, StmtKind, Target};
use crate::jinja::error::{Fault, Missing, Run, TypeFault};
use crate::jinja::value::{Closure, Str, Value};
use alloc::sync::Arc;

/// What a statement asks of the loop around it.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Flow {
    Next,
    Break,
    Continue,
}

impl<'t> Interp<'t> {
    pub(super) fn block(&mut self, body: &'t [Stmt]) -> Run<Flow> {
        for stmt in body {
            self.step(1)?;
            self.line = stmt.line;
            let flow = match &stmt.kind {
                StmtKind::Text(text) => {
                    self.write(text)?;
                    Flow::Next
                }
                kind => self.nested(|interp| interp.statement(kind))?,
            };
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn statement(&mut self, kind: &'t StmtKind) -> Run<Flow> {
        match kind {
            StmtKind::Text(text) => self.write(text)?,
            StmtKind::Print(expr) => {
                let value = self.eval(expr)?;
                self.print(&value)?;
            }
            StmtKind::If {
                branches,
                otherwise,
            } => {
                for (test, body) in branches {
                    if self.eval(test)?.is_true() {
                        return self.block(body);
                    }
                }
                return self.block(otherwise);
            }
            StmtKind::For(stmt) => return self.for_loop(stmt),
            StmtKind::Set(target, expr) => {
                let value = self.eval(expr)?;
                self.assign_target(target, value)?;
            }
            StmtKind::SetBlock {
                target,
                filters,
                body,
            } => {
                let (value, flow) = self.filtered_block(filters, body)?;
                if flow != Flow::Next {
                    return Ok(flow);
                }
                self.assign_target(target, value)?;
            }
            StmtKind::Filter { filters, body } => {
                let (value, flow) = self.filtered_block(filters, body)?;
                if flow != Flow::Next {
                    return Ok(flow);
                }
                self.print(&value)?;
            }
            StmtKind::With { bindings, body } => return self.with(bindings, body),
            StmtKind::Macro(index) => self.define_macro(*index)?,
            StmtKind::Call { caller, call } => {
                let caller = self.closure(*caller)?;
                let value = self.eval_with_caller(call, caller)?;
                self.print(&value)?;
            }
            StmtKind::Generation(body) => {
                self.in_scope(self.scope, |interp| interp.block(body))?;
            }
            StmtKind::Break => return Ok(Flow::Break),
            StmtKind::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    /// Writes a value as `{{ … }}` does.
    pub(super) fn print(&mut self, value: &Value) -> Run<()> {
        match value {
            Value::Str(text) => self.write(text),
            Value::Undefined(_) => Ok(()),
            other => {
                let text = self.str_of(other)?;
                self.write(&text)
            }
        }
    }

    /// What `body` writes, through `filters`.
    fn filtered_block(&mut self, filters: &'t [Postfix], body: &'t [Stmt]) -> Run<(Value, Flow)> {
        self.in_scope(self.scope, |interp| {
            let mut flow = Flow::Next;
            let text: Str = interp.capture(|interp| {
                flow = interp.block(body)?;
                Ok(())
            })?;
            let value = interp.postfixes(Value::Str(text), filters, None)?;
            Ok((value, flow))
        })
    }

    fn with(
        &mut self,
        bindings: &'t [(Target, crate::jinja::ast::Expr)],
        body: &'t [Stmt],
    ) -> Run<Flow> {
        let mut values = self.growing_of(bindings.len())?;
        for (_, expr) in bindings {
            let value = self.eval(expr)?;
            values.push(value)?;
        }
        let (values, _charge) = values.finish();
        self.in_scope(self.scope, |interp| {
            for ((target, _), value) in bindings.iter().zip(values) {
                interp.assign_target(target, value)?;
            }
            interp.block(body)
        })
    }

    /// A macro with the scopes around it.
    fn closure(&mut self, index: usize) -> Run<Value> {
        self.keep_scopes();
        let name = self.ast.macros.get(index).map(|decl| decl.name.clone());
        Ok(Value::Macro(Arc::new(Closure {
            decl: index,
            scope: self.scope,
            name: name.unwrap_or_else(|| "".into()),
            _charge: self.meter.charge(OBJECT_BYTES)?,
        })))
    }

    fn define_macro(&mut self, index: usize) -> Run<()> {
        let closure = self.closure(index)?;
        match self.ast.macros.get(index) {
            Some(decl) => self.assign(decl.symbol, closure),
            None => Ok(()),
        }
    }

    pub(super) fn assign_target(&mut self, target: &Target, value: Value) -> Run<()> {
        match target {
            Target::Name(symbol) => self.assign(*symbol, value),
            Target::Attribute(symbol, name) => match self.lookup(*symbol)? {
                Value::Namespace(at) => {
                    if name.starts_with('_') {
                        let owner = "namespace";
                        let name = name.clone();
                        return Err(Fault::Undefined(Missing::Unsafe { owner, name }));
                    }
                    self.set_attribute(at, name, value)
                }
                _ => Err(TypeFault::NotNamespace.into()),
            },
            Target::Tuple(targets) => {
                let items = self.collect(&value)?;
                if items.len() != targets.len() {
                    let wanted = targets.len();
                    let found = items.len();
                    return Err(TypeFault::Unpack { wanted, found }.into());
                }
                for (target, item) in targets.iter().zip(items.iter()) {
                    self.assign_target(target, item.clone())?;
                }
                Ok(())
            }
        }
    }

    fn set_attribute(&mut self, at: usize, name: &Arc<str>, value: Value) -> Run<()> {
        let attributes = self.namespaces.get(at).map_or(0, alloc::vec::Vec::len);
        self.step(1 + attributes / 8)?;
        let Some(attributes) = self.namespaces.get_mut(at) else {
            return Ok(());
        };
        let found = attributes
            .iter_mut()
            .find(|(key, _)| key.as_str() == Some(name));
        match found {
            Some((_, slot)) => *slot = value,
            None => {
                self._arena.grow(VARIABLE_BYTES)?;
                let key: &str = name;
                attributes.push((key.into(), value));
            }
        }
        Ok(())
    }
}

/// What an attribute of a namespace costs.
const VARIABLE_BYTES: usize = 160;
