//! Templates written for the purpose, one feature each, against the outputs that Python's jinja2 gave for them:
//! `python tools/oracle.py cases cases.json expected.json`, both in `cases/`.
use crate::oracle;

use strata_template::jinja::Value;

fn read(text: &str) -> Vec<Value> {
    let value: Value = serde_json::from_str(text).expect("JSON");
    value.as_slice().expect("a list").to_vec()
}

#[test]
fn every_case_renders_as_in_python() {
    let cases = read(include_str!("cases/cases.json"));
    let expected = read(include_str!("cases/expected.json"));
    assert_eq!(cases.len(), expected.len(), "expected.json is out of date");
    let mut failures = Vec::new();
    for (case, expected) in cases.iter().zip(&expected) {
        let case = case.as_slice().unwrap();
        let source = case[0].as_str().unwrap();
        let none = Value::map::<&str>([]);
        let result = oracle::render(source, case.get(1).unwrap_or(&none));
        if let Some(difference) = oracle::difference(&result, expected) {
            failures.push(format!("{source}\n  {difference}"));
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {} cases differ:\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n")
    );
}
