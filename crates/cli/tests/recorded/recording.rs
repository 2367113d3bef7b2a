//! Requests and their answers, in a text file that a person can read and diff.
//!
//! ```text
//! ### chat, greedy | isa boot
//! POST /v1/chat/completions
//! {"model":"tale","temperature":0,"messages":[…]}
//! 200
//! {"id":_,"object":"chat.completion",…}
//! ```
//!
//! A block has a name with tags, the call, its body, the status, and the answer. For a command the call is `strata`, the
//! body its arguments, the status its exit code, and the answer its output. Values that vary from run to run become `_`.
//! A line of a stream shows only how it differs from the one before. A long vector becomes its first numbers and a hash.

/// A request and its answer.
#[derive(Clone)]
pub(crate) struct Recorded {
    pub(crate) name: String,
    tags: String,
    /// `POST /path`, or `strata`.
    pub(crate) call: String,
    pub(crate) body: String,
    /// The status on its own line, then the answer. Empty until it is recorded.
    pub(crate) answer: String,
}

impl Recorded {
    pub(crate) fn has_tag(&self, tag: &str) -> bool {
        self.tags.split(' ').any(|own| own == tag)
    }

    /// The model that a request by HTTP names.
    pub(crate) fn model(&self) -> &str {
        let model = self.body.split_once("\"model\":\"");
        model.map_or("", |(_, rest)| rest.split('"').next().unwrap_or(""))
    }

    /// The path of a request by HTTP.
    pub(crate) fn path(&self) -> Option<&str> {
        self.call.strip_prefix("POST ")
    }
}

const HEAD: &str = "### ";
const TAGS: &str = " | ";
const VARIES: &str = "_";
const SAME: &str = "…";

/// Parses a recording. Everything before the first block is a comment.
pub(crate) fn parse(text: &str) -> Vec<Recorded> {
    let text = format!("\n{text}");
    let separator = format!("\n{HEAD}");
    let blocks = text.split(&separator).skip(1);
    let recorded = blocks.map(|block| {
        let mut lines = block.splitn(4, '\n');
        let mut line = || lines.next().unwrap_or_default().to_owned();
        let head = line();
        let (name, tags) = head.split_once(TAGS).unwrap_or((&head, ""));
        Recorded {
            name: name.into(),
            tags: tags.into(),
            call: line(),
            body: line(),
            answer: line().trim_end_matches('\n').into(),
        }
    });
    recorded.collect()
}

/// Formats a recording, with the comment of an older one.
pub(crate) fn write(older: &str, recording: &[Recorded]) -> String {
    let comment = older.find(HEAD).map_or(older, |start| &older[..start]);
    let mut text = comment.to_owned();
    for recorded in recording {
        let separator = if recorded.tags.is_empty() { "" } else { TAGS };
        text += &format!(
            "{HEAD}{}{separator}{}\n{}\n{}\n{}\n\n",
            recorded.name, recorded.tags, recorded.call, recorded.body, recorded.answer
        );
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

/// Formats an answer for the recording.
pub(crate) fn answer(status: impl std::fmt::Display, body: &str) -> String {
    let body = folded(&without_vectors(&plain(body)));
    format!("{status}\n{}", body.trim_end_matches('\n'))
}

/// Blanks the values that vary from run to run: ids, times, and how much of the prompt was cached.
pub(crate) fn plain(body: &str) -> String {
    const KEYS: [&str; 17] = [
        "\"id\":",
        "\"item_id\":",
        "\"call_id\":",
        "\"created\":",
        "\"created_at\":",
        "\"completed_at\":",
        "\"system_fingerprint\":",
        "\"timings\":",
        "\"total_duration\":",
        "\"load_duration\":",
        "\"prompt_eval_duration\":",
        "\"eval_duration\":",
        "\"cached_tokens\":",
        "\"tokens_cached\":",
        "\"prompt_eval_cached_count\":",
        "\"cache_read_input_tokens\":",
        // Anthropic leaves cached tokens out.
        "\"usage\":{\"input_tokens\":",
    ];
    let mut out = String::new();
    let mut rest = body;
    loop {
        let found = KEYS.iter().filter_map(|key| Some((rest.find(key)?, key)));
        let Some((start, key)) = found.min() else {
            return out + rest;
        };
        let (before, value) = rest.split_at(start + key.len());
        out.push_str(before);
        // The id of a token is a number and does not vary.
        if *key == KEYS[0] && !value.starts_with('"') {
            rest = value;
            continue;
        }
        out.push_str(VARIES);
        let end = match value.as_bytes().first() {
            Some(b'"') => value[1..].find('"').map(|end| end + 2),
            Some(b'{') => value.find('}').map(|end| end + 1),
            _ => value.find([',', '}', ']']),
        };
        rest = &value[end.unwrap_or(value.len())..];
    }
}

/// Replaces long lists of fractions by their first numbers and the FNV-1a hash of the whole list.
fn without_vectors(text: &str) -> String {
    const LONG: usize = 17;
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('[') {
        let (before, list) = rest.split_at(start + 1);
        out.push_str(before);
        rest = list;
        let is_part = |c: char| c.is_ascii_digit() || ".,-e".contains(c);
        let end = list.find(|c| !is_part(c)).unwrap_or(list.len());
        let numbers = &list[..end];
        let count = numbers.split(',').count();
        if !list[end..].starts_with(']') || count < LONG || !numbers.contains('.') {
            continue;
        }
        let hash = numbers
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
            });
        let first: Vec<&str> = numbers.splitn(4, ',').take(3).collect();
        out += &format!("{},{SAME} {count} numbers {hash:016x}", first.join(","));
        rest = &list[end..];
    }
    out + rest
}

/// Reduces each line of a stream to what differs from the line before.
fn folded(text: &str) -> String {
    let mut previous = "";
    let lines = text.split('\n').map(|line| {
        if !line.starts_with("data: {") && !line.starts_with('{') {
            return line.to_owned();
        }
        let other = core::mem::replace(&mut previous, line);
        if line == other {
            return SAME.into();
        }
        let same = line.bytes().zip(other.bytes());
        let same = same.take_while(|(a, b)| a == b).count();
        // Cut at a colon, so that values stay whole.
        let Some(begin) = line.as_bytes()[..same].iter().rposition(|&b| b == b':') else {
            return line.to_owned();
        };
        let begin = begin + 1;
        let (tail, other) = (&line[begin..], &other[begin..]);
        let same = tail.bytes().rev().zip(other.bytes().rev());
        let same = same.take_while(|(a, b)| a == b).count();
        let ends = tail.as_bytes()[tail.len() - same..].iter();
        let end = ends.clone().position(|b| b",}]".contains(b));
        let kept = tail.len() - end.map_or(0, |end| same - end);
        let rest = if kept < tail.len() { SAME } else { "" };
        format!("{SAME}{}{rest}", &tail[..kept])
    });
    lines.collect::<Vec<_>>().join("\n")
}
