//! OpenAI's routes without `/v1`, with llama-server's words for what is wrong.

use super::errors;
use crate::answer::{AnswerWriter, Framing, Reply, server_sent};
use crate::call::{Call, Kept};
use alloc::boxed::Box;
use alloc::vec::Vec;
use strata_chat::{Event, Fault};

/// The call, whose failures are told in llama-server's words.
pub(super) fn reworded(call: Call) -> Call {
    match call {
        Call::Generate(request, answer) => Call::Generate(request, Box::new(Reworded { answer })),
        other => other,
    }
}

struct Reworded {
    answer: Box<dyn AnswerWriter>,
}

impl AnswerWriter for Reworded {
    fn framing(&self) -> Framing {
        self.answer.framing()
    }

    fn event(&mut self, event: &Event, out: &mut Vec<u8>) {
        match event {
            Event::Failed(fault) if self.framing() == Framing::Events => {
                server_sent(None, &errors::document(fault), out);
            }
            event => self.answer.event(event, out),
        }
    }

    fn fault(&self, fault: &Fault) -> Reply {
        errors::fault(fault)
    }

    fn answered_by(&mut self, model: &str) {
        self.answer.answered_by(model);
    }

    fn detached(&mut self) -> Option<Kept> {
        self.answer.detached()
    }

    fn kept(&mut self) -> Option<Kept> {
        self.answer.kept()
    }
}
