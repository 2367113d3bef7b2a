//! `strata embed`: texts as vectors.

use crate::computing::ComputeArguments;
use crate::embedder::Embedder;
use crate::failure::{Failure, Kind};
use std::io::Write;
use std::path::PathBuf;
use strata::load::ModelFile;
use strata::load::{CheckedModel, TokenizerUse};
use strata_model::{EncoderInput, Pooling, normalize};
use strata_tokenizer::EncodeOptions;

/// Turn texts into vectors that are close where the texts mean the same
#[derive(clap::Args)]
#[command(after_help = "\
Prints one line of numbers for each text (with --pooling none, for each token).

Examples:
  strata embed all-minilm.gguf \"A cat sat on the mat.\" \"Felines rest.\"
  strata embed model.gguf --pooling mean --json \"Hello\"")]
pub(crate) struct Arguments {
    /// The model's file or folder, its name in the store, or `tale`, which is built in
    model: PathBuf,
    /// The texts
    #[arg(required = true)]
    texts: Vec<String>,
    /// How the states of a text's tokens become one vector [default: as the model says; else mean for encoders, last for
    /// decoders]
    #[arg(long, value_enum, value_name = "KIND")]
    pooling: Option<PoolingName>,
    /// What is done to the vectors
    #[arg(long, value_enum, value_name = "KIND", default_value = "l2")]
    normalize: Normalize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    compute: ComputeArguments,
}

/// The spelling of [`Pooling`] on the command line.
#[derive(Copy, Clone, clap::ValueEnum)]
enum PoolingName {
    /// The mean of all tokens' states
    Mean,
    /// The first token's state
    Cls,
    /// The last token's state
    Last,
    /// All tokens' states
    None,
}

/// What is done to vectors.
#[derive(Copy, Clone, PartialEq, Eq, clap::ValueEnum)]
enum Normalize {
    /// Their length becomes one, so that the dot product is the cosine
    L2,
    /// Nothing
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

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let machine = arguments.compute.machine()?;
    let file = ModelFile::open(&arguments.model)?;
    let checked = CheckedModel::new(&file, None, TokenizerUse::Required)?;
    let tokenizer = checked.tokenizer()?;
    let options = EncodeOptions {
        add_special: true,
        parse_special: false,
    };
    let texts = arguments.texts.iter();
    let tokens: Vec<Vec<u32>> = texts.map(|text| tokenizer.encode(text, options)).collect();
    let texts: Vec<EncoderInput<'_>> = tokens
        .iter()
        .map(|tokens| EncoderInput::single(tokens))
        .collect();
    let embedder = Embedder::load(checked, &texts, &arguments.compute, &machine)?;
    let pooling = arguments
        .pooling
        .map_or_else(|| embedder.pooling(), Pooling::from);
    let width = embedder.width();
    let mut embeddings = embedder.embed(&texts, pooling, &machine)?;
    for (index, embedding) in embeddings.iter_mut().enumerate() {
        if !embedding.iter().all(|x| x.is_finite()) {
            return Err(Failure::new(
                Kind::BadModel,
                format_args!("the vector of text {} is not finite", index + 1),
            )
            .hint("the model's weights may be damaged"));
        }
        if arguments.normalize == Normalize::L2 {
            embedding.chunks_exact_mut(width).for_each(normalize);
        }
    }
    let printed = if arguments.json {
        print_json(&embeddings, &tokens, pooling, width)
    } else {
        print(&embeddings, width)
    };
    printed.map_err(|error| Failure::stdout(&error))
}

fn print(embeddings: &[Vec<f32>], width: usize) -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for row in embeddings.iter().flat_map(|rows| rows.chunks_exact(width)) {
        for (i, x) in row.iter().enumerate() {
            let space = if i == 0 { "" } else { " " };
            write!(out, "{space}{x}")?;
        }
        writeln!(out)?;
    }
    out.flush()
}

fn print_json(
    embeddings: &[Vec<f32>],
    tokens: &[Vec<u32>],
    pooling: Pooling,
    width: usize,
) -> std::io::Result<()> {
    // A JSON value would widen the numbers to f64 and print digits that are not theirs.
    let texts: Vec<String> = (embeddings.iter().zip(tokens))
        .map(|(rows, tokens)| {
            let embedding = match pooling {
                Pooling::None => {
                    serde_json::to_string(&rows.chunks_exact(width).collect::<Vec<_>>())
                }
                _ => serde_json::to_string(rows),
            };
            let embedding = embedding.expect("finite numbers are JSON");
            format!("{{\"tokens\":{},\"embedding\":{embedding}}}", tokens.len())
        })
        .collect();
    writeln!(std::io::stdout(), "{{\"texts\":[{}]}}", texts.join(","))
}
