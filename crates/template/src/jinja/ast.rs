//! The syntax tree. Chains of operators, filters, calls and attributes are flat lists, so that the tree is no deeper
//! than the parser's recursion, which is bounded.
use super::value::Value;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A name as a number: an index into [`Ast::names`].
pub(crate) type Symbol = u32;

/// The symbol of `loop`.
pub(crate) const LOOP: Symbol = 0;
/// The symbol of `caller`.
pub(crate) const CALLER: Symbol = 1;
/// The symbol of `kwargs`.
pub(crate) const KWARGS: Symbol = 2;
/// The symbol of `varargs`.
pub(crate) const VARARGS: Symbol = 3;

/// A parsed template.
#[derive(Debug)]
pub(crate) struct Ast {
    pub(crate) body: Vec<Stmt>,
    pub(crate) macros: Vec<MacroDecl>,
    pub(crate) names: Vec<Arc<str>>,
}

#[derive(Debug)]
pub(crate) struct Stmt {
    pub(crate) line: u32,
    pub(crate) kind: StmtKind,
}

#[derive(Debug)]
pub(crate) enum StmtKind {
    Text(String),
    Print(Expr),
    If {
        branches: Vec<(Expr, Vec<Stmt>)>,
        otherwise: Vec<Stmt>,
    },
    For(Box<For>),
    Set(Target, Expr),
    SetBlock {
        target: Target,
        filters: Vec<Postfix>,
        body: Vec<Stmt>,
    },
    Filter {
        filters: Vec<Postfix>,
        body: Vec<Stmt>,
    },
    With {
        bindings: Vec<(Target, Expr)>,
        body: Vec<Stmt>,
    },
    /// Defines the macro of this index.
    Macro(usize),
    /// Calls `call`, whose last postfix is a call, with the macro of this index as its caller.
    Call {
        caller: usize,
        call: Expr,
    },
    /// What the assistant said, for training masks: here only a scope.
    Generation(Vec<Stmt>),
    Break,
    Continue,
}

#[derive(Debug)]
pub(crate) struct For {
    pub(crate) target: Target,
    pub(crate) over: Expr,
    pub(crate) condition: Option<Expr>,
    pub(crate) body: Vec<Stmt>,
    pub(crate) otherwise: Vec<Stmt>,
    pub(crate) recursive: bool,
    /// Whether the body mentions the loop variable.
    pub(crate) uses_loop: bool,
}

#[derive(Debug)]
pub(crate) enum Target {
    Name(Symbol),
    Attribute(Symbol, Arc<str>),
    Tuple(Vec<Target>),
}

#[derive(Debug)]
pub(crate) struct MacroDecl {
    pub(crate) name: Arc<str>,
    pub(crate) symbol: Symbol,
    pub(crate) params: Vec<Param>,
    pub(crate) body: Vec<Stmt>,
    pub(crate) uses: Uses,
}

/// Which of a macro's implicit variables its body mentions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Uses {
    pub(crate) caller: bool,
    pub(crate) kwargs: bool,
    pub(crate) varargs: bool,
}

#[derive(Debug)]
pub(crate) struct Param {
    pub(crate) symbol: Symbol,
    pub(crate) name: Arc<str>,
    pub(crate) default: Option<Expr>,
}

#[derive(Debug)]
pub(crate) enum Expr {
    Const(Value),
    Name(Symbol),
    List(Vec<Expr>),
    Tuple(Vec<Expr>),
    Dict(Vec<(Expr, Expr)>),
    Postfix(Box<Expr>, Vec<Postfix>),
    Neg(Box<Expr>),
    Pos(Box<Expr>),
    Not(Box<Expr>),
    /// Applied from left to right.
    Arith(Box<Expr>, Vec<(ArithOp, Expr)>),
    Concat(Vec<Expr>),
    Compare(Box<Expr>, Vec<(CompareOp, Expr)>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Cond(Box<Cond>),
}

#[derive(Debug)]
pub(crate) struct Cond {
    pub(crate) line: u32,
    pub(crate) test: Expr,
    pub(crate) then: Expr,
    pub(crate) otherwise: Option<Expr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArithOp {
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Mod,
    Pow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompareOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    In,
    NotIn,
}

#[derive(Debug)]
pub(crate) struct Postfix {
    pub(crate) line: u32,
    pub(crate) kind: PostfixKind,
}

#[derive(Debug)]
pub(crate) enum PostfixKind {
    Attr(Arc<str>),
    Item(Expr),
    Slice(Box<[Option<Expr>; 3]>),
    Call(Box<Args>),
    Filter(Arc<str>, Box<Args>),
    Test {
        name: Arc<str>,
        args: Box<Args>,
        negated: bool,
    },
}

#[derive(Debug, Default)]
pub(crate) struct Args {
    pub(crate) positional: Vec<Expr>,
    pub(crate) named: Vec<(Arc<str>, Expr)>,
    pub(crate) star: Option<Expr>,
    pub(crate) star_star: Option<Expr>,
}
