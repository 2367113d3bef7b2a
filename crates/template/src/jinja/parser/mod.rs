//! Tokens to a syntax tree, by recursive descent with a bound on its depth.
mod expr;
mod stmt;

use super::ast::{Ast, MacroDecl, Symbol, Uses};
use super::error::{LimitKind, SyntaxFault, TemplateError};
use super::lexer::{self, Op, Token, TokenKind};
use super::limits::Limits;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

type Parse<T> = Result<T, TemplateError>;

/// Parses `source` within `limits`.
pub(crate) fn parse(source: &str, limits: &Limits) -> Parse<Ast> {
    if source.len() > limits.source_bytes {
        return Err(TemplateError::Limit {
            line: 1,
            which: LimitKind::Source,
            limit: limits.source_bytes as u64,
        });
    }
    let mut parser = Parser {
        tokens: lexer::tokenize(source)?,
        at: 0,
        // A level of source nesting takes more stack than a level of evaluation.
        depth_left: limits.depth / 2,
        depth_limit: limits.depth,
        loops: 0,
        conditional: false,
        pending: None,
        in_loop: 0,
        loop_mentions: 0,
        uses: Vec::new(),
        macros: Vec::new(),
        names: Vec::new(),
        symbols: BTreeMap::new(),
    };
    for name in ["loop", "caller", "kwargs", "varargs"] {
        parser.symbol(name);
    }
    let body = parser.statements(&[])?;
    Ok(Ast {
        body,
        macros: parser.macros,
        names: parser.names,
    })
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth_left: u32,
    depth_limit: u32,
    /// Loops around this place, up to the nearest macro.
    loops: u32,
    /// Whether this place may never run, so that an unknown filter is an error only when it does.
    conditional: bool,
    /// An unknown filter or test that is an error unless an inline `if` follows.
    pending: Option<TemplateError>,
    /// Loops around this place, through macros too.
    in_loop: u32,
    /// How often the loop variable has been mentioned.
    loop_mentions: usize,
    /// The implicit variables mentioned in each macro around this place.
    uses: Vec<Uses>,
    macros: Vec<MacroDecl>,
    names: Vec<Arc<str>>,
    symbols: BTreeMap<Arc<str>, Symbol>,
}

const EOF: TokenKind = TokenKind::Eof;

impl Parser {
    fn peek(&self) -> &TokenKind {
        self.tokens.get(self.at).map_or(&EOF, |token| &token.kind)
    }

    fn peek_second(&self) -> &TokenKind {
        self.tokens
            .get(self.at + 1)
            .map_or(&EOF, |token| &token.kind)
    }

    fn line(&self) -> u32 {
        let token = self.tokens.get(self.at).or(self.tokens.last());
        token.map_or(1, |token| token.line)
    }

    /// Takes the current token.
    fn next(&mut self) -> TokenKind {
        let Some(token) = self.tokens.get_mut(self.at) else {
            return TokenKind::Eof;
        };
        if token.kind == TokenKind::Eof {
            return TokenKind::Eof;
        }
        self.at += 1;
        core::mem::replace(&mut token.kind, TokenKind::Eof)
    }

    fn fail<T>(&self, fault: SyntaxFault) -> Parse<T> {
        Err(TemplateError::Syntax {
            line: self.line(),
            fault,
        })
    }

    fn put_off(&mut self, fault: SyntaxFault) {
        let line = self.line();
        self.pending
            .get_or_insert(TemplateError::Syntax { line, fault });
    }

    /// Raises what was put off.
    fn settle(&mut self) -> Parse<()> {
        self.pending.take().map_or(Ok(()), Err)
    }

    fn unexpected<T>(&self, expected: &'static str) -> Parse<T> {
        let found = self.peek().describe();
        self.fail(SyntaxFault::Token { expected, found })
    }

    fn is_op(&self, op: Op) -> bool {
        *self.peek() == TokenKind::Op(op)
    }

    fn skip_op(&mut self, op: Op) -> bool {
        let found = self.is_op(op);
        if found {
            self.at += 1;
        }
        found
    }

    fn expect_op(&mut self, op: Op, expected: &'static str) -> Parse<()> {
        if self.skip_op(op) {
            Ok(())
        } else {
            self.unexpected(expected)
        }
    }

    fn expect(&mut self, kind: &TokenKind, expected: &'static str) -> Parse<()> {
        if self.peek() == kind {
            self.at += 1;
            Ok(())
        } else {
            self.unexpected(expected)
        }
    }

    fn is_name(&self, name: &str) -> bool {
        matches!(self.peek(), TokenKind::Name(found) if found == name)
    }

    fn skip_name(&mut self, name: &str) -> bool {
        let found = self.is_name(name);
        if found {
            self.at += 1;
        }
        found
    }

    fn expect_name(&mut self, name: &'static str) -> Parse<()> {
        if self.skip_name(name) {
            Ok(())
        } else {
            self.unexpected(name)
        }
    }

    /// Any name.
    fn identifier(&mut self) -> Parse<String> {
        if !matches!(self.peek(), TokenKind::Name(_)) {
            return self.unexpected("a name");
        }
        match self.next() {
            TokenKind::Name(name) => Ok(name),
            _ => self.unexpected("a name"),
        }
    }

    fn symbol(&mut self, name: &str) -> Symbol {
        if let Some(&symbol) = self.symbols.get(name) {
            return symbol;
        }
        let name: Arc<str> = name.into();
        let symbol = Symbol::try_from(self.names.len()).unwrap_or(Symbol::MAX);
        self.names.push(name.clone());
        self.symbols.insert(name, symbol);
        symbol
    }

    fn name_of(&self, symbol: Symbol) -> Arc<str> {
        let name = self.names.get(symbol as usize);
        name.cloned().unwrap_or_else(|| "".into())
    }

    fn too_deep(&self) -> TemplateError {
        TemplateError::Limit {
            line: self.line(),
            which: LimitKind::Depth,
            limit: u64::from(self.depth_limit),
        }
    }

    /// Runs `parse` one level deeper.
    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        if self.depth_left == 0 {
            return Err(self.too_deep());
        }
        self.depth_left -= 1;
        let result = parse(self);
        self.depth_left += 1;
        result
    }
}
