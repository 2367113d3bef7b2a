//! What a session holds its requests to.

use crate::fault::Fault;
use crate::request::{Format, Generate};
use strata_engine::{Limits, Privacy, Request};

/// What all requests of a session may take, what their answers look like, and where nothing of them may go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Constraints {
    /// Memory and time, of each request.
    pub limits: Limits,
    /// The format of each answer.
    pub format: Format,
    /// Where nothing may go.
    pub privacy: Privacy,
}

impl Constraints {
    /// Gives a request the session's format. One that brings another is refused.
    pub fn shape(&self, request: &mut Generate) -> Result<(), Fault> {
        if self.format == Format::Text || request.format == self.format {
            return Ok(());
        }
        if request.format != Format::Text {
            let problem = "the session has another format for its answers";
            return Err(Fault::bad_request(problem));
        }
        request.format = self.format.clone();
        Ok(())
    }

    /// Holds a request of the engine to the limits, where its own are not tighter.
    pub fn apply(&self, request: &mut Request) {
        fn tighter<T: Ord>(own: Option<T>, session: Option<T>) -> Option<T> {
            match (own, session) {
                (Some(own), Some(session)) => Some(own.min(session)),
                (own, session) => own.or(session),
            }
        }
        let (own, session) = (request.limits, self.limits);
        request.limits = Limits {
            deadline: tighter(own.deadline, session.deadline),
            first_token: tighter(own.first_token, session.first_token),
            per_token: tighter(own.per_token, session.per_token),
            memory: tighter(own.memory, session.memory),
        };
        request.privacy.never_to_disk |= self.privacy.never_to_disk;
        request.privacy.never_off_machine |= self.privacy.never_off_machine;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Prompt;
    use core::time::Duration;

    #[test]
    fn the_tighter_limit_holds_and_privacy_is_never_given_up() {
        let constraints = Constraints {
            limits: Limits {
                deadline: Some(Duration::from_secs(2)),
                memory: Some(100),
                ..Limits::default()
            },
            privacy: Privacy {
                never_to_disk: true,
                ..Privacy::default()
            },
            ..Constraints::default()
        };
        let mut request = Request::default();
        request.limits.deadline = Some(Duration::from_secs(1));
        request.limits.memory = Some(200);
        request.privacy.never_off_machine = true;
        constraints.apply(&mut request);
        assert_eq!(request.limits.deadline, Some(Duration::from_secs(1)));
        assert_eq!(request.limits.memory, Some(100));
        assert!(request.privacy.never_to_disk && request.privacy.never_off_machine);
    }

    #[test]
    fn a_request_takes_the_format_of_the_session_and_brings_no_other() {
        let constraints = Constraints {
            format: Format::JsonObject,
            ..Constraints::default()
        };
        let mut request = Generate::new("", Prompt::text("a"));
        constraints.shape(&mut request).unwrap();
        assert_eq!(request.format, Format::JsonObject);
        constraints.shape(&mut request).unwrap();
        request.format = Format::Regex("a".into());
        assert!(constraints.shape(&mut request).is_err());
        assert!(Constraints::default().shape(&mut request).is_ok());
    }
}
