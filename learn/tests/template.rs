//! The small template language, and a chat as the product renders it.

use strata_learn::template::{Message, Template};

use crate::repository;

const CHAT: &str =
    "{% for %}<|im_start|>{{ role }}\n{{ content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n";

fn message(role: &str, content: &str) -> Message {
    Message {
        role: role.into(),
        content: content.into(),
    }
}

#[test]
fn a_chat_becomes_the_prompt_that_the_product_makes() {
    let chat = Template::parse(CHAT).expect("a template");
    let prompt = chat.render(&[message("user", "Tell me a story about a fox.")], 1000);
    let path = repository().join("learn/book/src/output/template.txt");
    let theirs = std::fs::read_to_string(path).expect("the product's prompt");
    assert_eq!(prompt.as_deref(), Ok(&theirs[..]));
}

#[test]
fn conditions_choose() {
    let template = "{% for %}{% if role == user %}[{{ content }}]{% endif %}{% endfor %}";
    let template = Template::parse(template).expect("a template");
    let chat = [
        message("user", "a"),
        message("assistant", "b"),
        message("user", "{{ role }}"),
    ];
    // What a user writes is never read as a template.
    assert_eq!(
        template.render(&chat, 100).as_deref(),
        Ok("[a][{{ role }}]")
    );
}

#[test]
fn faults_are_named() {
    let fault = |text| Template::parse(text).expect_err("a fault");
    assert_eq!(fault("{% for %}x"), "endfor is missing");
    assert_eq!(fault("{{ role"), "}} is missing");
    assert_eq!(fault("{{ secret }}"), "\" secret \" is not understood");
    assert_eq!(fault("{% endif %}"), "\" endif \" is not understood");
    let outside = Template::parse("{{ role }}").expect("a template");
    assert!(outside.render(&[], 100).is_err());
    // Loops in loops multiply, and the budget stops them, also if they write nothing.
    for inside in ["x", ""] {
        let bomb = "{% for %}".repeat(12) + inside + &"{% endfor %}".repeat(12);
        let bomb = Template::parse(&bomb).expect("a template");
        let chat = vec![message("user", ""); 10];
        let stopped = bomb.render(&chat, 10_000);
        assert_eq!(stopped, Err("the template takes too long".into()));
    }
}
