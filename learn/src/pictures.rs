//! The book's pictures, made from its own code and the built-in model.

mod file_parts;

use crate::bytes::ReadError;
use crate::decoder::Decoder;
use crate::demos::PROMPT;
use crate::experts::route;
use crate::gguf::{ModelFile, block_size};
use crate::sampling::candidates;
use crate::solutions::expected::expected_tokens;
use crate::svg::{Cell, bars, curves, rows, shades};
use crate::text::token_bytes;
use file_parts::file_picture;

/// The pictures' names.
pub const NAMES: [&str; 25] = [
    "half",
    "tensor",
    "file",
    "lanes",
    "blocks",
    "wall",
    "norm",
    "rope",
    "gate",
    "sampling",
    "attention",
    "decoder",
    "merges",
    "layer",
    "experts",
    "patches",
    "schedule",
    "prefix",
    "drafts",
    "address",
    "ring",
    "chunks",
    "chat",
    "registers",
    "workers",
];

/// One of the [`NAMES`] as SVG.
pub fn picture(name: &str, file: &ModelFile<'_>) -> Result<String, ReadError> {
    let cells = |cells: &[(&str, f64)]| -> Vec<Cell> {
        cells.iter().map(|cell| (cell.0.into(), cell.1)).collect()
    };
    Ok(match name {
        "half" => rows(
            "The bits of a half float and of an f32",
            &[
                (
                    "f16",
                    cells(&[
                        ("±", 1.0),
                        ("exp 5", 5.0),
                        ("fraction 10", 10.0),
                        ("", 16.0),
                    ]),
                ),
                (
                    "f32",
                    cells(&[("±", 1.0), ("exp 8", 8.0), ("fraction 23", 23.0)]),
                ),
                (
                    "bf16",
                    cells(&[("±", 1.0), ("exp 8", 8.0), ("fraction 7", 7.0), ("", 16.0)]),
                ),
            ],
        ),
        "tensor" => {
            let row = |r: usize| (0..4).map(|c| ((4 * r + c).to_string(), 1.0)).collect();
            rows(
                "A matrix of three rows and four columns, and the place of each number in memory",
                &[("row 0", row(0)), ("row 1", row(1)), ("row 2", row(2))],
            )
        }
        "file" => file_picture(file),
        "lanes" => {
            let lanes = |n: usize| (0..n).map(|j| (j.to_string(), 1.0)).collect();
            let names = [(16, "16 lanes"), (8, "+8"), (4, "+4"), (2, "+2"), (1, "+1")];
            let table: Vec<(&str, Vec<Cell>)> = names
                .into_iter()
                .map(|(n, name)| (name, lanes(n)))
                .collect();
            rows("Sixteen lanes folded in four steps", &table)
        }
        "blocks" => rows(
            "The bytes of blocks",
            &[
                (
                    "Q4_0, 18 bytes",
                    cells(&[("d", 2.0), ("32 quants of 4 bits", 16.0)]),
                ),
                (
                    "Q8_0, 34 bytes",
                    cells(&[("d", 2.0), ("32 quants of 8 bits", 32.0)]),
                ),
                (
                    "Q4_K, 144 bytes",
                    cells(&[
                        ("d", 10.0),
                        ("dmin", 18.0),
                        ("scales", 24.0),
                        ("256 quants", 128.0),
                    ]),
                ),
                (
                    "Q6_K, 210 bytes",
                    cells(&[
                        ("low bits", 128.0),
                        ("high bits", 64.0),
                        ("scales", 34.0),
                        ("d", 12.0),
                    ]),
                ),
            ],
        ),
        "wall" => {
            let kinds = [
                (0, "F32"),
                (1, "F16"),
                (8, "Q8_0"),
                (14, "Q6_K"),
                (12, "Q4_K"),
            ];
            let bits = kinds.into_iter().filter_map(|(kind, name)| {
                let (len, bytes) = block_size(kind)?;
                Some((name.to_string(), 8.0 * bytes as f64 / len as f64))
            });
            bars(
                "Bits that are read for each weight",
                &bits.collect::<Vec<_>>(),
            )
        }
        "norm" => {
            let x = [0.5, -2.0, 1.0, 0.25];
            let size = (x.iter().map(|x| x * x).sum::<f64>() / 4.0).sqrt();
            let mut table = Vec::new();
            for (i, x) in x.into_iter().enumerate() {
                table.push((format!("|x{i}| before"), f64::abs(x)));
                table.push((format!("|x{i}| after"), f64::abs(x) / size));
            }
            bars("Four numbers before and after RMSNorm", &table)
        }
        "rope" => {
            let turns = (0..8).map(|i| {
                let turn = 10_000f64.powf(-2.0 * f64::from(i) / 16.0);
                (format!("pair {i}"), turn)
            });
            let title = "Radians that each pair of a head of 16 turns at each position";
            bars(title, &turns.collect::<Vec<_>>())
        }
        "gate" => curves(
            "SiLU, ReLU and the sigmoid between -4 and 4",
            [-4.0, 4.0],
            &[
                ("SiLU", |x| x / (1.0 + (-x).exp())),
                ("ReLU", |x| x.max(0.0)),
                ("sigmoid", |x| 1.0 / (1.0 + (-x).exp())),
            ],
        ),
        "sampling" => {
            let mut decoder = Decoder::load(file)?;
            let mut logits = Vec::new();
            for (position, token) in PROMPT.into_iter().enumerate() {
                logits = decoder.forward(token, position).to_vec();
            }
            let list = candidates(&logits);
            let likely = list.iter().take(8);
            let likely = likely.map(|c| (quoted(file, c.token), c.probability));
            bars(
                "What tale expects after \u{201c}Once upon a time\u{201d}",
                &likely.collect::<Vec<_>>(),
            )
        }
        "attention" => {
            let mut decoder = Decoder::load(file)?;
            for (position, token) in PROMPT.into_iter().enumerate() {
                decoder.forward(token, position);
            }
            let columns: Vec<String> = PROMPT.iter().map(|t| quoted(file, *t)).collect();
            let heads = decoder.last_attention().into_iter().enumerate();
            let table: Vec<_> = heads.map(|(i, row)| (format!("head {i}"), row)).collect();
            shades(
                "What the last token looks at in the last layer",
                &columns,
                &table,
            )
        }
        "decoder" => rows(
            "The way of a token through the decoder",
            &[
                ("in", cells(&[("a row of token_embd", 1.0)])),
                (
                    "each layer adds",
                    cells(&[("attn_norm, q, k, v, RoPE, heads, attn_output", 1.0)]),
                ),
                (
                    "and adds",
                    cells(&[("ffn_norm, gate, up, SiLU, down", 1.0)]),
                ),
                (
                    "out",
                    cells(&[("output_norm, every row of token_embd: logits", 1.0)]),
                ),
            ],
        ),
        "drafts" => {
            let rates = [0.0, 0.3, 0.5, 0.7, 0.9].map(|rate| {
                (
                    format!("{:.0} % right", rate * 100.0),
                    expected_tokens(rate, 4),
                )
            });
            bars(
                "Tokens that a step gives on average, with drafts of four",
                &rates,
            )
        }
        "merges" => rows(
            "How the letters of a word become one token",
            &[
                (
                    "bytes",
                    cells(&[("t", 1.0), ("i", 1.0), ("m", 1.0), ("e", 1.0)]),
                ),
                ("merge i m", cells(&[("t", 1.0), ("im", 2.0), ("e", 1.0)])),
                ("merge im e", cells(&[("t", 1.0), ("ime", 3.0)])),
                ("merge t ime", cells(&[("time", 4.0)])),
            ],
        ),
        "layer" => rows(
            "The same layer in three families",
            &[
                (
                    "llama",
                    cells(&[
                        ("norm", 1.0),
                        ("attention", 2.0),
                        ("norm", 1.0),
                        ("gated", 2.0),
                    ]),
                ),
                (
                    "qwen3",
                    cells(&[
                        ("norm", 1.0),
                        ("attention, norms", 2.0),
                        ("norm", 1.0),
                        ("gated", 2.0),
                    ]),
                ),
                (
                    "lfm2",
                    cells(&[
                        ("norm", 1.0),
                        ("convolution", 2.0),
                        ("norm", 1.0),
                        ("gated", 2.0),
                    ]),
                ),
            ],
        ),
        "patches" => rows(
            "A picture between words: the text, cut into tokens, and the rows that the model sees",
            &[
                (
                    "the picture",
                    cells(&[
                        ("patch", 1.0),
                        ("patch", 1.0),
                        ("patch", 1.0),
                        ("patch", 1.0),
                    ]),
                ),
                ("merged", cells(&[("row", 1.0), ("row", 1.0)])),
                (
                    "the text",
                    cells(&[("What", 1.0), (" is", 1.0), ("<image>", 1.0), ("?", 1.0)]),
                ),
                (
                    "the model",
                    cells(&[
                        ("What", 1.0),
                        (" is", 1.0),
                        ("row", 1.0),
                        ("row", 1.0),
                        ("?", 1.0),
                    ]),
                ),
            ],
        ),
        "experts" => {
            let shares = route(&[0.4, 2.1, -0.3, 1.4, 0.0, 0.9, -1.2, 0.2], 8);
            let mut table: Vec<_> = shares.into_iter().collect();
            table.sort_by_key(|share| share.0);
            let table = table
                .iter()
                .map(|(e, share)| (format!("expert {e}"), f64::from(*share)));
            bars(
                "What a router thinks of eight experts",
                &table.collect::<Vec<_>>(),
            )
        }
        "schedule" => rows(
            "Three steps of a server, with sixteen tokens each",
            &[
                (
                    "step 1",
                    cells(&[("a", 1.0), ("b", 1.0), ("prompt of c", 14.0)]),
                ),
                (
                    "step 2",
                    cells(&[
                        ("a", 1.0),
                        ("b", 1.0),
                        ("prompt of c", 6.0),
                        ("prompt of d", 8.0),
                    ]),
                ),
                (
                    "step 3",
                    cells(&[
                        ("a", 1.0),
                        ("b", 1.0),
                        ("c", 1.0),
                        ("d", 1.0),
                        ("free", 12.0),
                    ]),
                ),
            ],
        ),
        "prefix" => rows(
            "Two chats that share two pages of a system prompt",
            &[
                (
                    "chat 1",
                    cells(&[
                        ("page 0", 1.0),
                        ("page 1", 1.0),
                        ("page 2", 1.0),
                        ("page 3", 1.0),
                    ]),
                ),
                (
                    "chat 2",
                    cells(&[
                        ("page 0", 1.0),
                        ("page 1", 1.0),
                        ("page 4", 1.0),
                        ("page 5", 1.0),
                    ]),
                ),
                (
                    "chat 3",
                    cells(&[("page 6", 1.0), ("page 7", 1.0), ("", 1.0), ("", 1.0)]),
                ),
            ],
        ),
        "chunks" => rows(
            "A thousand positions in chunks of 256, by one worker and by two",
            &[
                (
                    "one worker",
                    cells(&[("0", 256.0), ("0", 256.0), ("0", 256.0), ("0", 232.0)]),
                ),
                (
                    "two workers",
                    cells(&[("0", 256.0), ("0", 256.0), ("1", 256.0), ("1", 232.0)]),
                ),
                (
                    "joined as",
                    cells(&[
                        ("first", 256.0),
                        ("second", 256.0),
                        ("third", 256.0),
                        ("last", 232.0),
                    ]),
                ),
            ],
        ),
        "chat" => rows(
            "A chat and the prompt that the model sees",
            &[
                (
                    "the chat",
                    cells(&[("user", 1.0), ("Tell me a story about a fox.", 3.0)]),
                ),
                (
                    "the prompt",
                    cells(&[("<|im_start|>user", 2.0), ("Tell me a story …", 2.0)]),
                ),
                (
                    "",
                    cells(&[("<|im_end|>", 1.5), ("<|im_start|>assistant", 2.5)]),
                ),
            ],
        ),
        "registers" => {
            let parts = |n: usize| {
                (0..n)
                    .map(|_| (format!("{} floats", 16 / n), 1.0))
                    .collect()
            };
            rows(
                "Sixteen lanes in the registers of three instruction sets",
                &[
                    ("AVX-512", parts(1)),
                    ("AVX2", parts(2)),
                    ("NEON", parts(4)),
                ],
            )
        }
        "workers" => rows(
            "Runs of rows, taken by two workers of which one was interrupted",
            &[
                (
                    "worker 0",
                    cells(&[
                        ("run 0", 1.0),
                        ("run 2", 1.0),
                        ("run 3", 1.0),
                        ("run 5", 1.0),
                    ]),
                ),
                (
                    "worker 1",
                    cells(&[("run 1", 1.0), ("elsewhere", 2.0), ("run 4", 1.0)]),
                ),
            ],
        ),
        "address" => rows(
            "The bits of an address on x86-64",
            &[
                (
                    "4 KiB pages",
                    cells(&[
                        ("sign", 16.0),
                        ("9", 9.0),
                        ("9", 9.0),
                        ("9", 9.0),
                        ("9", 9.0),
                        ("place: 12", 12.0),
                    ]),
                ),
                (
                    "2 MiB pages",
                    cells(&[
                        ("sign", 16.0),
                        ("9", 9.0),
                        ("9", 9.0),
                        ("9", 9.0),
                        ("place: 21", 21.0),
                    ]),
                ),
            ],
        ),
        "ring" => rows(
            "A ring of eight descriptors",
            &[(
                "descriptors",
                cells(&[
                    ("taken", 1.0),
                    ("done", 1.0),
                    ("done", 1.0),
                    ("empty", 1.0),
                    ("empty", 1.0),
                    ("empty", 1.0),
                    ("empty", 1.0),
                    ("tail", 1.0),
                ]),
            )],
        ),
        _ => {
            return Err(ReadError {
                at: 0,
                what: format!("there is no picture {name:?}"),
            });
        }
    })
}

fn quoted(file: &ModelFile<'_>, token: u32) -> String {
    let text = String::from_utf8_lossy(&token_bytes(file, token)).into_owned();
    format!("\u{201c}{text}\u{201d}")
}
