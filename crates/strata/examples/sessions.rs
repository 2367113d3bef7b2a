//! Sessions: a text that grows, forks, and goes on in another process without being computed again.

use strata::{Error, Model, Options, Sampling, Session};

fn main() -> Result<(), Error> {
    let open = || Model::open("tale", Options::default().sessions(true));
    let model = open()?;
    let greedy = Sampling {
        temperature: Some(0.0),
        ..Sampling::default()
    };
    let mut story = model.session();
    story.append("Once upon a time there was a fox who lived in a forest.");
    story.run(60, &greedy)?;

    let mut other = story.fork();
    other.append(" Then, all of a sudden,");
    other.run(20, &greedy)?;
    assert!(other.text().starts_with(&story.text()));

    let saved = story.save()?;
    let expected = story.run(20, &greedy)?;
    println!("{}\n\nor\n\n{}", story.text(), other.text());
    drop((story, other, model));

    // Elsewhere, later.
    let model = open()?;
    let mut story = Session::restore(&model, saved)?;
    assert_eq!(story.run(20, &greedy)?, expected);
    let counters = model.counters();
    assert!(counters.cached_tokens >= 32, "the saved pages are used");
    Ok(())
}
