//! Eight threads ask one model at once. Their requests share batches, and each gets the answer that it would get alone.

use std::thread;
use strata::{Error, Model, Options, user};

const ANIMALS: [&str; 8] = [
    "fox", "owl", "hare", "wolf", "bear", "frog", "crow", "mouse",
];

fn main() -> Result<(), Error> {
    let model = Model::open("tale", Options::default())?;
    let ask = |animal: &str| {
        let prompt = format!("Tell me a story about a {animal}.");
        let request = model.chat([user(prompt)]).temperature(0.0);
        request.max_tokens(24).text()
    };
    let together = thread::scope(|scope| {
        let threads = ANIMALS.map(|animal| scope.spawn(move || ask(animal)));
        threads.map(|thread| thread.join().expect("nobody panics"))
    });
    for (animal, answer) in ANIMALS.into_iter().zip(together) {
        let answer = answer?;
        println!("{animal}: {answer}");
        assert_eq!(answer, ask(animal)?, "{animal}");
    }
    Ok(())
}
