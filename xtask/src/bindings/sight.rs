//! A model that sees, for the tests of images in messages: a tiny one with random weights, told how to write messages.

use super::folder;
use crate::command::root;
use anyhow::{Result, ensure};
use std::fs;
use std::path::PathBuf;

/// What the model's file does not have: all contents, one after the other.
const TEMPLATE: &str = "{% for message in messages %}{% if message.content is string %}{{ message.content }}{% else %}\
                        {% for part in message.content %}{% if part.type == 'text' %}{{ part.text }}{% else %}<image>\
                        {% endif %}{% endfor %}{% endif %}{% endfor %}";
/// GGUF's number for a text, and the bytes of the header: a magic word, a version, and how many tensors and entries there are.
const TEXT: u32 = 8;
const ENTRIES: usize = 16;
const HEADER: usize = 24;
/// Tensors begin at multiples of this.
const ALIGNMENT: usize = 32;

/// The files of the model and of its projector.
pub(super) fn files() -> Result<(PathBuf, PathBuf)> {
    let golden = root().join("crates/model/tests/golden_vision");
    let place = folder().join("sight");
    fs::create_dir_all(&place)?;
    let model = place.join("model.gguf");
    fs::write(
        &model,
        with_template(&fs::read(golden.join("llava.gguf"))?)?,
    )?;
    let projector = place.join("eyes.gguf");
    fs::copy(golden.join("llava.mmproj.gguf"), &projector)?;
    Ok((model, projector))
}

/// A GGUF file with a template, as its first entry.
fn with_template(file: &[u8]) -> Result<Vec<u8>> {
    ensure!(
        file.len() > HEADER && file.starts_with(b"GGUF"),
        "no GGUF file"
    );
    let key = "tokenizer.chat_template";
    let len = 8 + key.len() + 4 + 8 + TEMPLATE.len();
    // A comment of the length that leaves the tensors where they would be.
    let rest = (len + "{##}".len()).next_multiple_of(ALIGNMENT) - len - "{##}".len();
    let template = format!("{TEMPLATE}{{#{}#}}", " ".repeat(rest));
    let mut entries = [0; 8];
    entries.copy_from_slice(&file[ENTRIES..HEADER]);
    let mut new = file[..ENTRIES].to_vec();
    new.extend((u64::from_le_bytes(entries) + 1).to_le_bytes());
    new.extend((key.len() as u64).to_le_bytes());
    new.extend(key.bytes());
    new.extend(TEXT.to_le_bytes());
    new.extend((template.len() as u64).to_le_bytes());
    new.extend(template.bytes());
    new.extend(&file[HEADER..]);
    Ok(new)
}

/// A question about a picture in OpenAI's shape, as JSON.
pub(super) fn question() -> String {
    let picture = base64(&bitmap(20));
    format!(
        "{{\"messages\":[{{\"role\":\"user\",\"content\":[{{\"type\":\"text\",\"text\":\"123\"}},{{\"type\":\"image_url\",\
         \"image_url\":{{\"url\":\"data:image/bmp;base64,{picture}\"}}}},{{\"type\":\"text\",\"text\":\"ABC\"}}]}}],\
         \"max_tokens\":6,\"temperature\":0,\"ignore_eos\":true,\"logprobs\":true}}"
    )
}

/// A Windows bitmap with so many pixels on each side.
fn bitmap(side: u32) -> Vec<u8> {
    let row = (side * 3).next_multiple_of(4);
    let mut file = b"BM".to_vec();
    file.extend((54 + row * side).to_le_bytes());
    file.extend([0; 4]);
    for number in [54, 40, side, side] {
        file.extend(number.to_le_bytes());
    }
    file.extend([1, 0, 24, 0]);
    file.extend([0; 24]);
    for y in 0..side {
        file.extend((0..row).map(|x| (x * 33 + y * 87) as u8));
    }
    file
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, i| {
            bits << 8 | u32::from(three.get(i).copied().unwrap_or(0))
        });
        for i in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * i)) as usize & 63];
            text.push(if i <= three.len() { letter.into() } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_as_letters() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn a_template_moves_what_follows_by_whole_steps() {
        let file = [b"GGUF".as_slice(), &[0; 60]].concat();
        let new = with_template(&file).unwrap();
        assert_eq!((new.len() - file.len()) % ALIGNMENT, 0);
        assert_eq!(new[ENTRIES], 1);
    }
}
