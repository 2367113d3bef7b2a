//! `cargo xtask conformance`: the official clients of OpenAI, Anthropic and Ollama against `strata serve`.

use crate::command::{answers, debian_install, run as execute, strata_for_checks, target};
use crate::llama_cpp;
use crate::python::Python;
use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// Versions are fixed so that a check which passed keeps passing.
const PACKAGES: &[&str] = &[
    "openai==3.49.0",
    "anthropic==2.8.0",
    "ollama==0.6.3",
    "jsonschema==4.26.0",
];

/// The clients, where they can be had.
pub(crate) fn clients() -> Result<Option<Python>> {
    Python::install("clients", PACKAGES, None, "the official clients' checks")
}

/// Libraries that stand on those clients, with the client that LiteLLM asks for, and what reads the files for
/// deployment.
const MORE: &[&str] = &[
    "openai==2.54.0",
    "anthropic==2.8.0",
    "ollama==0.6.3",
    "jsonschema==4.26.0",
    "langchain-openai==1.7.3",
    "litellm==1.106.0",
    "pyyaml==6.0.3",
];

/// What the page and the book are checked with: an MCP server, a renderer of Markdown.
const PAGE_PEERS: &[&str] = &["mcp==2.3.0", "markdown-it-py==4.3.0"];

/// Clients for Node and for pages, and what puts them into a page.
const NODE: &[&str] = &[
    "openai@7.53.0",
    "@anthropic-ai/sdk@1.8.0",
    "ai@7.0.169",
    "@ai-sdk/openai-compatible@3.0.90",
    "zod@4.6.7",
    "esbuild@0.28.2",
];

/// Libraries that bring clients of their own, or ask for other versions of those above.
const LIBRARIES: &[&str] = &[
    "openai==2.54.0",
    "litellm==1.106.0",
    "instructor==1.17.0",
    "pydantic-ai-slim[openai]==2.31.1",
    "llama-index-llms-openai-like==0.8.1",
    "llama-index-embeddings-openai-like==0.4.0",
    "lm-eval[api]==0.4.13",
];

/// LlamaIndex, LiteLLM, instructor, pydantic-ai and lm-eval.
fn libraries() -> Result<()> {
    let what = "the checks with LlamaIndex, instructor, pydantic-ai and lm-eval";
    let Some(python) = Python::install("clients-libraries", LIBRARIES, None, what)? else {
        return Ok(());
    };
    let strata = strata_for_checks()?;
    let peers = "LlamaIndex, instructor, pydantic-ai, lm-eval";
    python.script(
        "conformance_libraries.py",
        peers,
        &[&strata.to_string_lossy()],
    )
}

/// What llama-server's own tests need.
const SUITE: &[&str] = &[
    "aiohttp==3.14.5",
    "filelock==4.2.10",
    "numpy==2.4.6",
    "openai==2.54.0",
    "prometheus-client==0.26.0",
    "pytest==9.2.0",
    "pytest-timeout==2.4.0",
    "requests==2.34.2",
];

/// llama-server's own tests.
fn llama_suite() -> Result<()> {
    let what = "llama-server's own tests";
    let Some(python) = Python::install("llama-suite", SUITE, None, what)? else {
        return Ok(());
    };
    let strata = strata_for_checks()?;
    let sources = llama_cpp::sources(&python)?;
    python.script(
        "llama_suite/run.py",
        what,
        &[&strata.to_string_lossy(), &sources.to_string_lossy()],
    )
}

/// Everything: also llama-server's own tests, LangChain, LiteLLM and other libraries, Node and a browser, on the page and on another origin.
pub(crate) fn full() -> Result<()> {
    run()?;
    llama_suite()?;
    libraries()?;
    let what = "the checks with LangChain and LiteLLM";
    let Some(python) = Python::install("clients-full", MORE, None, what)? else {
        return Ok(());
    };
    let strata = strata_for_checks()?;
    let strata = strata.to_string_lossy();
    let mut arguments = vec![&*strata];
    let folder = target().join("clients-node");
    let node = folder.to_string_lossy();
    match install_node(&folder, NODE) {
        Ok(()) => arguments.extend(["--node", &node]),
        Err(error) => {
            eprintln!(
                "skipped: the clients for Node, because they could not be installed: {error:#}"
            );
        }
    }
    let browser = std::env::var("CHROMIUM").unwrap_or_else(|_| "chromium".into());
    let has = |program: &str| answers(Command::new(program).arg("--version"));
    if !has(&browser) && has("apt-get") {
        debian_install(&["chromium"])?;
    }
    let browses = has("node") && has(&browser);
    if browses {
        arguments.push("--chromium");
    } else {
        eprintln!("skipped: the page, because there is no node or no {browser}");
    }
    python.script("conformance_more.py", "LangChain, LiteLLM", &arguments)?;
    let peers = Python::install("page-peers", PAGE_PEERS, None, "the page's checks")?;
    match peers.filter(|_| browses) {
        Some(python) => python.script("page_check.py", "the page", &[&strata]),
        None => Ok(()),
    }
}

/// Installs packages for Node in a folder.
pub(crate) fn install_node(folder: &Path, packages: &[&str]) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    execute(
        Command::new("npm")
            .args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"])
            .arg(folder)
            .args(packages),
    )
}

pub(crate) fn run() -> Result<()> {
    let Some(python) = clients()? else {
        return Ok(());
    };
    let strata = strata_for_checks()?;
    let strata = strata.to_string_lossy();
    python.script("conformance.py", "openai, anthropic, ollama", &[&strata])?;
    python.script("conformance_store.py", "ollama", &[&strata])
}
