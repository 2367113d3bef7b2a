//! What can go wrong between machines.

use std::io;

/// Why a peer cannot be used, or a head not be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum PeerError {
    #[error("the key must have at least {least} characters")]
    ShortKey { least: usize },
    #[error("{address} is not the address of a machine")]
    Address { address: String },
    #[error("{0}")]
    Connection(String),
    #[error("nothing was heard for {seconds} s")]
    Silence { seconds: u64 },
    #[error("the other side does not speak this protocol")]
    Foreign,
    #[error(
        "the other side speaks version {theirs} of the protocol, and this program version {ours}"
    )]
    Version { theirs: u16, ours: u16 },
    #[error("the keys of the two sides differ")]
    Key,
    #[error("a frame was changed on its way, or is not the next")]
    Forged,
    #[error("a frame of {bytes} bytes is too long")]
    Long { bytes: usize },
    #[error("a message is damaged: {what}")]
    Message { what: &'static str },
    #[error("{0}")]
    Refused(String),
    #[error("the load was canceled")]
    Canceled,
}

impl From<io::Error> for PeerError {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind as K;
        match error.kind() {
            K::WouldBlock | K::TimedOut => Self::Silence {
                seconds: crate::channel::SILENCE.as_secs(),
            },
            K::UnexpectedEof => Self::Connection("the connection was closed".into()),
            _ => {
                let said = error.to_string();
                let said = said.split(" (os error").next().unwrap_or(&said);
                Self::Connection(said.to_lowercase())
            }
        }
    }
}
