//! A llama with random weights and the shape of a published one, as the bytes of a GGUF file.

use strata_model::GgmlType;
use strata_weights::gguf::Builder;

/// The sizes of a model.
pub(crate) struct Sizes {
    pub(crate) layers: u32,
    pub(crate) width: u32,
    pub(crate) ffn: u32,
    pub(crate) heads: u32,
    pub(crate) kv_heads: u32,
    pub(crate) vocabulary: u32,
}

/// Those of Llama 3.2 1B, Llama 3.1 8B and Qwen 2.5 32B; `8b4` has four layers of the second.
pub(crate) fn sizes(name: &str) -> Option<Sizes> {
    let [layers, width, ffn, heads, kv_heads, vocabulary] = match name {
        "1b" => [16, 2048, 8192, 32, 8, 128_256],
        "8b" => [32, 4096, 14336, 32, 8, 128_256],
        // A few layers of it, for profilers.
        "8b4" => [4, 4096, 14336, 32, 8, 128_256],
        "32b" => [64, 5120, 27648, 40, 8, 152_064],
        _ => return None,
    };
    Some(Sizes {
        layers,
        width,
        ffn,
        heads,
        kv_heads,
        vocabulary,
    })
}

/// A file whose matrices have the types of Q4_K_M.
pub(crate) fn file(sizes: &Sizes) -> Vec<u8> {
    use GgmlType::{F32, Q4_K, Q6_K};
    let mut builder = Builder::new();
    let key = |name: &str| format!("llama.{name}");
    let head = sizes.width / sizes.heads;
    builder.set("general.architecture", "llama").expect("a key");
    for (name, value) in [
        ("context_length", 131_072),
        ("embedding_length", sizes.width),
        ("block_count", sizes.layers),
        ("feed_forward_length", sizes.ffn),
        ("attention.head_count", sizes.heads),
        ("attention.head_count_kv", sizes.kv_heads),
        ("rope.dimension_count", head),
    ] {
        builder.set(&key(name), value).expect("a key");
    }
    builder
        .set(&key("attention.layer_norm_rms_epsilon"), 1e-5f32)
        .expect("a key");
    builder
        .set(&key("rope.freq_base"), 500_000f32)
        .expect("a key");
    let [width, ffn, vocabulary] = [sizes.width, sizes.ffn, sizes.vocabulary].map(u64::from);
    let kv = u64::from(head * sizes.kv_heads);
    let mut tensors = vec![(
        "token_embd.weight".to_owned(),
        Q4_K,
        vec![width, vocabulary],
    )];
    for layer in 0..sizes.layers {
        // Half of the layers have more bits in two places.
        let eighth = sizes.layers / 8;
        let more = layer < eighth || layer >= 7 * eighth || (layer - eighth) % 3 == 2;
        let high = if more { Q6_K } else { Q4_K };
        for (name, ty, dims) in [
            ("attn_norm", F32, vec![width]),
            ("attn_q", Q4_K, vec![width, width]),
            ("attn_k", Q4_K, vec![width, kv]),
            ("attn_v", high, vec![width, kv]),
            ("attn_output", Q4_K, vec![width, width]),
            ("ffn_norm", F32, vec![width]),
            ("ffn_gate", Q4_K, vec![width, ffn]),
            ("ffn_up", Q4_K, vec![width, ffn]),
            ("ffn_down", high, vec![ffn, width]),
        ] {
            tensors.push((format!("blk.{layer}.{name}.weight"), ty, dims));
        }
    }
    tensors.push(("output_norm.weight".into(), F32, vec![width]));
    tensors.push(("output.weight".into(), Q6_K, vec![width, vocabulary]));
    for (name, ty, dims) in &tensors {
        builder.tensor(name, *ty, dims).expect("a tensor");
    }
    let layout = builder.finish().expect("a file");
    let mut bytes = layout.header.clone();
    bytes.reserve(layout.total_len as usize);
    let mut state = 1u64;
    for ((_, ty, _), extent) in tensors.iter().zip(&layout.tensors) {
        let start = bytes.len();
        bytes.resize(start + extent.padded_len as usize, 0);
        let data = &mut bytes[start..][..extent.len as usize];
        fill(*ty, data, &mut state);
    }
    bytes
}

/// Random blocks whose values have a standard deviation of about 1/64; ones for norms.
fn fill(ty: GgmlType, data: &mut [u8], state: &mut u64) {
    if ty == GgmlType::F32 {
        data.as_chunks_mut::<4>().0.fill(1f32.to_le_bytes());
        return;
    }
    for chunk in data.chunks_mut(8) {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        chunk.copy_from_slice(&(z ^ z >> 31).to_le_bytes()[..chunk.len()]);
    }
    for block in data.chunks_exact_mut(ty.block_bytes()) {
        // As half floats: about 1e-4 and 7.5e-4, or 1.3e-5.
        if ty == GgmlType::Q4_K {
            block[..4].copy_from_slice(&[0x8e, 0x06, 0x25, 0x12]);
        } else {
            block[208..210].copy_from_slice(&[0xda, 0x00]);
        }
    }
}
