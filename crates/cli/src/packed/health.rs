//! Whether the server of this machine is up, for those who ask by starting a program.

use crate::failure::{Failure, Kind};
use crate::serve;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(4);

/// Asks the server at `OLLAMA_HOST` how it is.
pub(super) fn check() -> Result<(), Failure> {
    let host = std::env::var("OLLAMA_HOST").unwrap_or_default();
    let address = serve::reachable(serve::address(&host)?);
    match status(address) {
        Ok(200) => Ok(()),
        Ok(status) => {
            let sentence = format_args!("the server at {address} answers with status {status}");
            Err(Failure::new(Kind::Failed, sentence))
        }
        Err(error) => Err(Failure::io(address, &error)),
    }
}

fn status(address: SocketAddr) -> std::io::Result<u16> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let request = format!("GET /health HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    let status = std::str::from_utf8(&head[9..]).ok();
    let status = status.and_then(|digits| digits.parse().ok());
    status.ok_or_else(|| std::io::ErrorKind::InvalidData.into())
}
