//! `strata embed`: texts as vectors.

use crate::computing::ComputeArguments;
use crate::failure::{Failure, Kind};
use std::io::Write;
use std::path::{Path, PathBuf};
use strata::{Error, ErrorKind, Model, Pooling, PromptPart};
use strata_chat::Embed;

/// Compute embeddings of texts
#[derive(clap::Args)]
#[command(after_help = "\
Prints one line of numbers for each text (with --pooling none, for each token).

Examples:
  strata embed all-minilm.gguf \"A cat sat on the mat.\" \"Felines rest.\"
  strata embed model.gguf --pooling mean --json \"Hello\"")]
pub(crate) struct Arguments {
    /// The model: a .gguf file, a Hugging Face folder, or a name that `strata list` shows
    model: PathBuf,
    /// The texts
    #[arg(required = true)]
    texts: Vec<String>,
    /// How to pool token states into one vector [default: the model's, or mean]
    #[arg(long, value_enum, value_name = "KIND")]
    pooling: Option<PoolingName>,
    /// How to normalize the vectors
    #[arg(long, value_enum, value_name = "KIND", default_value = "l2")]
    normalize: Normalize,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    compute: ComputeArguments,
}

/// The spelling of [`Pooling`] on the command line.
#[derive(Copy, Clone, clap::ValueEnum)]
enum PoolingName {
    /// Mean of all token states
    Mean,
    /// State of the first token
    Cls,
    /// State of the last token
    Last,
    /// All token states, without pooling
    None,
}

/// What is done to vectors.
#[derive(Copy, Clone, PartialEq, Eq, clap::ValueEnum)]
enum Normalize {
    /// Unit length, so that the dot product is the cosine similarity
    L2,
    /// Not at all
    None,
}

impl From<PoolingName> for Pooling {
    fn from(name: PoolingName) -> Self {
        match name {
            PoolingName::Mean => Pooling::Mean,
            PoolingName::Cls => Pooling::Cls,
            PoolingName::Last => Pooling::Last,
            PoolingName::None => Pooling::None,
        }
    }
}

/// Tokens that a model may put around a text, at most.
const AROUND: usize = 16;

/// A model for texts of so many bytes at most, which have no more tokens than that.
pub(crate) fn open(
    compute: &ComputeArguments,
    path: &Path,
    bytes: usize,
) -> Result<Model, Failure> {
    let mut options = compute.options().context_at_most(bytes + AROUND);
    if let Some(mix) = compute.quant {
        options = options.quantize(mix);
    }
    compute.open_model(&compute.runtime()?, path, options)
}

/// What cannot be embedded or ranked.
pub(crate) fn refused(error: Error) -> Failure {
    let kind = error.kind();
    let failure = Failure::from(error);
    match kind {
        ErrorKind::ContextExceeded => failure.hint("split the text into shorter parts"),
        ErrorKind::Unsupported => {
            failure.hint("use a reranker model, or compare vectors from `strata embed`")
        }
        _ => failure,
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let longest = arguments.texts.iter().map(String::len).max().unwrap_or(0);
    let model = open(&arguments.compute, &arguments.model, longest)?;
    let texts = arguments.texts.iter();
    let request = Embed {
        model: String::new(),
        inputs: texts
            .map(|text| vec![PromptPart::Text(text.clone())])
            .collect(),
        dimensions: None,
        pooling: arguments.pooling.map(Pooling::from),
        normalize: arguments.normalize == Normalize::L2,
        truncate: false,
        keep_alive: None,
        context: None,
    };
    let embeddings = model.embed_request(&request).map_err(refused)?.rows;
    for (index, rows) in embeddings.iter().enumerate() {
        if !rows.iter().flatten().all(|x| x.is_finite()) {
            return Err(Failure::new(
                Kind::BadModel,
                format_args!("the embedding of text {} is not finite", index + 1),
            )
            .hint("the model's weights may be damaged"));
        }
    }
    let printed = if arguments.json {
        print_json(&embeddings, arguments, &model)
    } else {
        print(&embeddings)
    };
    printed.map_err(|error| Failure::stdout(&error))
}

fn print(embeddings: &[Vec<Vec<f32>>]) -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for row in embeddings.iter().flatten() {
        for (i, x) in row.iter().enumerate() {
            let space = if i == 0 { "" } else { " " };
            write!(out, "{space}{x}")?;
        }
        writeln!(out)?;
    }
    out.flush()
}

fn print_json(
    embeddings: &[Vec<Vec<f32>>],
    arguments: &Arguments,
    model: &Model,
) -> std::io::Result<()> {
    let is_pooled = !matches!(arguments.pooling, Some(PoolingName::None));
    // A JSON value would widen the numbers to f64 and print digits that are not theirs.
    let texts: Vec<String> = (embeddings.iter().zip(&arguments.texts))
        .map(|(rows, text)| {
            let embedding = match rows.as_slice() {
                [row] if is_pooled => serde_json::to_string(row),
                rows => serde_json::to_string(rows),
            };
            let embedding = embedding.expect("finite numbers are JSON");
            let tokens = model.tokenize(text).len();
            format!("{{\"tokens\":{tokens},\"embedding\":{embedding}}}")
        })
        .collect();
    writeln!(std::io::stdout(), "{{\"texts\":[{}]}}", texts.join(","))
}
