use super::*;

fn all() -> Vec<Message<'static>> {
    let (page, state) = (PageId::new(7), StateId::new(9));
    let part = Part {
        len: 40,
        forgotten: 1,
        state: Some(state),
        tokens: 3,
        pages: vec![page, PageId::new(8)],
    };
    let alone = Part {
        state: None,
        pages: Vec::new(),
        ..part.clone()
    };
    vec![
        Message::Ask,
        Message::Begin(Assignment {
            first: 8,
            end: 16,
            kv: KvType::Q8_0,
            context: 4096,
            positions: 1 << 40,
            states: 40,
            tokens: 512,
            samples: [3; 32],
        }),
        Message::Ping,
        Message::Blocks(page, vec![1, 2, u32::MAX]),
        Message::CopyPage(page, PageId::new(1), true),
        Message::CopyState(state, StateId::new(0)),
        Message::WritePage(page, b"keys and values"),
        Message::WriteState(state, b""),
        Message::ReadPage(page),
        Message::ReadState(state),
        Message::Forward(vec![part, alone], b"floats"),
        Message::Facts(Facts {
            outline: [5; 32],
            room: 1 << 35,
            workers: 2,
        }),
        Message::Progress(1, 2),
        Message::Ready(Taken {
            weights: 1,
            pages: 2,
            activations: 3,
            token: 8192,
        }),
        Message::Working,
        Message::Pong,
        Message::Bytes(b"bytes"),
        Message::Refused("it does not fit".into()),
    ]
}

#[test]
fn messages_are_read_as_they_were_written() {
    for message in all() {
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        assert_eq!(Message::parse(&bytes), Ok(message));
    }
}

#[test]
fn cut_messages_and_those_with_more_are_refused() {
    for message in all() {
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        // Some end with as many bytes as there are.
        let open = matches!(
            message,
            Message::WritePage(..)
                | Message::WriteState(..)
                | Message::Forward(..)
                | Message::Bytes(_)
                | Message::Blocks(..)
                | Message::Refused(_)
        );
        for end in 0..bytes.len() {
            let parsed = Message::parse(&bytes[..end]);
            assert!(parsed.is_err() || open, "{message:?} cut at {end}");
        }
        bytes.push(0);
        assert!(Message::parse(&bytes).is_err() || open, "{message:?}");
    }
    for kind in [11, 127, 135, 255] {
        assert!(Message::parse(&[kind]).is_err());
    }
}

#[test]
fn claims_decide_no_memory() {
    // Four thousand million parts, and a part of as many pages.
    let mut bytes = vec![10];
    bytes.extend_from_slice(&[0xff; 4]);
    assert!(Message::parse(&bytes).is_err());
    bytes.extend_from_slice(&[0xff; 20]);
    assert!(Message::parse(&bytes).is_err());
}

#[test]
fn a_refusal_moves_no_terminal() {
    let message = Message::parse(b"\x86no\x1b[2J\n");
    assert_eq!(message, Ok(Message::Refused("no[2J".into())));
}
