//! Tools: calls that you answer yourself, and calls that a function answers.

use strata::{Error, Json, Model, Options, Request, Tool, ToolChoice, tool_result, user};

fn main() -> Result<(), Error> {
    let model = Model::open("tale", Options::default())?;
    by_hand(&model)?;
    by_function(&model)
}

/// A tool that tells the weather in a city.
fn weather() -> Result<Tool, Error> {
    let parameters = br#"{
        "type": "object",
        "properties": {"city": {"enum": ["Bern", "Oslo"]}},
        "required": ["city"],
        "additionalProperties": false
    }"#;
    Ok(Tool {
        name: "weather".into(),
        description: Some("Tells the weather in a city.".into()),
        parameters: Json::parse(parameters)?,
        strict: true,
    })
}

/// The built-in model is too small to call tools by itself, so it is made to.
fn settings(request: Request) -> Request {
    request
        .temperature(0.0)
        .max_tokens(60)
        .tool_choice(ToolChoice::Required)
}

fn by_hand(model: &Model) -> Result<(), Error> {
    let mut messages = vec![user("Is it warm in Bern?")];
    let answer = settings(model.chat(messages.clone()))
        .tool(weather()?)
        .run()?;
    messages.push(answer.message());
    for call in &answer.calls {
        println!("the model calls {}({})", call.name, call.arguments.text());
        messages.push(tool_result(call, "18 °C, sunny"));
    }
    assert!(!answer.calls.is_empty());
    let answer = model.chat(messages).tool(weather()?).max_tokens(40).run()?;
    println!("the model says: {}", answer.text);
    Ok(())
}

fn by_function(model: &Model) -> Result<(), Error> {
    let request = settings(model.chat([user("Is it warm in Bern?")]));
    let answer = request
        .tool_function(weather()?, |arguments| {
            let city = arguments.get("city").and_then(Json::as_str);
            let city = city.ok_or("which city?")?;
            println!("the function is asked about {city}");
            Ok(format!("18 °C in {city}, sunny"))
        })
        .run()?;
    println!("the model says: {}", answer.text);
    assert!(answer.calls.is_empty() && !answer.text.is_empty());
    Ok(())
}
