//! Chat with a model and print its answer as it comes.

use std::io::Write;
use strata::{Error, Model, Options, user};

fn main() -> Result<(), Error> {
    let model = Model::open("tale", Options::default().memory("6G"))?;
    let mut story = String::new();
    let request = model.chat([user("Tell me a story about a fox.")]);
    for delta in request.temperature(0.0).max_tokens(100).stream()? {
        let text = delta?.text;
        print!("{text}");
        let _ = std::io::stdout().flush();
        story += &text;
    }
    println!();
    assert!(story.starts_with("Once upon a time"));
    Ok(())
}
