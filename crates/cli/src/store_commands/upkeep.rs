//! `strata store check`.

use super::transfer::Steps;
use super::{failure, open};
use crate::failure::{Failure, Kind};
use std::io::Write;
use strata_store::{Finding, Repair};

/// Check the model store
#[derive(clap::Args)]
pub(crate) struct StoreArguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Read and verify every model file and manifest
    Check {
        /// Remove damaged files, unused files and leftovers
        #[arg(long)]
        repair: bool,
    },
}

pub(crate) fn run(arguments: &StoreArguments) -> Result<(), Failure> {
    let Command::Check { repair } = arguments.command;
    let mode = if repair { Repair::Yes } else { Repair::No };
    let mut steps = Steps::new(false);
    let store = open()?;
    let findings = store
        .check(mode, &mut |step| steps.show(step))
        .map_err(|error| failure(&error))?;
    drop(steps);
    let mut out = std::io::stdout().lock();
    if findings.is_empty() {
        let models = store.list().map_err(|error| failure(&error))?.models;
        let count = match models.len() {
            1 => "1 model".to_owned(),
            n => format!("{n} models"),
        };
        let said = writeln!(
            out,
            "No problems found in {} ({count}).",
            store.root().display()
        );
        return said.map_err(|error| Failure::stdout(&error));
    }
    for finding in &findings {
        writeln!(out, "{finding}").map_err(|error| Failure::stdout(&error))?;
    }
    // What a repair removed is no fault any more; what it cannot bring back is.
    let stays = |finding: &&Finding| match finding {
        Finding::BadManifest(_) | Finding::Incomplete(..) => true,
        // A folder is not removed.
        Finding::NotAFile(path) => path.symlink_metadata().is_ok(),
        _ => !repair,
    };
    match findings.iter().filter(stays).count() {
        0 => Ok(()),
        1 => Err(Failure::new(Kind::Failed, "the store has 1 problem")),
        n => Err(Failure::new(
            Kind::Failed,
            format_args!("the store has {n} problems"),
        )),
    }
    .map_err(|said: Failure| {
        if repair {
            said.hint("pull those models again")
        } else {
            said.hint("--repair removes what can be removed")
        }
    })
}
