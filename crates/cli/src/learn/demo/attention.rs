//! `strata learn attention`: the pattern of a head, a row for each token, and where the last token of each head looks.

use super::{Staging, bytes, tale};
use crate::failure::{Failure, Kind};
use crate::learn::show::{clip, shade, visible};
use strata::{Look, Seen};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The prompt
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "Once upon a time there was a little fox who lived"
    )]
    prompt: String,
    /// The layer, from 0 on
    #[arg(long, value_name = "N", default_value_t = 4)]
    layer: usize,
    /// The head, from 0 on
    #[arg(long, value_name = "N", default_value_t = 0)]
    head: usize,
    #[command(flatten)]
    staging: Staging,
}

/// Columns of a row before its shades.
const LABEL: usize = 10;

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let model = tale()?;
    let mut show = arguments.staging.show();
    let tokens = model.tokenize(&arguments.prompt);
    let most = show.columns() - LABEL - 1;
    if tokens.len() > most {
        let problem = format!(
            "the prompt has {} tokens, and {most} fit on the screen",
            tokens.len()
        );
        return Err(Failure::new(Kind::Usage, problem).hint("give a shorter --prompt"));
    }
    let Arguments { layer, head, .. } = *arguments;
    let look = |head| -> Result<Seen, Failure> {
        Ok(model.look(Look {
            prompt: tokens.clone(),
            head: Some((layer, head)),
            row: None,
        })?)
    };
    let piece = |at: usize| visible(&bytes(&model, tokens[at]));
    let seen = look(head)?;
    show.say(&format!(
        "Layer {layer}, head {head}: each row is a token, and its shades are the shares that it gives to the tokens \
         up to itself. A row adds up to 1."
    ))?;
    show.line("")?;
    for (at, row) in seen.attention.iter().enumerate() {
        let shades: String = row.shares.iter().map(|&share| shade(share)).collect();
        show.line(format!("{:<LABEL$}{shades}|", clip(&piece(at), LABEL - 1)))?;
    }
    show.line(format!("{:<LABEL$}░ .02 ▒ .10 ▓ .30 █ .60", ""))?;
    show.line("")?;
    let last = piece(tokens.len() - 1);
    show.say(&format!(
        "What each head of layer {layer} has “{last}” look at most:"
    ))?;
    show.line("")?;
    show.line("head  1st           2nd")?;
    let heads = seen.heads.get(layer).copied().unwrap_or(0);
    for head in 0..heads {
        let seen = look(head)?;
        let Some(row) = seen.attention.last() else {
            continue;
        };
        let mut ranked: Vec<(usize, f32)> = row.shares.iter().copied().enumerate().collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut line = format!("{head:>4}");
        for &(at, share) in ranked.iter().take(2) {
            let piece = clip(&piece(row.first + at), 7);
            line.push_str(&format!("  {piece:<7} {share:.2}"));
        }
        show.line(line)?;
    }
    show.line("")?;
    show.say("A head with nothing to look for looks at the first token, where it does no harm.")
}
