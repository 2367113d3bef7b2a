//! Regular expressions at random.

use crate::support::Random;

pub(super) fn any(random: &mut Random, depth: usize) -> String {
    let parts = 1 + random.below(3);
    (0..parts).map(|_| part(random, depth)).collect()
}

fn part(random: &mut Random, depth: usize) -> String {
    const ATOMS: [&str; 24] = [
        "a",
        "b",
        "ab",
        "x1",
        "-",
        " ",
        r"\d",
        r"\w",
        r"\s",
        "[a-c]",
        "[^a-z]",
        r"[^\n]",
        ".",
        "ä",
        "[ä-ü]",
        "日",
        r"\.",
        "/",
        r"\W",
        "(?i)Yes",
        r#"[^"]"#,
        r"\{",
        r"[0-9A-F]",
        r"\p{Lu}",
    ];
    let atom = if depth > 0 && random.below(3) == 0 {
        let branches = 1 + random.below(3);
        let branches: Vec<String> = (0..branches).map(|_| any(random, depth - 1)).collect();
        format!("(?:{})", branches.join("|"))
    } else {
        format!("(?:{})", ATOMS[random.below(ATOMS.len())])
    };
    let repeat = match random.below(9) {
        0 => "*".to_string(),
        1 => "+".to_string(),
        2 => "?".to_string(),
        3 => format!("{{{}}}", random.below(4)),
        4 => format!("{{{},{}}}", random.below(3), 3 + random.below(5)),
        5 => format!("{{{},}}", random.below(3)),
        _ => String::new(),
    };
    format!("{atom}{repeat}")
}
