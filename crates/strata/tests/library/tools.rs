//! Tools: calls that the program answers, and calls that functions answer.

use crate::support::tale;
use std::sync::{Arc, Mutex};
use strata::{ErrorKind, Finish, Json, Request, Role, Tool, ToolChoice, tool_result, user};

fn tool(name: &str) -> Tool {
    let parameters = br#"{
        "type": "object",
        "properties": {"city": {"enum": ["Bern", "Oslo"]}},
        "required": ["city"],
        "additionalProperties": false
    }"#;
    Tool {
        name: name.into(),
        description: None,
        parameters: Json::parse(parameters).unwrap(),
        strict: true,
    }
}

fn ask() -> Request {
    let request = tale().chat([user("Is it warm in Oslo?")]);
    request.temperature(0.0).max_tokens(60)
}

#[test]
fn a_required_call_comes_with_the_answer() {
    let named = ToolChoice::Named("weather".into());
    let mut request = ask().tool(tool("time")).tool(tool("weather"));
    request.generate_mut().tools.parallel = false;
    let answer = request.tool_choice(named).run().unwrap();
    let [call] = &answer.calls[..] else {
        panic!("{answer:?}");
    };
    assert_eq!(
        (&*call.name, answer.finish.as_ref()),
        ("weather", Some(&Finish::ToolCalls))
    );
    let city = call.arguments.get("city").and_then(Json::as_str);
    assert!(["Bern", "Oslo"].contains(&city.unwrap()));
    let message = answer.message();
    assert_eq!(
        (message.role, &message.tool_calls),
        (Role::Assistant, &answer.calls)
    );
    let messages = [
        user("Is it warm in Oslo?"),
        message,
        tool_result(call, "18 °C"),
    ];
    let rendered = tale().render(messages).unwrap();
    assert!(rendered.contains("18 °C"), "{rendered}");
}

#[test]
fn a_function_answers_calls_until_the_model_is_done() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&asked);
    let request = ask().tool_choice(ToolChoice::Required);
    let request = request.tool_function(tool("weather"), move |arguments| {
        let city = arguments.get("city").and_then(Json::as_str).unwrap();
        heard.lock().unwrap().push(city.to_owned());
        Err("no thermometer".into())
    });
    let mut answer = request.stream().unwrap();
    let first = answer.next().unwrap().unwrap();
    let call = first.call.expect("the call is told first");
    assert!(asked.lock().unwrap().is_empty(), "and then answered");
    let one_round = answer.usage();
    let rest = answer.finish().unwrap();
    let asked = asked.lock().unwrap();
    assert_eq!(
        asked[0],
        call.arguments.get("city").unwrap().as_str().unwrap()
    );
    assert!(rest.calls.is_empty() && !rest.text.is_empty(), "{rest:?}");
    // The second round has the first one's prompt, the call and its result.
    assert!(rest.usage.prompt_tokens > 2 * one_round.prompt_tokens);
    assert!(rest.usage.generated_tokens > one_round.generated_tokens);
}

#[test]
fn calls_that_no_function_answers_are_left_to_the_program() {
    let request = ask().tool_choice(ToolChoice::Named("time".into()));
    let request = request.tool_function(tool("weather"), |_| unreachable!());
    let answer = request.tool(tool("time")).run().unwrap();
    assert!(answer.calls.iter().all(|call| call.name == "time"));
    assert!(!answer.calls.is_empty());
}

#[test]
fn functions_are_for_one_answer() {
    let mut request = ask().tool_function(tool("weather"), |_| Ok(String::new()));
    request.generate_mut().choices = 2;
    assert_eq!(
        request.run().unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
}
