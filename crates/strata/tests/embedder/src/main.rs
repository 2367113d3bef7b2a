//! The ten lines that it takes to chat.

use strata::{Error, Model, Options, user};

fn main() -> Result<(), Error> {
    let model = Model::open("tale", Options::default().memory("6G"))?;
    let request = model.chat([user("Tell me a story about a fox.")]);
    for piece in request.temperature(0.0).max_tokens(100).stream()? {
        print!("{}", piece?.text);
    }
    println!();
    Ok(())
}
