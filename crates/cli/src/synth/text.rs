//! A language model's tensors, and its header.

use super::shape::{Dimensions, Layers, Output};
use super::vocabulary::{CHAT_TEMPLATE, Vocabulary};
use super::{Arguments, Tensor, Values};
use strata_convert::{Layer, Mix, ModelFacts, Role};
use strata_quant::GgmlType;
use strata_weights::gguf::{Builder, Layout, WriteError};

/// Positions that a short convolution sees, and that of a state space.
const TAPS: u64 = 3;
const SSM_TAPS: u64 = 4;

/// Every matrix and norm of a model of these dimensions, in the order that a forward pass reads them.
pub(super) fn tensors(d: &Dimensions, mix: Mix) -> Vec<Tensor> {
    let [hidden, ffn, kv] = [d.hidden, d.ffn, d.kv_width()].map(u64::from);
    let vocabulary = u64::from(d.vocabulary);
    let keep = |width: u64| 1.0 / (width as f32).sqrt();
    // A layer adds two branches; together they grow the stream about as much as it had at the start.
    let branch = keep(hidden) * (0.5 / d.layers as f32).sqrt();
    // silu(a)·b of two unit normals has a standard deviation of 0.6.
    let gated = 0.6;

    let facts = ModelFacts {
        layers: d.layers,
        tied: d.output == Output::Tied,
        heads_per_key: d.heads / d.kv_heads,
        experts: match d.mixers {
            Layers::Experts(experts) => experts.count,
            _ => 0,
        },
        ..ModelFacts::default()
    };

    let mut all = Vec::new();
    let mut matrix = |name: String, role, columns, rows, deviation| {
        all.push(Tensor {
            name,
            ty: mix.choose(role, &facts, columns),
            dims: vec![columns, rows],
            values: Values::Noise(deviation),
        });
    };
    let embedding = match d.output {
        Output::Tied => Role::Output,
        Output::Own => Role::Embedding,
    };
    matrix(
        "token_embd.weight".into(),
        embedding,
        hidden,
        vocabulary,
        keep(hidden),
    );
    for layer in 0..d.layers {
        let place = Layer {
            index: layer,
            of: d.layers,
        };
        let mut block = |name: &str, role, columns, rows, deviation| {
            matrix(
                format!("blk.{layer}.{name}.weight"),
                role,
                columns,
                rows,
                deviation,
            );
        };
        if d.attends(layer) {
            block("attn_q", Role::Other, hidden, hidden, keep(hidden));
            block("attn_k", Role::AttnK, hidden, kv, keep(hidden));
            block("attn_v", Role::AttnV(place), hidden, kv, keep(hidden));
            block(
                "attn_output",
                Role::AttnOutput,
                hidden,
                hidden,
                keep(hidden) * branch,
            );
        } else if let Layers::Mamba2(_, space) = d.mixers {
            let inner = 2 * hidden;
            let rows = 2 * inner + 2 * u64::from(space.state) + u64::from(space.heads);
            block("ssm_in", Role::Other, hidden, rows, keep(hidden));
            block("ssm_out", Role::Other, inner, hidden, keep(inner) * branch);
        } else {
            let (input, output) = ("shortconv.in_proj", "shortconv.out_proj");
            block(input, Role::Other, hidden, 3 * hidden, keep(hidden));
            block(output, Role::Other, hidden, hidden, keep(hidden) * branch);
        }
        if let Layers::Experts(_) = d.mixers {
            continue;
        }
        block("ffn_gate", Role::Other, hidden, ffn, keep(hidden));
        block("ffn_up", Role::Other, hidden, ffn, keep(hidden));
        block(
            "ffn_down",
            Role::FfnDown(place),
            ffn,
            hidden,
            keep(ffn) / gated * branch,
        );
    }
    if d.output == Output::Own {
        matrix(
            "output.weight".into(),
            Role::Output,
            hidden,
            vocabulary,
            keep(hidden),
        );
    }
    if let Layers::Experts(experts) = d.mixers {
        let (ffn, count) = (u64::from(experts.ffn), u64::from(experts.count));
        let down = keep(ffn) / gated * branch;
        for index in 0..d.layers {
            let place = Layer {
                index,
                of: d.layers,
            };
            for (name, role, columns, rows, deviation) in [
                ("ffn_gate_exps", Role::Experts, hidden, ffn, keep(hidden)),
                ("ffn_up_exps", Role::Experts, hidden, ffn, keep(hidden)),
                ("ffn_down_exps", Role::FfnDown(place), ffn, hidden, down),
            ] {
                all.push(Tensor {
                    name: format!("blk.{index}.{name}.weight"),
                    ty: mix.choose(role, &facts, columns),
                    dims: vec![columns, rows, count],
                    values: Values::Noise(deviation),
                });
            }
        }
    }
    let mut floats = |name: String, dims: &[u64], values| {
        all.push(Tensor {
            name,
            ty: GgmlType::F32,
            dims: dims.to_vec(),
            values,
        });
    };
    for layer in 0..d.layers {
        let name = |name: &str| format!("blk.{layer}.{name}.weight");
        floats(name("attn_norm"), &[hidden], Values::Ones);
        floats(name("ffn_norm"), &[hidden], Values::Ones);
        match d.mixers {
            Layers::Attention => {}
            Layers::Mamba2(..) if d.attends(layer) => {}
            Layers::Mamba2(_, space) => {
                let (inner, heads) = (2 * hidden, u64::from(space.heads));
                let channels = inner + 2 * u64::from(space.state);
                let taps = Values::Noise(keep(SSM_TAPS));
                floats(name("ssm_conv1d"), &[SSM_TAPS, channels], taps);
                floats(name("ssm_norm"), &[inner], Values::Ones);
                let bare = |name: &str| format!("blk.{layer}.{name}");
                floats(bare("ssm_conv1d.bias"), &[channels], Values::Noise(0.1));
                floats(bare("ssm_dt.bias"), &[heads], Values::Noise(0.5));
                floats(bare("ssm_a"), &[1, heads], Values::MinusOnes);
                floats(bare("ssm_d"), &[1, heads], Values::Ones);
            }
            Layers::Experts(experts) => {
                let head = u64::from(d.head_dim());
                floats(name("attn_q_norm"), &[head], Values::Ones);
                floats(name("attn_k_norm"), &[head], Values::Ones);
                // A router in f32, and experts that are told apart.
                let router = &[hidden, u64::from(experts.count)];
                floats(name("ffn_gate_inp"), router, Values::Noise(keep(hidden)));
            }
            Layers::ShortConv(_) if d.attends(layer) => {
                let head = u64::from(d.head_dim());
                floats(name("attn_q_norm"), &[head], Values::Ones);
                floats(name("attn_k_norm"), &[head], Values::Ones);
            }
            Layers::ShortConv(_) => {
                let taps = Values::Noise(keep(TAPS));
                floats(name("shortconv.conv"), &[TAPS, hidden], taps);
            }
        }
    }
    let output_norm = match d.mixers {
        Layers::ShortConv(_) => "token_embd_norm.weight",
        _ => "output_norm.weight",
    };
    floats(output_norm.into(), &[hidden], Values::Signs);
    all
}

/// The header: what the model is, its vocabulary, its tensors.
pub(super) fn describe(arguments: &Arguments, tensors: &[Tensor]) -> Result<Layout, WriteError> {
    let (shape, mix) = (arguments.shape, arguments.mix);
    let d = shape.dimensions();
    let vocabulary = Vocabulary::new(d.vocabulary);
    let mut file = Builder::new();
    let arch = d.arch();
    let key = |name: &str| format!("{arch}.{name}");
    file.set("general.architecture", arch)?;
    file.set(
        "general.name",
        format!("synth {} {}", shape.name(), mix.name()).as_str(),
    )?;
    file.set("general.file_type", mix.file_type())?;
    file.set("general.quantization_version", 2)?;
    file.set(&key("context_length"), d.context)?;
    file.set(&key("embedding_length"), d.hidden)?;
    file.set(&key("block_count"), d.layers)?;
    file.set(&key("feed_forward_length"), d.ffn)?;
    file.set(&key("attention.head_count"), d.heads)?;
    let kv_heads = key("attention.head_count_kv");
    match d.mixers {
        Layers::Attention | Layers::Experts(_) => file.set(&kv_heads, d.kv_heads)?,
        Layers::ShortConv(_) | Layers::Mamba2(..) => {
            let heads = (0..d.layers).map(|layer| d.kv_heads as i32 * i32::from(d.attends(layer)));
            file.set_array(&kv_heads, heads)?
        }
    };
    match d.mixers {
        Layers::Attention => {}
        Layers::ShortConv(_) => {
            file.set(&key("shortconv.l_cache"), TAPS as u32)?;
        }
        Layers::Experts(experts) => {
            file.set(&key("expert_count"), experts.count)?;
            file.set(&key("expert_used_count"), experts.used)?;
            file.set(&key("expert_feed_forward_length"), experts.ffn)?;
        }
        Layers::Mamba2(_, space) => {
            file.set(&key("ssm.conv_kernel"), SSM_TAPS as u32)?;
            file.set(&key("ssm.inner_size"), 2 * d.hidden)?;
            file.set(&key("ssm.state_size"), space.state)?;
            file.set(&key("ssm.time_step_rank"), space.heads)?;
            file.set(&key("ssm.group_count"), 1_u32)?;
        }
    }
    file.set(&key("attention.layer_norm_rms_epsilon"), 1e-5f32)?;
    file.set(&key("rope.dimension_count"), d.head_dim())?;
    file.set(&key("rope.freq_base"), d.rope_base)?;
    file.set(&key("vocab_size"), d.vocabulary)?;
    file.set("tokenizer.ggml.model", "gpt2")?;
    file.set("tokenizer.ggml.pre", "gpt-2")?;
    file.set_array("tokenizer.ggml.tokens", &vocabulary.tokens)?;
    file.set_array("tokenizer.ggml.token_type", &vocabulary.types)?;
    file.set_array("tokenizer.ggml.merges", &vocabulary.merges)?;
    file.set("tokenizer.ggml.bos_token_id", vocabulary.end_of_text)?;
    file.set("tokenizer.ggml.eos_token_id", vocabulary.end_of_text)?;
    file.set("tokenizer.ggml.eot_token_id", vocabulary.end_of_turn)?;
    file.set("tokenizer.ggml.add_bos_token", true)?;
    file.set("tokenizer.chat_template", CHAT_TEMPLATE)?;
    for tensor in tensors {
        file.tensor(&tensor.name, tensor.ty, &tensor.dims)?;
    }
    file.finish()
}
