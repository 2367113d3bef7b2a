//! Published chat templates against Python's jinja2: every template of `STRATA_FIXTURES/templates` with every
//! conversation of `cases/conversations.json`. The expected outputs hold the templates' own text, so they are
//! not committed: `python tools/oracle.py fixtures $STRATA_FIXTURES/templates FILE` makes the file that
//! `STRATA_TEMPLATE_EXPECTED` names.
use crate::oracle;

use std::path::PathBuf;
use strata_template::jinja::{TemplateError, TypeFault, Value};

/// Names and sources of the templates.
fn templates() -> Option<Vec<(String, String)>> {
    let Ok(root) = std::env::var("STRATA_FIXTURES") else {
        eprintln!("skipped: STRATA_FIXTURES is not set");
        return None;
    };
    let folder = PathBuf::from(root).join("templates");
    let mut templates = Vec::new();
    for entry in std::fs::read_dir(&folder).expect("the folder of templates") {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.ends_with(".jinja") {
            templates.push((name, std::fs::read_to_string(&path).unwrap()));
        }
    }
    templates.sort();
    assert!(
        !templates.is_empty(),
        "no templates in {}",
        folder.display()
    );
    Some(templates)
}

fn conversations() -> Value {
    let text = include_str!("cases/conversations.json");
    serde_json::from_str(text).expect("conversations.json")
}

#[test]
fn published_templates_need_nothing_that_is_missing() {
    let Some(templates) = templates() else {
        return;
    };
    let conversations = conversations();
    for (name, source) in &templates {
        for (conversation, context) in conversations.as_map().unwrap().iter() {
            let result = oracle::render(source, context);
            let missing = matches!(
                &result,
                Err(TemplateError::Syntax { .. } | TemplateError::Limit { .. })
                    | Err(TemplateError::Type {
                        fault: TypeFault::Unsupported(_),
                        ..
                    })
            );
            assert!(!missing, "{name} with {conversation:?}: {result:?}");
        }
    }
}

#[test]
fn published_templates_render_as_in_python() {
    let Some(templates) = templates() else {
        return;
    };
    let Ok(path) = std::env::var("STRATA_TEMPLATE_EXPECTED") else {
        eprintln!("skipped: STRATA_TEMPLATE_EXPECTED is not set");
        return;
    };
    let expected: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let expected = expected.as_map().unwrap();
    let conversations = conversations();
    let mut failures = Vec::new();
    let mut renders = 0;
    for (name, source) in &templates {
        let entries = expected.get_str(name).and_then(Value::as_map);
        let entries = entries.unwrap_or_else(|| panic!("{name} is not in the expected outputs"));
        for (conversation, context) in conversations.as_map().unwrap().iter() {
            let entry = entries
                .get(conversation)
                .expect("an entry per conversation");
            let result = oracle::render(source, context);
            renders += 1;
            if let Some(difference) = oracle::difference(&result, entry) {
                failures.push(format!("{name} with {conversation:?}: {difference}"));
            }
        }
    }
    let shown = failures
        .iter()
        .take(20)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n");
    assert!(
        failures.is_empty(),
        "{} of {renders} renders differ:\n{shown}",
        failures.len()
    );
    eprintln!(
        "{renders} renders of {} templates are equal",
        templates.len()
    );
}
