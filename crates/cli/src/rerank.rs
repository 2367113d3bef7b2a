//! `strata rerank`: documents in the order in which they answer a query.

use crate::computing::ComputeArguments;
use crate::embed;
use crate::failure::{Failure, Kind};
use std::io::Write;
use std::path::PathBuf;

/// Sort documents by relevance to a query
#[derive(clap::Args)]
#[command(after_help = "\
Prints a score and the document on each line, the best first. The scores are the model's own, before any sigmoid.

Example:
  strata rerank bge-reranker.gguf \"What is a panda?\" \"A bear of China.\" \"A kind of bread.\"")]
pub(crate) struct Arguments {
    /// The model: one with a classification head
    model: PathBuf,
    /// The query
    query: String,
    /// The documents
    #[arg(required = true)]
    documents: Vec<String>,
    /// Print as JSON, with documents numbered from 0
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    compute: ComputeArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let documents = arguments.documents.iter();
    let longest = documents.map(String::len).max().unwrap_or(0) + arguments.query.len();
    let model = embed::open(&arguments.compute, &arguments.model, longest)?;
    let scores = model.rerank(&arguments.query, &arguments.documents);
    let scores = scores.map_err(embed::refused)?;
    if let Some(index) = scores.iter().position(|score| !score.is_finite()) {
        return Err(Failure::new(
            Kind::BadModel,
            format_args!("the score of document {} is not finite", index + 1),
        )
        .hint("the model's weights may be damaged"));
    }
    let mut order: Vec<usize> = (0..scores.len()).collect();
    // Equals stay in the order in which they were given.
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    print(arguments, &scores, &order).map_err(|error| Failure::stdout(&error))
}

fn print(arguments: &Arguments, scores: &[f32], order: &[usize]) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    if arguments.json {
        let results = order
            .iter()
            .map(|&index| serde_json::json!({ "index": index, "score": scores[index] }));
        let results: Vec<_> = results.collect();
        return writeln!(out, "{}", serde_json::json!({ "results": results }));
    }
    for &index in order {
        let (score, document) = (scores[index], &arguments.documents[index]);
        writeln!(out, "{score:>9.4}  {document}")?;
    }
    Ok(())
}
