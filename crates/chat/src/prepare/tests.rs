//! What the model is given.

use super::*;
use crate::message::{Message, Role};
use crate::request::{Format, Prompt, PromptPart};
use crate::thinking::{Thinking, ThinkingMarks};
use alloc::string::String;
use alloc::sync::Arc;
use strata_tokenizer::{ModelKind, TokenKind, TokenTable, Tokenizer, Vocab};

const THINKS: &str = "{{ messages[0].content }}\
    {% if enable_thinking is not defined or enable_thinking %}<think>\n{% endif %}";
const ALWAYS_THINKS: &str = "{{ messages[0].content }}<think>";
const PLAIN: &str = "{% for m in messages %}{{ m.content }}{% endfor %}";

/// A model with one token for each character.
fn profile(template: &str) -> ModelProfile {
    let mut tokens = TokenTable::with_capacity(129);
    for byte in 0..=127u8 {
        let text = char::from(byte).to_string();
        tokens.push(&text, TokenKind::Normal, 0.0).unwrap();
    }
    tokens.push("▁", TokenKind::Normal, 0.0).unwrap();
    let mut vocab = Vocab::new(ModelKind::Spm, tokens);
    vocab.space_prefix = false;
    let tokenizer = Tokenizer::from_vocab(vocab).unwrap();
    ModelProfile::new(Arc::new(tokenizer), Some(template), 40)
}

fn rendered(request: &Generate, profile: &ModelProfile) -> Result<RenderedPrompt, Fault> {
    let context = RequestContext::new(0, 0, "x");
    Ok(prepare(request, profile, context)?.rendered())
}

fn asking(messages: &[(Role, &str)]) -> Generate {
    let message = |&(role, text): &(Role, &str)| Message::text(role, text);
    let messages = messages.iter().map(message).collect();
    Generate::new("", Prompt::Chat(messages))
}

#[test]
fn an_answer_of_a_given_form_follows_no_open_thinking() {
    let on = Thinking::On { budget: None };
    for (template, thinking, expected) in [
        (THINKS, Thinking::Default, "Hi"),
        (THINKS, on, "Hi<think>\n</think>\n\n"),
        (ALWAYS_THINKS, Thinking::Default, "Hi<think></think>\n\n"),
    ] {
        let mut request = asking(&[(Role::User, "Hi")]);
        request.format = Format::JsonObject;
        request.thinking = thinking;
        let shown = rendered(&request, &profile(template)).unwrap();
        assert_eq!(shown.text, expected, "{thinking:?}");
        let spelled: Vec<u32> = expected.bytes().map(u32::from).collect();
        assert_eq!(shown.tokens, spelled, "{thinking:?}");
    }
    let free = rendered(&asking(&[(Role::User, "Hi")]), &profile(THINKS));
    assert_eq!(free.unwrap().text, "Hi<think>\n");
}

#[test]
fn thinking_that_is_not_open_is_not_closed() {
    let marks = ThinkingMarks::of_template(THINKS).unwrap();
    let mut prompt = RenderedPrompt {
        text: "<think>so</think> Hi".into(),
        ..RenderedPrompt::default()
    };
    let before = prompt.clone();
    assert!(!marks.close(&mut prompt, &profile(THINKS).tokenizer));
    assert_eq!(prompt, before);
}

/// Thirty of forty positions are for the prompt.
#[test]
fn long_conversations_are_shortened_where_the_request_says_so() {
    let mut request = asking(&[
        (Role::System, "system "),
        (Role::User, "first user "),
        (Role::Assistant, "first answer "),
        (Role::User, "second "),
        (Role::Assistant, "answer "),
        (Role::User, "third"),
    ]);
    let profile = profile(PLAIN);
    let refused = rendered(&request, &profile).unwrap_err();
    assert!(matches!(refused.kind, FaultKind::ContextExceeded { .. }));
    request.truncate = true;
    let text = |request: &Generate| rendered(request, &profile).unwrap().text;
    assert_eq!(text(&request), "system second answer third");
    let prepared = prepare(&request, &profile, RequestContext::new(0, 0, "x")).unwrap();
    assert_eq!(prepared.dropped, 2);
    // Where a short answer is wanted, more of the conversation stays.
    request.max_tokens = Some(1);
    request.context = Some(26);
    assert_eq!(text(&request), "system third");
    request.context = Some(27);
    assert_eq!(text(&request), "system second answer third");
}

#[test]
fn a_conversation_begins_as_the_model_or_the_request_says() {
    let mut profile = profile(PLAIN);
    profile.system = Some("own ".into());
    profile.messages = [Message::text(Role::User, "hello ")].into();
    let mut request = asking(&[(Role::User, "Hi")]);
    let text = |request: &Generate| rendered(request, &profile).unwrap().text;
    assert_eq!(text(&request), "own hello Hi");
    let other = asking(&[(Role::System, "other "), (Role::User, "Hi")]);
    assert_eq!(text(&other), "hello other Hi");
    request.preset = false;
    assert_eq!(text(&request), "Hi");
}

#[test]
fn faults_of_templates_are_told_apart() {
    let kind = |template| {
        let request = asking(&[(Role::User, "Hi")]);
        rendered(&request, &profile(template)).unwrap_err().kind
    };
    assert_eq!(kind("{{ raise_exception('no') }}"), FaultKind::Template);
    assert_eq!(kind("{% for %}"), FaultKind::InvalidModel);
}

#[test]
fn long_texts_lose_their_beginning() {
    let mut request = Generate::new("", Prompt::text("0123456789".repeat(4)));
    request.truncate = true;
    let shown = rendered(&request, &profile(PLAIN)).unwrap();
    let expected: Vec<u32> = "0123456789".repeat(3).bytes().map(u32::from).collect();
    assert_eq!(shown.tokens, expected);
    let whole: String = "0123456789".repeat(4);
    assert_eq!(shown.text, whole);
}

#[test]
fn a_prompt_that_is_still_too_long_is_cut_behind_its_beginning_where_the_request_says_so() {
    let profile = profile(PLAIN);
    let last = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJ";
    let mut request = asking(&[
        (Role::User, "first "),
        (Role::Assistant, "x"),
        (Role::User, last),
    ]);
    request.truncate = true;
    let refused = rendered(&request, &profile).unwrap_err();
    assert!(matches!(refused.kind, FaultKind::ContextExceeded { .. }));
    let tokens = |request: &Generate| -> String {
        let tokens = rendered(request, &profile).unwrap().tokens;
        tokens
            .iter()
            .map(|&token| char::from(token as u8))
            .collect()
    };
    for (keep, expected) in [
        (0, "qrstuvwxyz0123456789ABCDEFGHIJ"),
        (4, "abcduvwxyz0123456789ABCDEFGHIJ"),
        // The end always stays.
        (usize::MAX, "abcdefghijklmnopqrstuvwxyz012J"),
    ] {
        request.keep = Some(keep);
        assert_eq!(tokens(&request), expected, "{keep}");
    }
}

#[test]
fn what_cannot_fit_is_refused_before_it_is_tokenized() {
    let refused = |request: &Generate| rendered(request, &profile(PLAIN)).unwrap_err().kind;
    let too_long = |kind| matches!(kind, FaultKind::ContextExceeded { context: 40, .. });
    let long = "a".repeat(32 << 20);
    assert!(too_long(refused(&Generate::new("", Prompt::text(&long)))));
    let mut chat = asking(&[(Role::User, &long)]);
    assert!(too_long(refused(&chat)));
    // The last question stays, so that there is nothing to drop.
    chat.truncate = true;
    assert!(too_long(refused(&chat)));
    let tools = "{% for t in tools %}{{ t }}{% endfor %}";
    let mut request = asking(&[(Role::User, "a")]);
    request.tools.list = [crate::Tool {
        name: "t".into(),
        description: Some("a".repeat(1 << 16)),
        parameters: crate::json::Json::Null,
        strict: false,
    }]
    .into();
    let fault = rendered(&request, &profile(tools)).unwrap_err();
    assert!(too_long(fault.kind), "{fault:?}");
    let many = Prompt::Chat(alloc::vec![Message::text(Role::User, "a"); 9000]);
    assert_eq!(refused(&Generate::new("", many)), FaultKind::TooLarge);
    let mut many = Generate::new("", Prompt::text("a"));
    many.prompts = alloc::vec![Prompt::text("a"); 3000];
    assert_eq!(refused(&many), FaultKind::TooLarge);
    let request = crate::Tokenize {
        text: long,
        ..crate::Tokenize::default()
    };
    assert!(profile(PLAIN).tokenize(&request).is_err());
}

#[test]
fn a_long_text_that_may_be_shortened_keeps_its_start_and_its_end() {
    let mut text = "a".repeat(20_000);
    text.push_str("theend");
    let mut request = Generate::new("", Prompt::text(&text));
    request.truncate = true;
    let spelled = |prompt: RenderedPrompt| {
        let letter = |&token: &u32| char::from_u32(token).unwrap_or('?');
        prompt.tokens.iter().map(letter).collect::<String>()
    };
    let shown = spelled(rendered(&request, &profile(PLAIN)).unwrap());
    assert!(shown.ends_with("atheend") && shown.len() == 30, "{shown}");
    request.prompts = [Prompt::text(alloc::format!("Start{text}"))].into();
    request.keep = Some(5);
    let shown = spelled(rendered(&request, &profile(PLAIN)).unwrap());
    assert!(
        shown.starts_with("Starta") && shown.ends_with("atheend"),
        "{shown}"
    );
}

#[test]
fn a_prompt_of_an_encoder_decoder_is_a_source_and_the_beginning_of_an_answer() {
    let mut profile = profile(PLAIN);
    profile.template = None;
    profile.start = Some(1);
    let tokens = |request: &Generate| rendered(request, &profile).unwrap().tokens;
    let letter = |byte| if byte == b' ' { 128 } else { u32::from(byte) };
    let spelled = |text: &str| text.bytes().map(letter).chain([1]).collect::<Vec<_>>();
    let raw = Generate::new("", Prompt::text("Hi"));
    assert_eq!(tokens(&raw), spelled("Hi"));
    let chat = asking(&[(Role::System, "Be kind."), (Role::User, "Hi")]);
    assert_eq!(tokens(&chat), spelled("Be kind.\nHi"));
    // What came before is read with it.
    let mut next = raw.clone();
    next.before = spelled("Oh");
    next.before.extend(b"No".map(u32::from));
    assert_eq!(tokens(&next), spelled("OhNoHi"));
    // Tokens may have the beginning of an answer.
    let given = Vec::from([72, 1, 79]);
    let begun = Generate::new("", Prompt::Raw([PromptPart::Tokens(given.clone())].into()));
    assert_eq!(tokens(&begun), given);
}
