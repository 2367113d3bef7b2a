//! The languages: how each one's package is made, installed and tested.

mod compiled;
mod managed;
mod php;
mod scripts;
mod unstable;
mod wasm;

use super::expected::Expected;
use crate::command::debian_install;
use anyhow::Result;
pub(super) use compiled::go_command;
pub(super) use scripts::{frameworks, install_wheel, node_package, pip_install};

/// A language.
pub(super) struct Language {
    /// Its folder in `bindings`.
    pub(super) name: &'static str,
    /// Its name in the table.
    pub(super) title: &'static str,
    pub(super) in_ci: bool,
    /// Tests it and says what worked; nothing where its toolchain cannot be had.
    pub(super) test: fn(&Expected) -> Result<Option<Vec<String>>>,
}

pub(super) const LANGUAGES: &[Language] = &[
    Language {
        name: "c",
        title: "C",
        in_ci: true,
        test: compiled::c,
    },
    Language {
        name: "cpp",
        title: "C++",
        in_ci: true,
        test: compiled::cpp,
    },
    Language {
        name: "python",
        title: "Python",
        in_ci: true,
        test: scripts::python,
    },
    Language {
        name: "node",
        title: "Node",
        in_ci: true,
        test: scripts::node,
    },
    Language {
        name: "go",
        title: "Go",
        in_ci: true,
        test: compiled::go,
    },
    Language {
        name: "php",
        title: "PHP",
        in_ci: true,
        test: php::php,
    },
    Language {
        name: "ruby",
        title: "Ruby",
        in_ci: false,
        test: scripts::ruby,
    },
    Language {
        name: "java",
        title: "Java",
        in_ci: false,
        test: managed::java,
    },
    Language {
        name: "csharp",
        title: "C#",
        in_ci: false,
        test: managed::csharp,
    },
    Language {
        name: "dart",
        title: "Dart",
        in_ci: false,
        test: unstable::dart,
    },
    Language {
        name: "swift",
        title: "Swift",
        in_ci: false,
        test: unstable::swift,
    },
    Language {
        name: "wasm",
        title: "WebAssembly",
        in_ci: true,
        test: wasm::wasm,
    },
];

/// Installs what takes its time from a network: packages of Python's index, and the compiler for WebAssembly.
pub(super) fn install() -> Result<()> {
    scripts::python_packages()?;
    compiled::go_package()?;
    if let Err(error) = wasm::install() {
        missing("the compiler for WebAssembly", error)?;
    }
    Ok(())
}

/// Installs what is not there, unless this is CI, whose time is short. Says whether it is still missing.
fn cannot_install(name: &str, packages: &[&str]) -> bool {
    if std::env::var_os("CI").is_some() {
        return true;
    }
    let installed = debian_install(packages);
    if let Err(error) = &installed {
        eprintln!("skipped: {name}, which could not be installed: {error:#}");
    }
    installed.is_err()
}

/// What to do where a toolchain cannot be had: under CI that is a failure.
fn missing(what: &str, error: anyhow::Error) -> Result<Option<Vec<String>>> {
    if std::env::var_os("CI").is_some() {
        return Err(error.context(format!("installing {what}")));
    }
    eprintln!("skipped: {what} could not be installed: {error:#}");
    Ok(None)
}
