//! How the program fails: one sentence on stderr, a hint, and an exit code that tells scripts which kind it was.

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

/// What kind of failure it was. The numbers are part of the program's interface.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The work could not be done: a file cannot be read or written, a template raised.
    Failed = 1,
    /// The command line or an input file does not make sense (clap exits with the same code).
    Usage = 2,
    /// The model file is damaged, hostile, or of a kind that is not supported.
    BadModel = 3,
    /// The machine has not enough memory.
    OutOfMemory = 4,
}

/// Appended to `--help`.
pub(crate) const EXIT_CODES: &str = "\
Environment variables that change the speed and never a result:
  STRATA_ISA       the instruction set to use: scalar, avx2, avx512, …
  STRATA_TILES     what multiplies tiles: off, or amx where the processor has it (emulated is for tests)
  STRATA_PREFETCH  how many bytes ahead weights are prefetched, instead of what is measured
  STRATA_POLICY    other choices instead of what is measured: pass=8,resident=128,tiles-from=32

Exit codes:
  0  success
  1  failed (for example, a file cannot be read or written)
  2  invalid command line or input
  3  the model file is damaged or not supported
  4  not enough memory";

/// An error on its way to the user.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    kind: Kind,
    sentence: String,
    hint: Option<String>,
}

impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl From<strata::Error> for Failure {
    fn from(error: strata::Error) -> Self {
        use strata::ErrorKind as E;
        let kind = match error.kind() {
            E::InvalidArgument | E::ContextExceeded | E::Unsupported => Kind::Usage,
            E::InvalidModel => Kind::BadModel,
            E::OutOfMemory => Kind::OutOfMemory,
            _ => Kind::Failed,
        };
        Self {
            kind,
            sentence: error.to_string(),
            hint: error.hint().map(str::to_owned),
        }
    }
}

impl Failure {
    pub(crate) fn new(kind: Kind, sentence: impl Display) -> Self {
        Self {
            kind,
            sentence: sentence.to_string(),
            hint: None,
        }
    }

    pub(crate) fn hint(mut self, hint: impl Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// The same failure, of another kind.
    pub(crate) fn of_kind(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    /// What kind it is.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// A failed read or write of `path`.
    pub(crate) fn io(path: impl Display, error: &std::io::Error) -> Self {
        use std::io::ErrorKind as E;
        let kind = match error.kind() {
            E::OutOfMemory => Kind::OutOfMemory,
            _ => Kind::Failed,
        };
        // "(os error 2)" tells a user nothing.
        let what = error.to_string();
        let what = what.split(" (os error").next().unwrap_or(&what);
        let failure = Self::new(kind, format_args!("{path}: {what}"));
        match error.kind() {
            E::NotFound => failure.hint("check the path"),
            E::StorageFull => failure.hint("free some space, or write to another disk"),
            E::OutOfMemory => failure.hint("close other programs or raise the memory limit"),
            _ => failure,
        }
    }

    /// Prints the failure and gives its exit code.
    pub(crate) fn report(&self) -> ExitCode {
        let mut out = std::io::stderr().lock();
        let _ = writeln!(out, "error: {}", self.sentence);
        if let Some(hint) = &self.hint {
            let _ = writeln!(out, "hint: {hint}");
        }
        ExitCode::from(self.kind as u8)
    }

    /// A reader such as `head` that closed the pipe is not worth a word.
    pub(crate) fn stdout(error: &std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        Self::io("standard output", error)
    }
}
