//! Names of traces as clients send them, and addresses of collectors.

use super::*;

#[test]
fn trace_contexts_are_read_as_the_standard_says() {
    let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let context = Context::parse(text).unwrap();
    assert_eq!(context.span, 0xb7ad_6b71_6920_3331);
    assert_eq!(context.trace, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
    assert!(context.sampled);
    let newer = "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00-more";
    assert!(Context::parse(newer).is_some_and(|context| !context.sampled));
    for wrong in [
        "",
        "00",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
        "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
    ] {
        assert_eq!(Context::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn collectors_have_addresses() {
    let read = |text: &str| text.parse::<Collector>().map(|c| (c.host, c.path));
    let plain = Ok(("127.0.0.1:4318".into(), "/v1/traces".into()));
    assert_eq!(read("http://127.0.0.1:4318"), plain);
    assert_eq!(read("http://127.0.0.1"), plain);
    let own = Ok(("otel:9".into(), "/x/v1/traces".into()));
    assert_eq!(read("http://otel:9/x/v1/traces"), own);
    for wrong in [
        "",
        "127.0.0.1:4318",
        "https://a:1",
        "http://",
        "http://a:b",
        "http://a b:1",
    ] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_full_queue_loses_spans_and_holds_up_nobody() {
    let exporter = Exporter::new("http://127.0.0.1:1".parse().unwrap());
    let span = Span {
        name: "x".into(),
        parent: None,
        since: SystemTime::now(),
        length: Duration::ZERO,
        attributes: Vec::new(),
        failed: None,
        phases: Vec::new(),
    };
    for _ in 0..WAITING + 5 {
        exporter.export(span.clone());
    }
    assert_eq!(exporter.lost(), 5);
    let unkept = Span {
        parent: Some(Context {
            trace: 1,
            span: 1,
            sampled: false,
        }),
        ..span
    };
    exporter.export(unkept);
    assert_eq!(exporter.lost(), 5);
}
