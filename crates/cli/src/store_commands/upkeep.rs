//! `strata store check`.

use super::transfer::Steps;
use super::{failure, open};
use crate::failure::{Failure, Kind};
use std::io::Write;
use strata_store::{Finding, Repair};

/// Look after the store
#[derive(clap::Args)]
pub(crate) struct StoreArguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Read every blob and manifest, and say what is wrong
    Check {
        /// Remove damaged blobs, those that nothing needs, and what was left behind
        #[arg(long)]
        repair: bool,
    },
}

pub(crate) fn run(arguments: &StoreArguments) -> Result<(), Failure> {
    let Command::Check { repair } = arguments.command;
    let mode = if repair { Repair::Yes } else { Repair::No };
    let mut steps = Steps::new(false);
    let findings = open()?
        .check(mode, &mut |step| steps.show(step))
        .map_err(|error| failure(&error))?;
    let mut out = std::io::stdout().lock();
    for finding in &findings {
        writeln!(out, "{finding}").map_err(|error| Failure::stdout(&error))?;
    }
    // What a repair removed is no fault any more; what it cannot bring back is.
    let stays = |finding: &&Finding| match finding {
        Finding::BadManifest(_) | Finding::Incomplete(..) => true,
        _ => !repair,
    };
    match findings.iter().filter(stays).count() {
        0 => Ok(()),
        1 => Err(Failure::new(Kind::Failed, "the store has a fault")),
        n => Err(Failure::new(
            Kind::Failed,
            format_args!("the store has {n} faults"),
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
