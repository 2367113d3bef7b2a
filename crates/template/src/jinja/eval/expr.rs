//! Expressions.
use super::Interp;
use crate::jinja::arguments::Arguments;
use crate::jinja::ast::{Args, Expr, Postfix, PostfixKind};
use crate::jinja::error::{Missing, Run, TypeFault, not};
use crate::jinja::value::{Str, Value};
use crate::jinja::{filters, predicates};

impl<'t> Interp<'t> {
    pub(super) fn eval(&mut self, expr: &'t Expr) -> Run<Value> {
        self.step(1)?;
        match expr {
            Expr::Const(value) => Ok(value.clone()),
            Expr::Name(symbol) => self.lookup(*symbol),
            expr => self.nested(|interp| interp.eval_compound(expr)),
        }
    }

    fn eval_compound(&mut self, expr: &'t Expr) -> Run<Value> {
        match expr {
            Expr::Const(value) => Ok(value.clone()),
            Expr::Name(symbol) => self.lookup(*symbol),
            Expr::List(items) => Ok(Value::List(self.eval_items(items)?)),
            Expr::Tuple(items) => Ok(Value::Tuple(self.eval_items(items)?)),
            Expr::Dict(pairs) => {
                let mut growing = self.growing_of(pairs.len())?;
                for (key, value) in pairs {
                    let pair = (self.eval(key)?, self.eval(value)?);
                    growing.push(pair)?;
                }
                Ok(Value::Map(self.finish_map(growing)?))
            }
            Expr::Postfix(base, chain) => {
                let base = self.eval(base)?;
                self.postfixes(base, chain, None)
            }
            Expr::Neg(operand) => {
                let operand = self.eval(operand)?;
                self.negate(&operand)
            }
            Expr::Pos(operand) => {
                let operand = self.eval(operand)?;
                self.positive(&operand)
            }
            Expr::Not(operand) => Ok(Value::Bool(!self.eval(operand)?.is_true())),
            Expr::Arith(first, rest) => {
                let mut left = self.eval(first)?;
                for (op, right) in rest {
                    let right = self.eval(right)?;
                    left = self.arith(*op, &left, &right)?;
                }
                Ok(left)
            }
            Expr::Concat(parts) => {
                let mut buffer = self.buffer()?;
                for part in parts {
                    let value = self.eval(part)?;
                    self.write_str(&mut buffer, &value)?;
                }
                self.touch(buffer.len())?;
                Ok(Value::Str(Str::from_buffer(buffer)))
            }
            Expr::Compare(first, rest) => self.eval_compare(first, rest),
            Expr::And(items) => self.eval_until(items, false),
            Expr::Or(items) => self.eval_until(items, true),
            Expr::Cond(cond) => {
                if self.eval(&cond.test)?.is_true() {
                    return self.eval(&cond.then);
                }
                match &cond.otherwise {
                    Some(expr) => self.eval(expr),
                    None => self.undefined(Missing::Else { line: cond.line }),
                }
            }
        }
    }

    fn eval_items(&mut self, items: &'t [Expr]) -> Run<crate::jinja::value::List> {
        let mut growing = self.growing_of(items.len())?;
        for item in items {
            let value = self.eval(item)?;
            growing.push(value)?;
        }
        self.finish_list(growing)
    }

    /// The first item whose truth is `truth`, or the last.
    fn eval_until(&mut self, items: &'t [Expr], truth: bool) -> Run<Value> {
        let mut value = Value::None;
        for item in items {
            value = self.eval(item)?;
            if value.is_true() == truth {
                break;
            }
        }
        Ok(value)
    }

    fn eval_compare(
        &mut self,
        first: &'t Expr,
        rest: &'t [(crate::jinja::ast::CompareOp, Expr)],
    ) -> Run<Value> {
        let mut left = self.eval(first)?;
        for (op, right) in rest {
            let right = self.eval(right)?;
            if !self.compare(*op, &left, &right)? {
                return Ok(Value::Bool(false));
            }
            left = right;
        }
        Ok(Value::Bool(true))
    }

    /// Evaluates a call with one more named argument, `caller`.
    pub(super) fn eval_with_caller(&mut self, call: &'t Expr, caller: Value) -> Run<Value> {
        match call {
            Expr::Postfix(base, chain) => {
                let base = self.eval(base)?;
                self.postfixes(base, chain, Some(caller))
            }
            other => self.eval(other),
        }
    }

    /// Applies attributes, subscripts, calls, filters and tests in order; the last call gets `caller`.
    pub(super) fn postfixes(
        &mut self,
        base: Value,
        chain: &'t [Postfix],
        mut caller: Option<Value>,
    ) -> Run<Value> {
        let mut value = base;
        let mut rest = chain.iter();
        while let Some(postfix) = rest.next() {
            self.step(1)?;
            self.line = postfix.line;
            value = match &postfix.kind {
                PostfixKind::Attr(name) => {
                    // A method that is called at once needs no value of its own.
                    let method = self.method_of(&value, name);
                    let next = rest.as_slice().first().map(|postfix| &postfix.kind);
                    match (method, next) {
                        (Some(method), Some(PostfixKind::Call(args))) => {
                            rest.next();
                            let args = self.eval_args(args)?;
                            self.line = postfix.line;
                            self.call_method(&value, method, args)?
                        }
                        _ => self.attribute(&value, name)?,
                    }
                }
                PostfixKind::Item(index) => {
                    let index = self.eval(index)?;
                    self.item(&value, &index)?
                }
                PostfixKind::Slice(bounds) => {
                    let mut indices = [None; 3];
                    let mut is_slice = true;
                    for (index, bound) in indices.iter_mut().zip(bounds.iter()) {
                        if let Some(bound) = bound {
                            let bound = self.eval(bound)?;
                            *index = bound.as_int();
                            is_slice &= index.is_some() || matches!(bound, Value::None);
                        }
                    }
                    if !is_slice && !value.is_undefined() {
                        return not("slice", "a slice of integers");
                    }
                    self.slice(&value, indices)?
                }
                PostfixKind::Call(args) => {
                    let mut args = self.eval_args(args)?;
                    if rest.as_slice().is_empty()
                        && let Some(caller) = caller.take()
                    {
                        args.named.push(("caller".into(), caller));
                    }
                    self.line = postfix.line;
                    self.call(&value, args)?
                }
                PostfixKind::Filter(name, args) => {
                    let args = self.eval_args(args)?;
                    self.line = postfix.line;
                    filters::apply(self, name, value, args)?
                }
                PostfixKind::Test {
                    name,
                    args,
                    negated,
                } => {
                    let args = self.eval_args(args)?;
                    self.line = postfix.line;
                    let truth = predicates::holds(self, name, &value, args)?;
                    Value::Bool(truth != *negated)
                }
            };
        }
        Ok(value)
    }

    fn eval_args(&mut self, args: &'t Args) -> Run<Arguments> {
        let mut evaluated = Arguments::default();
        for arg in &args.positional {
            let value = self.eval(arg)?;
            evaluated.positional.push(value);
        }
        for (name, arg) in &args.named {
            let value = self.eval(arg)?;
            evaluated.named.push((name.clone(), value));
        }
        if let Some(star) = &args.star {
            let star = self.eval(star)?;
            let items = self.collect(&star)?;
            self.step(items.len())?;
            evaluated.positional.extend(items.iter().cloned());
        }
        if let Some(star) = &args.star_star {
            match self.eval(star)? {
                Value::Map(map) => {
                    self.step(map.len().saturating_mul(4))?;
                    for (key, value) in map.iter() {
                        let Value::Str(key) = key else {
                            let of = key.type_name();
                            let needed = "a keyword";
                            return Err(TypeFault::Not { of, needed }.into());
                        };
                        evaluated.named.push(((**key).into(), value.clone()));
                    }
                }
                other => return not(other.type_name(), "a mapping of arguments"),
            }
        }
        Ok(evaluated)
    }
}
