//! An answer that follows a JSON schema, whatever the model would have said.

use strata::{Error, Json, Model, Options, user};

fn main() -> Result<(), Error> {
    let model = Model::open("tale", Options::default())?;
    let schema = Json::parse(
        br#"{
            "type": "object",
            "properties": {
                "name": {"type": "string", "pattern": "^[A-Z][a-z]{2,8}$"},
                "animal": {"enum": ["fox", "owl", "hare"]},
                "age": {"type": "integer", "minimum": 1, "maximum": 9}
            },
            "required": ["name", "animal", "age"],
            "additionalProperties": false
        }"#,
    )?;
    let request = model.chat([user("Who is the hero of your story?")]);
    let answer = request.temperature(0.0).json_schema(schema).text()?;
    println!("{answer}");
    let hero = Json::parse(answer.as_bytes())?;
    let text = |key: &str| hero.get(key).and_then(Json::as_str);
    assert!(text("name").is_some_and(|name| (3..=9).contains(&name.len())));
    assert!(text("animal").is_some_and(|animal| ["fox", "owl", "hare"].contains(&animal)));
    assert!(matches!(hero.get("age"), Some(Json::Int(1..=9))));
    Ok(())
}
