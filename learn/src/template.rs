//! A very small template language: texts, places, loops over the messages, conditions.

// ANCHOR: nodes
/// A message of a chat.
#[derive(Clone, Debug)]
pub struct Message {
    /// Who speaks.
    pub role: String,
    /// What is said.
    pub content: String,
}

/// A part of a template.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    Text(String),
    /// `{{ role }}` or `{{ content }}` of the current message.
    Place(String),
    /// `{% for %} … {% endfor %}`: once for each message.
    Loop(Vec<Node>),
    /// `{% if role == NAME %} … {% endif %}`.
    If(String, Vec<Node>),
}

/// A template that was understood.
#[derive(Clone, Debug)]
pub struct Template(Vec<Node>);
// ANCHOR_END: nodes

// ANCHOR: parse
impl Template {
    /// Reads a template; the error says what is wrong.
    pub fn parse(text: &str) -> Result<Template, String> {
        let mut rest = text;
        let nodes = nodes(&mut rest, None)?;
        Ok(Template(nodes))
    }
}

/// The parts up to the tag that ends them, or to the end of the text.
fn nodes(rest: &mut &str, end: Option<&str>) -> Result<Vec<Node>, String> {
    let mut list = Vec::new();
    loop {
        let Some(at) = rest.find("{{").into_iter().chain(rest.find("{%")).min() else {
            if let Some(end) = end {
                return Err(format!("{end} is missing"));
            }
            list.push(Node::Text((*rest).into()));
            return Ok(list);
        };
        let (text, tag) = rest.split_at(at);
        list.push(Node::Text(text.into()));
        let close = if tag.starts_with("{{") { "}}" } else { "%}" };
        let (inside, after) = tag[2..]
            .split_once(close)
            .ok_or(format!("{close} is missing"))?;
        *rest = after;
        let words: Vec<&str> = inside.split_whitespace().collect();
        match (close, &words[..]) {
            ("}}", [name @ ("role" | "content")]) => list.push(Node::Place((*name).into())),
            ("%}", ["for"]) => list.push(Node::Loop(nodes(rest, Some("endfor"))?)),
            ("%}", ["if", "role", "==", name]) => {
                list.push(Node::If((*name).into(), nodes(rest, Some("endif"))?));
            }
            ("%}", [word]) if Some(*word) == end => return Ok(list),
            _ => return Err(format!("{inside:?} is not understood")),
        }
    }
}
// ANCHOR_END: parse

// ANCHOR: render
impl Template {
    /// The prompt for a chat. Each part that is rendered and each byte costs one of `budget`, because templates come from
    /// strangers.
    pub fn render(&self, messages: &[Message], budget: usize) -> Result<String, String> {
        let mut rendering = Rendering {
            messages,
            budget,
            out: String::new(),
        };
        rendering.run(&self.0, None)?;
        Ok(rendering.out)
    }
}

/// A prompt in the making.
struct Rendering<'a> {
    messages: &'a [Message],
    budget: usize,
    out: String,
}

impl Rendering<'_> {
    fn run(&mut self, nodes: &[Node], current: Option<&Message>) -> Result<(), String> {
        let message = || current.ok_or_else(|| "no message outside of a loop".to_string());
        for node in nodes {
            match node {
                Node::Text(text) => self.push(text)?,
                Node::Place(name) if name == "role" => self.push(&message()?.role)?,
                Node::Place(_) => self.push(&message()?.content)?,
                Node::If(role, inside) => {
                    self.spend(1)?;
                    if message()?.role == *role {
                        self.run(inside, current)?;
                    }
                }
                Node::Loop(inside) => {
                    for message in self.messages {
                        self.spend(1)?;
                        self.run(inside, Some(message))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, text: &str) -> Result<(), String> {
        self.spend(1 + text.len())?;
        self.out.push_str(text);
        Ok(())
    }

    fn spend(&mut self, cost: usize) -> Result<(), String> {
        let left = self.budget.checked_sub(cost);
        self.budget = left.ok_or("the template takes too long")?;
        Ok(())
    }
}
// ANCHOR_END: render
