//! Calls: macros, the functions that every template has, and methods.
use super::{Interp, OBJECT_BYTES};
use crate::jinja::arguments::{Arguments, int, required, text};
use crate::jinja::ast::{CALLER, KWARGS, MacroDecl, VARARGS};
use crate::jinja::error::{Fault, Missing, Run, TypeFault, bad_value, not};
use crate::jinja::value::{Closure, Cycler, Function, Joiner, Range, Value};
use crate::jinja::{format, methods};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

/// The longest range that Jinja's sandbox allows.
const MAX_RANGE: usize = 100_000;

impl<'t> Interp<'t> {
    pub(super) fn call(&mut self, callee: &Value, args: Arguments) -> Run<Value> {
        match callee {
            Value::Macro(closure) => self.nested(|interp| interp.call_macro(closure, args)),
            Value::Function(function) => self.call_function(*function, args),
            Value::Method(method) => self.call_method(&method.of, method.name, args),
            Value::Loop(at) => {
                let [over] = args.bind("loop", ["iterable"])?;
                let over = required(over, "loop", "iterable")?;
                self.loop_again(**at, &over)
            }
            Value::Joiner(joiner) => {
                args.none("joiner")?;
                if joiner.used.swap(true, Ordering::Relaxed) {
                    Ok(joiner.separator.clone())
                } else {
                    Ok("".into())
                }
            }
            Value::Undefined(missing) => Err(Fault::Undefined(missing.why.clone())),
            other => not(other.type_name(), "callable"),
        }
    }

    pub(super) fn call_method(
        &mut self,
        of: &Value,
        name: &'static str,
        args: Arguments,
    ) -> Run<Value> {
        match (of, name) {
            (Value::Loop(at), "cycle") => self.loop_cycle(**at, &args),
            (Value::Loop(at), "changed") => self.loop_changed(**at, args),
            _ => methods::call(self, of, name, args),
        }
    }

    fn call_macro(&mut self, closure: &Closure, args: Arguments) -> Run<Value> {
        let ast = self.ast;
        let Some(decl) = ast.macros.get(closure.decl) else {
            return Ok(Value::None);
        };
        let outer = core::mem::replace(&mut self.scope, closure.scope);
        let line = self.line;
        let text = self.in_scope(closure.scope, |interp| {
            interp.bind_parameters(decl, args)?;
            interp.capture(|interp| interp.block(&decl.body).map(|_| ()))
        });
        self.scope = outer;
        let text = text?;
        self.line = line;
        Ok(Value::Str(text))
    }

    /// Puts a macro's arguments into its scope.
    fn bind_parameters(&mut self, decl: &'t MacroDecl, mut args: Arguments) -> Run<()> {
        self.step(1 + decl.params.len().saturating_mul(args.named.len()) / 8)?;
        let given = decl.params.len().min(args.positional.len());
        let extra: Vec<Value> = args.positional.drain(given..).collect();
        let mut positional = args.positional.into_iter();
        let mut named = args.named;
        let mut take = |name: &str| {
            let place = named.iter().position(|(known, _)| &**known == name)?;
            Some(named.remove(place).1)
        };
        let mut bound = Vec::with_capacity(decl.params.len());
        for param in &decl.params {
            bound.push(positional.next().or_else(|| take(&param.name)));
        }
        let explicit_caller = decl.params.iter().any(|param| param.symbol == CALLER);
        let caller = if decl.uses.caller && !explicit_caller {
            Some(take("caller"))
        } else {
            None
        };
        self.bind_rest(decl, extra, named, caller)?;
        // Defaults may use the parameters before them.
        for (param, value) in decl.params.iter().zip(bound) {
            let value = match (value, &param.default) {
                (Some(value), _) => value,
                (None, Some(default)) => self.eval(default)?,
                (None, None) => self.undefined(Missing::Parameter(param.name.clone()))?,
            };
            self.assign(param.symbol, value)?;
        }
        Ok(())
    }

    /// Binds `caller`, `kwargs` and `varargs`, or fails on what the macro does not take.
    fn bind_rest(
        &mut self,
        decl: &MacroDecl,
        extra: Vec<Value>,
        named: Vec<(Arc<str>, Value)>,
        caller: Option<Option<Value>>,
    ) -> Run<()> {
        match caller {
            Some(Some(caller)) => self.assign(CALLER, caller)?,
            Some(None) => {
                let undefined = self.undefined(Missing::Because("No caller defined"))?;
                self.assign(CALLER, undefined)?;
            }
            None => {}
        }
        let takes =
            |symbol, used: bool| used && !decl.params.iter().any(|param| param.symbol == symbol);
        if takes(KWARGS, decl.uses.kwargs) {
            let mut pairs = self.growing()?;
            for (name, value) in named {
                let name = self.text(&name)?;
                pairs.push((name, value))?;
            }
            let kwargs = self.finish_map(pairs)?;
            self.assign(KWARGS, Value::Map(kwargs))?;
        } else if let Some((name, _)) = named.first() {
            return Err(TypeFault::Keyword {
                function: String::from(&*decl.name),
                name: String::from(&**name),
            }
            .into());
        }
        if takes(VARARGS, decl.uses.varargs) {
            let varargs = self.list_of(extra)?;
            self.assign(VARARGS, Value::Tuple(varargs))?;
        } else if !extra.is_empty() {
            return Err(TypeFault::TooMany {
                function: String::from(&*decl.name),
                most: decl.params.len(),
            }
            .into());
        }
        Ok(())
    }

    fn call_function(&mut self, function: Function, args: Arguments) -> Run<Value> {
        match function {
            Function::Range => self.range(args),
            Function::Dict => Ok(Value::Map(self.dict(args)?)),
            Function::Namespace => {
                let map = self.dict(args)?;
                let mut pairs = Vec::new();
                for (key, value) in map.iter() {
                    if key.as_str().is_some_and(|key| key.starts_with('_')) {
                        let (owner, name) = ("namespace", key.as_str().unwrap_or("").into());
                        return Err(Fault::Undefined(Missing::Unsafe { owner, name }));
                    }
                    self._arena.grow(OBJECT_BYTES)?;
                    pairs.push((key.clone(), value.clone()));
                }
                self._arena.grow(OBJECT_BYTES)?;
                self.namespaces.push(pairs);
                Ok(Value::Namespace(self.namespaces.len() - 1))
            }
            Function::Cycler => {
                if args.positional.is_empty() || !args.named.is_empty() {
                    return bad_value("cycler", "at least one item has to be provided");
                }
                let items = self.list_of(args.positional)?;
                Ok(Value::Cycler(Arc::new(Cycler {
                    items,
                    next: 0.into(),
                    _charge: self.meter.charge(OBJECT_BYTES)?,
                })))
            }
            Function::Joiner => {
                let [separator] = args.bind("joiner", ["sep"])?;
                Ok(Value::Joiner(Arc::new(Joiner {
                    separator: separator.unwrap_or_else(|| ", ".into()),
                    used: false.into(),
                    _charge: self.meter.charge(OBJECT_BYTES)?,
                })))
            }
            Function::RaiseException => {
                let [message] = args.bind("raise_exception", ["message"])?;
                let message = required(message, "raise_exception", "message")?;
                let message = match message {
                    // Python turns no message into the word.
                    Value::None => "None".into(),
                    message => self.str_of(&message)?,
                };
                Err(Fault::Raised(String::from(&*message)))
            }
            Function::StrftimeNow => {
                let [pattern] = args.bind("strftime_now", ["format"])?;
                let pattern = text(pattern, "strftime_now")?;
                let (Some(pattern), Some(now)) = (pattern, self.options.now) else {
                    return bad_value("strftime_now", "a format is needed");
                };
                format::strftime(self, &pattern, &now)
            }
        }
    }

    fn range(&mut self, args: Arguments) -> Run<Value> {
        if !args.named.is_empty() {
            return bad_value("range", "range takes no keyword arguments");
        }
        let [a, b, step] = args.bind("range", ["start", "stop", "step"])?;
        let a = int(Some(required(a, "range", "stop")?), "range")?;
        let b = int(b, "range")?;
        let step = int(step, "range")?.unwrap_or(1);
        let (start, stop) = match (a, b) {
            (Some(a), Some(b)) => (a, b),
            (Some(a), None) => (0, a),
            _ => return bad_value("range", "the bounds must be integers"),
        };
        if step == 0 {
            return bad_value("range", "the step must not be zero");
        }
        let span = i128::from(stop) - i128::from(start);
        let wide = i128::from(step);
        let len = if span.signum() == wide.signum() {
            (span.abs() + wide.abs() - 1) / wide.abs()
        } else {
            0
        };
        match usize::try_from(len) {
            Ok(len) if len <= MAX_RANGE => Ok(Value::Range(Arc::new(Range {
                start,
                stop,
                step,
                len,
                _charge: self.meter.charge(OBJECT_BYTES)?,
            }))),
            _ => bad_value("range", "ranges of more than 100000 items are blocked"),
        }
    }

    /// Python's `dict(mapping_or_pairs, **named)`.
    fn dict(&mut self, args: Arguments) -> Run<crate::jinja::value::Map> {
        let mut pairs = self.growing()?;
        let mut positional = args.positional.into_iter();
        match positional.next() {
            None => {}
            Some(Value::Map(map)) => {
                self.step(map.len())?;
                for (key, value) in map.iter() {
                    pairs.push((key.clone(), value.clone()))?;
                }
            }
            Some(other) => {
                for pair in self.collect(&other)?.iter() {
                    let pair = self.collect(pair)?;
                    match &pair[..] {
                        [key, value] => pairs.push((key.clone(), value.clone()))?,
                        _ => return bad_value("dict", "an element is not a pair"),
                    }
                }
            }
        }
        if positional.next().is_some() {
            return bad_value("dict", "at most one positional argument is taken");
        }
        for (name, value) in args.named {
            let name = self.text(&name)?;
            pairs.push((name, value))?;
        }
        self.finish_map(pairs)
    }
}
