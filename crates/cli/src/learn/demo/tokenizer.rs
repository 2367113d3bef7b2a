//! `strata learn tokenizer`: a text is typed, and its tokens change behind the cursor.

use super::{Staging, bytes, tale};
use crate::failure::Failure;
use crate::learn::show::visible;
use strata_tokenizer::EncodeOptions;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The text to type
    #[arg(long, value_name = "TEXT", default_value = "Once upon a time")]
    prompt: String,
    #[command(flatten)]
    staging: Staging,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let model = tale()?;
    let mut show = arguments.staging.show();
    let options = EncodeOptions {
        add_special: false,
        parse_special: false,
    };
    let tokenizer = &model.profile().tokenizer;
    show.say(&format!(
        "A model reads numbers. Its vocabulary has {} pieces of text, and a text is cut into the pieces that merges \
         lead to, which can change with every letter:",
        tokenizer.vocab_size()
    ))?;
    show.line("")?;
    let text = &arguments.prompt;
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    let mut tokens = Vec::new();
    for end in ends {
        tokens = tokenizer.encode(&text[..end], options);
        let pieces: Vec<String> = tokens
            .iter()
            .map(|&id| visible(&bytes(&model, id)))
            .collect();
        let (count, pieces) = (tokens.len(), pieces.join("|"));
        // The end of a long text is what changes.
        let room = show.columns().saturating_sub(5);
        let skipped = pieces.chars().count().saturating_sub(room);
        let pieces: String = pieces.chars().skip(skipped).collect();
        show.line(format!("{count:>3}  {pieces}"))?;
    }
    show.line("")?;
    show.line("   id  piece        bytes")?;
    for &id in &tokens {
        let bytes = bytes(&model, id);
        let numbers: Vec<String> = bytes.iter().map(u8::to_string).collect();
        let piece = visible(&bytes);
        show.line(format!("{id:>5}  {piece:<12} {}", numbers.join(" ")))?;
    }
    show.line("")?;
    let (characters, bytes) = (text.chars().count(), text.len());
    show.say(&format!(
        "{characters} characters, {bytes} bytes, {} tokens.",
        tokens.len()
    ))
}
