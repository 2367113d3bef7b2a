//! `strata completions` and `strata man`: what a shell and `man` know of the program, made from its own arguments.

use crate::failure::Failure;
use clap::Command;
use clap_complete::{Shell, generate};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Print shell completions
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  strata completions bash > ~/.local/share/bash-completion/completions/strata
  strata completions zsh > ~/.zfunc/_strata
  strata completions fish > ~/.config/fish/completions/strata.fish
  strata completions powershell >> $PROFILE")]
pub(crate) struct CompletionArguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Print the manual page, or write all manual pages to a folder
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  strata man | man -l -
  strata man ~/.local/share/man/man1")]
pub(crate) struct ManArguments {
    /// The folder, created if needed
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

pub(crate) fn completions(
    arguments: &CompletionArguments,
    mut program: Command,
) -> Result<(), Failure> {
    let mut script = Vec::new();
    generate(arguments.shell, &mut program, "strata", &mut script);
    std::io::stdout()
        .write_all(&script)
        .map_err(|error| Failure::stdout(&error))
}

pub(crate) fn man(arguments: &ManArguments, mut program: Command) -> Result<(), Failure> {
    // Subcommands take the program's name into theirs only once it is built.
    program.build();
    let Some(folder) = &arguments.folder else {
        let page = page(&program);
        let page = page.map_err(|error| Failure::io("the manual page", &error))?;
        let mut out = std::io::stdout();
        return out
            .write_all(&page)
            .map_err(|error| Failure::stdout(&error));
    };
    std::fs::create_dir_all(folder).map_err(|error| Failure::io(folder.display(), &error))?;
    write_pages(&program, "strata", folder)
}

fn page(command: &Command) -> std::io::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    Ok(page)
}

/// A page for a command and each of its subcommands: `strata.1`, `strata-run.1`, and so on.
fn write_pages(command: &Command, name: &str, folder: &Path) -> Result<(), Failure> {
    let path = folder.join(format!("{name}.1"));
    page(command)
        .and_then(|page| std::fs::write(&path, page))
        .map_err(|error| Failure::io(path.display(), &error))?;
    let commands = command.get_subcommands();
    for sub in commands.filter(|sub| sub.get_name() != "help") {
        write_pages(sub, &format!("{name}-{}", sub.get_name()), folder)?;
    }
    Ok(())
}
