//! Continue a text as it stands, without a chat around it.

use strata::{Error, Model, Options};

fn main() -> Result<(), Error> {
    let model = Model::open("tale", Options::default())?;
    let request = model.complete("Once upon a time");
    let answer = request.temperature(0.0).max_tokens(32).run()?;
    println!("{}", answer.text);
    assert_eq!(answer.usage.generated_tokens, 32);
    Ok(())
}
