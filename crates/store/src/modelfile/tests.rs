use super::*;

fn parse(text: &str) -> Modelfile {
    text.parse().unwrap()
}

#[test]
fn a_modelfile_is_read() {
    let file = parse(
        r#"# made by hand
FROM ./weights.gguf
  parameter temperature 0.7
PARAMETER stop <|im_end|>
PARAMETER stop "two words "
PARAMETER num_ctx 4096
PARAMETER use_mmap false
TEMPLATE """{{ if .System }}<|system|>
{{ .System }}{{ end }}
{{ .Prompt }}"""
SYSTEM You are "Mario" from Super Mario Bros.
ADAPTER ./lora.gguf
LICENSE """
MIT
"""
MESSAGE user Is Toronto in Canada?
MESSAGE assistant """yes
or so"""
REQUIRES 0.14.0
"#,
    );
    assert_eq!(file.from, ["./weights.gguf"]);
    assert_eq!(file.adapters, ["./lora.gguf"]);
    let parameters = serde_json::json!({
        "temperature": 0.7, "stop": ["<|im_end|>", "two words "], "num_ctx": 4096, "use_mmap": false,
    });
    assert_eq!(Value::Object(file.parameters.clone()), parameters);
    let template = "{{ if .System }}<|system|>\n{{ .System }}{{ end }}\n{{ .Prompt }}";
    assert_eq!(file.template.as_deref(), Some(template));
    assert_eq!(
        file.system.as_deref(),
        Some("You are \"Mario\" from Super Mario Bros.")
    );
    assert_eq!(file.licenses, ["\nMIT\n"]);
    assert_eq!(
        file.messages[0],
        (Role::User, "Is Toronto in Canada?".into())
    );
    assert_eq!(file.messages[1], (Role::Assistant, "yes\nor so".into()));
    assert_eq!(file.requires.as_deref(), Some("0.14.0"));
    assert_eq!(parse(&file.to_string()), file);
}

#[test]
fn what_is_written_reads_back() {
    for text in [
        "plain",
        "",
        " blanks ",
        "two\nlines",
        "\"quoted\"",
        "ends with \"",
        "\" begins",
        "# no comment",
        "\r\n",
        "a\"b",
        "\"",
        "\"\"",
    ] {
        let file = Modelfile {
            from: vec!["base".into()],
            system: Some(text.into()),
            template: Some(text.into()),
            messages: vec![(Role::User, text.into())],
            ..Modelfile::default()
        };
        let written = file.to_string();
        assert_eq!(written.parse(), Ok(file), "{written}");
    }
}

#[test]
fn faults_are_named_with_their_lines() {
    let fault = |text: &str| text.parse::<Modelfile>().unwrap_err();
    for (text, line, expected) in [
        ("", 1, Fault::NoFrom),
        ("FROM", 1, Fault::Value("FROM")),
        ("\n\nBROM x", 3, Fault::Command("BROM".into())),
        ("FROM x\nSYSTEM \"\"\"no end\n", 2, Fault::Quotes),
        (
            "FROM x\nPARAMETER warmth 1",
            2,
            Fault::Parameter("warmth".into()),
        ),
        ("FROM x\nMESSAGE nobody hi", 2, Fault::Role("nobody".into())),
    ] {
        assert_eq!(
            fault(text),
            ModelfileError {
                line,
                fault: expected
            },
            "{text}"
        );
    }
    for text in [
        "num_ctx 1.5",
        "temperature hot",
        "temperature inf",
        "use_mmap maybe",
        "seed 99999999999999999999",
    ] {
        let error = fault(&format!("FROM x\nPARAMETER {text}"));
        assert!(matches!(error.fault, Fault::Type { .. }), "{text}: {error}");
    }
}

use super::ModelfileFault as Fault;

#[test]
fn no_text_panics() {
    let pieces = [
        "FROM ",
        "x",
        "\n",
        "\"",
        "\"\"\"",
        " ",
        "#",
        "PARAMETER ",
        "stop ",
        "é",
        "\r",
        "SYSTEM ",
        "\0",
    ];
    let mut state = 1u64;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..12 {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            text.push_str(pieces[(state >> 33) as usize % pieces.len()]);
        }
        if let Ok(file) = text.parse::<Modelfile>() {
            let written = file.to_string();
            assert_eq!(written.parse(), Ok(file), "{text:?} -> {written:?}");
        }
    }
}
