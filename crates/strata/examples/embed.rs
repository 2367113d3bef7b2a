//! Embeddings: texts as vectors, and the text that is nearest to a question.

use strata::{Error, Model, Options};

const TEXTS: [&str; 3] = [
    "The ship sailed over the stormy sea.",
    "The baker took the bread out of the oven.",
    "The fox slept in its den all winter.",
];

fn main() -> Result<(), Error> {
    let model = Model::open("tale", Options::default())?;
    let question = model
        .embed(["A boat crossed the sea in a storm."])?
        .remove(0);
    let mut ranked: Vec<(f32, &str)> = model
        .embed(TEXTS)?
        .iter()
        .map(|vector| dot(vector, &question))
        .zip(TEXTS)
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (similarity, text) in &ranked {
        println!("{similarity:.3}  {text}");
    }
    assert_eq!(ranked[0].1, TEXTS[0]);
    assert!(
        (dot(&question, &question) - 1.0).abs() < 1e-4,
        "its length is 1"
    );
    Ok(())
}

/// Of vectors of length 1 this is the cosine of their angle.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}
