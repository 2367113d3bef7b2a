//! Conversations, plain texts, and what the model is given for them.

use crate::support::tale;
use strata::{Event, Prompt, PromptPart, assistant, system, user};

#[test]
fn a_conversation_is_rendered_with_the_models_template() {
    let messages = [
        system("Be kind."),
        user("Hello."),
        assistant("Hi."),
        user("A story, please."),
    ];
    let rendered = tale().render(messages.clone()).unwrap();
    let expected = "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHello.<|im_end|>\n\
                    <|im_start|>assistant\nHi.<|im_end|>\n<|im_start|>user\nA story, please.<|im_end|>\n\
                    <|im_start|>assistant\n";
    assert_eq!(rendered, expected);
    let chat = tale().chat(messages).temperature(0.0).max_tokens(12);
    let complete = tale().complete(rendered).temperature(0.0).max_tokens(12);
    assert_eq!(chat.text().unwrap(), complete.text().unwrap());
}

#[test]
fn tokens_come_back_as_the_text_they_were() {
    let text = "Once upon a time, a fox met an owl — and said “hello”.";
    let tokens = tale().tokenize(text);
    assert!(tokens.len() > 5 && tokens.len() < text.len());
    assert_eq!(tale().detokenize(&tokens), text);
    assert!(
        tokens
            .iter()
            .all(|&token| (token as usize) < tale().facts().vocabulary)
    );
}

#[test]
fn what_is_known_of_the_model_is_told() {
    let facts = tale().facts();
    assert_eq!(facts.name, "tale");
    assert_eq!(facts.quantization, "Q4_K_M");
    assert!(facts.parameters > 1_000_000 && facts.embedding > 0);
    assert_eq!(tale().context(), facts.context);
    assert_eq!(format!("{:?}", tale()), "Model(\"tale\")");
}

/// The log-probabilities of tokens that were generated, or of a prompt that was echoed.
fn logprobs(prompt: Prompt, echo: bool, max_tokens: usize) -> Vec<(u32, f32)> {
    let mut request = tale().complete("").temperature(0.0).max_tokens(max_tokens);
    let generate = request.logprobs(0).generate_mut().clone();
    request = tale().complete("");
    *request.generate_mut() = strata::Generate {
        prompts: vec![prompt],
        echo,
        ..generate
    };
    let mut events = request.events().unwrap();
    let mut list = Vec::new();
    while !events.has_ended() {
        for event in events.next_blocking() {
            if let Event::Token {
                token,
                logprobs: Some(logprobs),
                ..
            } = event
            {
                assert_eq!(logprobs.chosen.token, token);
                list.push((token, logprobs.chosen.logprob));
            }
        }
    }
    list
}

#[test]
fn a_score_is_what_generating_the_text_would_have_told() {
    let text = "Once upon a time there was a fox.";
    let echoed = logprobs(Prompt::text(text), true, 0);
    // The first token follows nothing.
    assert!(echoed[0].1.is_nan());
    let expected: Vec<f32> = echoed[1..].iter().map(|(_, logprob)| *logprob).collect();
    let scores = tale().score(text).unwrap();
    assert_eq!(scores, expected);
    assert!(scores.iter().all(|score| *score < 0.0 && score.is_finite()));
    let mean = |scores: &[f32]| scores.iter().sum::<f32>() / scores.len() as f32;
    let jumbled = tale().score("fox was upon. there Once time a a").unwrap();
    assert!(mean(&scores) > mean(&jumbled));

    let prompt: Vec<u32> = echoed.iter().map(|(token, _)| *token).collect();
    let tokens = |tokens: &[u32]| Prompt::Raw(vec![PromptPart::Tokens(tokens.to_vec())]);
    let generated = logprobs(tokens(&prompt), false, 10);
    let new = generated.iter().map(|(token, _)| *token);
    let whole: Vec<u32> = prompt.iter().copied().chain(new).collect();
    let echoed = logprobs(tokens(&whole), true, 0);
    assert_eq!(echoed[prompt.len()..], generated);
}
