//! `strata rerank`: documents in the order in which they answer a query.

use crate::computing::ComputeArguments;
use crate::embedder::Embedder;
use crate::failure::{Failure, Kind};
use std::io::Write;
use std::path::PathBuf;
use strata::load::ModelFile;
use strata::load::{CheckedModel, TokenizerUse};
use strata_model::EncoderInput;
use strata_tokenizer::Pair;

/// Sort documents by how well they answer a query
#[derive(clap::Args)]
#[command(after_help = "\
Prints a score and the document on each line, the best first. The scores are the model's own, before any sigmoid.

Example:
  strata rerank bge-reranker.gguf \"What is a panda?\" \"A bear of China.\" \"A kind of bread.\"")]
pub(crate) struct Arguments {
    /// The model's file: an encoder with a classifier
    model: PathBuf,
    /// The query
    query: String,
    /// The documents
    #[arg(required = true)]
    documents: Vec<String>,
    /// Print one JSON object, documents by their number from 0
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    compute: ComputeArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let machine = arguments.compute.machine()?;
    let file = ModelFile::open(&arguments.model)?;
    let checked = CheckedModel::new(&file, None, TokenizerUse::Required)?;
    let tokenizer = checked.tokenizer()?;
    let documents = arguments.documents.iter();
    let pairs: Vec<Pair> = documents
        .map(|document| tokenizer.encode_pair(&arguments.query, document))
        .collect();
    let texts: Vec<EncoderInput<'_>> = pairs
        .iter()
        .map(|pair| EncoderInput {
            tokens: &pair.tokens,
            second: pair.second,
        })
        .collect();
    let embedder = Embedder::load(checked, &texts, &arguments.compute, &machine)?;
    let fault = match embedder.labels() {
        0 => Some("has no classifier to rank with".into()),
        1 => None,
        labels => Some(format!("sorts texts into {labels} classes and ranks none")),
    };
    if let Some(fault) = fault {
        return Err(Failure::new(
            Kind::Usage,
            format_args!("{} {fault}", file.path().display()),
        )
        .hint("choose a reranker; strata embed gives vectors to compare"));
    }
    let scores = embedder.rank(&texts, &machine)?;
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
