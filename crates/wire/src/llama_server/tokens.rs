//! `/tokenize`, `/detokenize`, `/tokenizer_info` and `/apply-template`, in llama-server's words and in vLLM's.

use crate::answer::Reply;
use crate::call::Call;
use crate::request_fields::chat::{self, LastAnswer};
use alloc::boxed::Box;
use alloc::string::String;
use strata_chat::json::{Fields, Json};
use strata_chat::{Detokenize, Fault, TokenPiece, Tokenize, Tokenized, TokenizerFacts};

/// llama-server's texts are called `content`; vLLM's are called `prompt`, or are `messages`.
pub(super) fn tokenize(body: &[u8]) -> Result<Call, Fault> {
    let mut fields = Fields::parse(body)?;
    if fields.peek("messages").is_some() {
        return tokenize_chat(fields);
    }
    if fields.peek("prompt").is_some() && fields.peek("content").is_none() {
        return tokenize_prompt(fields);
    }
    let request = Tokenize {
        model: fields.maybe_string("model")?,
        text: fields.string("content")?,
        add_special: fields.maybe_boolean("add_special")?.unwrap_or(false),
        parse_special: fields.maybe_boolean("parse_special")?.unwrap_or(true),
    };
    let with_pieces = fields.maybe_boolean("with_pieces")?.unwrap_or(false);
    fields.finish()?;
    let token = move |piece: &TokenPiece| {
        if with_pieces {
            Json::object([("id", piece.token.into()), ("piece", spelt(&piece.bytes))])
        } else {
            piece.token.into()
        }
    };
    Ok(Call::Tokenize(
        request,
        Box::new(move |tokenized| {
            let tokens = Json::array(tokenized.pieces.iter().map(token));
            Reply::json(&Json::object([("tokens", tokens)]))
        }),
    ))
}

fn tokenize_prompt(mut fields: Fields) -> Result<Call, Fault> {
    let request = Tokenize {
        model: fields.maybe_string("model")?,
        text: fields.string("prompt")?,
        add_special: fields.maybe_boolean("add_special_tokens")?.unwrap_or(true),
        parse_special: true,
    };
    let strings = fields.maybe_boolean("return_token_strs")?.unwrap_or(false);
    fields.finish()?;
    let write = move |tokenized: &Tokenized| {
        let pieces = tokenized.pieces.iter();
        let tokens = Json::array(pieces.clone().map(|piece| piece.token.into()));
        let text = |piece: &TokenPiece| String::from_utf8_lossy(&piece.bytes).as_ref().into();
        let texts = strings.then(|| Json::array(pieces.map(text)));
        counted(tokens, tokenized.context, texts)
    };
    Ok(Call::Tokenize(request, Box::new(write)))
}

fn tokenize_chat(mut fields: Fields) -> Result<Call, Fault> {
    // The template writes what must stand around a conversation.
    for name in ["return_token_strs", "add_special_tokens"] {
        if fields.maybe_boolean(name)? == Some(true) {
            let problem = format_args!("true is not supported with messages");
            return Err(Fault::field(&fields.at(name), problem));
        }
    }
    let (request, _) = chat::read_fields(fields, LastAnswer::Stands)?;
    Ok(Call::Render(
        Box::new(request),
        Box::new(|rendered| counted(rendered.tokens.clone().into(), rendered.context, None)),
    ))
}

/// vLLM's answer.
fn counted(tokens: Json, context: usize, texts: Option<Json>) -> Reply {
    let count = tokens.as_array().map_or(0, <[Json]>::len);
    Reply::json(&Json::object([
        ("count", count.into()),
        ("max_model_len", context.into()),
        ("tokens", tokens),
        ("token_strs", texts.unwrap_or_default()),
    ]))
}

/// A text, or its bytes where they are only a piece of a character.
fn spelt(bytes: &[u8]) -> Json {
    match core::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => Json::array(bytes.iter().map(|&byte| u32::from(byte).into())),
    }
}

pub(super) fn detokenize(body: &[u8]) -> Result<Call, Fault> {
    let mut fields = Fields::parse(body)?;
    let model = fields.maybe_string("model")?;
    let path = fields.at("tokens");
    let list = fields.take("tokens");
    let list = list.ok_or_else(|| fields.missing("tokens"))?;
    let tokens = path
        .list(list)?
        .map(|(path, item)| Ok(path.integer(&item, 0..=i64::from(u32::MAX))? as u32))
        .collect::<Result<_, Fault>>()?;
    fields.finish()?;
    // Both servers' clients ask the same, so both get their answer.
    Ok(Call::Detokenize(
        Detokenize { model, tokens },
        Box::new(|text| {
            let text = text.as_str();
            Reply::json(&Json::object([
                ("content", text.into()),
                ("prompt", text.into()),
            ]))
        }),
    ))
}

/// What vLLM tells of a tokenizer, which evaluation harnesses ask for.
pub(super) fn info() -> Call {
    Call::Tokenizer(Box::new(|facts: &TokenizerFacts| {
        Reply::json(&Json::object([
            ("tokenizer_class", "PreTrainedTokenizerFast".into()),
            ("bos_token", facts.bos.clone().into()),
            ("eos_token", facts.eos.clone().into()),
            ("unk_token", facts.unknown.clone().into()),
            ("pad_token", facts.padding.clone().into()),
            ("add_bos_token", facts.adds_bos.into()),
            ("add_eos_token", facts.adds_eos.into()),
            ("vocab_size", facts.vocabulary.into()),
            ("model_max_length", facts.context.into()),
            ("chat_template", facts.template.clone().into()),
        ]))
    }))
}

/// The prompt that a chat would give the model.
pub(super) fn apply_template(body: &[u8]) -> Result<Call, Fault> {
    let (request, _) = chat::read(body, LastAnswer::GoesOn)?;
    Ok(Call::Render(
        Box::new(request),
        Box::new(|rendered| {
            let prompt = rendered.text.as_str().into();
            Reply::json(&Json::object([("prompt", prompt)]))
        }),
    ))
}
