//! Forms with files (`multipart/form-data`, RFC 7578). The boundary is what the body itself begins with.

use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::Fault;

/// The most fields of a form.
const MOST_FIELDS: usize = 64;
/// The most bytes of a field's headers.
const MOST_HEADERS: usize = 4096;

/// A field of a form.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field<'b> {
    pub(crate) name: &'b str,
    pub(crate) value: &'b [u8],
}

fn bad(problem: &str) -> Fault {
    Fault::bad_request(alloc::format!("the body is no form: {problem}"))
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    // Only where its first byte is can it be: bodies are large and this byte is rare in them.
    let mut from = 0;
    while let Some(at) = bytes.get(from..)?.iter().position(|&b| b == what[0]) {
        let at = from + at;
        if bytes[at..].starts_with(what) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

/// The fields of a form, in order.
pub(crate) fn parse(body: &[u8]) -> Result<Vec<Field<'_>>, Fault> {
    let line = find(body, b"\r\n").filter(|&end| (3..=200).contains(&end));
    let boundary = line.map(|end| &body[..end]);
    let boundary = boundary.filter(|line| line.starts_with(b"--"));
    let boundary = boundary.ok_or_else(|| bad("it does not begin with a boundary"))?;
    let mut end = b"\r\n".to_vec();
    end.extend_from_slice(boundary);
    let mut rest = &body[boundary.len()..];
    let mut fields = Vec::new();
    loop {
        if rest.starts_with(b"--") {
            return Ok(fields);
        }
        let part = rest.strip_prefix(b"\r\n");
        let part = part.ok_or_else(|| bad("a boundary is not followed by a line"))?;
        let headers = &part[..part.len().min(MOST_HEADERS)];
        let blank = find(headers, b"\r\n\r\n").ok_or_else(|| bad("a field has no headers"))?;
        let name = name(&part[..blank]).ok_or_else(|| bad("a field has no name"))?;
        let value = &part[blank + 4..];
        // An empty value begins with the boundary's own line break.
        let length = match find(&part[blank + 2..], &end) {
            Some(0) => 0,
            Some(at) => at - 2,
            None => return Err(bad("a field does not end")),
        };
        if fields.len() >= MOST_FIELDS {
            return Err(bad("it has too many fields"));
        }
        fields.push(Field {
            name,
            value: &value[..length],
        });
        rest = &part[blank + 2..];
        let after = find(rest, &end).map(|at| at + end.len());
        rest = &rest[after.unwrap_or(rest.len())..];
    }
}

/// The name that a field's headers give it.
fn name(headers: &[u8]) -> Option<&str> {
    let headers = core::str::from_utf8(headers).ok()?;
    let line = headers.split("\r\n").find(|line| {
        let header = line.split(':').next().unwrap_or_default();
        header.eq_ignore_ascii_case("content-disposition")
    })?;
    // `filename="` ends in the same letters.
    let parts = line.split(';').map(str::trim);
    let value = parts.filter_map(|part| part.strip_prefix("name=")).next()?;
    let quoted = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
    Some(quoted.unwrap_or(value))
}

impl Field<'_> {
    /// Its value as text.
    pub(crate) fn text(&self) -> Result<String, Fault> {
        let text = core::str::from_utf8(self.value);
        let text = text.map_err(|_| self.refused("must be text"))?;
        Ok(text.into())
    }

    /// A fault that names it.
    pub(crate) fn refused(&self, problem: &str) -> Fault {
        refused(self.name, problem)
    }
}

/// A fault that names a field.
pub(crate) fn refused(name: &str, problem: &str) -> Fault {
    let path = strata_chat::json::JsonPath::root().field(name);
    Fault::field(&path, format_args!("{problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_what_lies_between_boundaries() {
        let body = b"--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\none\r\n--x\r\n\
            content-disposition: form-data; filename=\"f.wav\"; name=\"file\"\r\nContent-Type: audio/wav\r\n\r\n\
            \r\n--\0\r\n--x\r\nContent-Disposition: form-data; name=\"e\"\r\n\r\n\r\n--x--\r\n";
        let fields = parse(body).unwrap();
        let found: Vec<_> = fields.iter().map(|f| (f.name, f.value)).collect();
        let expected: [(&str, &[u8]); 3] = [("a", b"one"), ("file", b"\r\n--\0"), ("e", b"")];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_no_form_is_refused() {
        let cut = b"--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\none\r\n--x--";
        for end in 0..cut.len() - 2 {
            assert!(parse(&cut[..end]).is_err(), "{end}");
        }
        for body in [
            &b""[..],
            b"{",
            b"--\r\n",
            b"--x\r\n\r\n\r\n--x--",
            b"--x\r\nname: a\r\n\r\n\r\n--x--",
        ] {
            assert!(parse(body).is_err(), "{body:?}");
        }
        let mut many = b"--x".to_vec();
        for _ in 0..65 {
            many.extend(b"\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x");
        }
        many.extend(b"--\r\n");
        assert!(parse(&many).is_err());
    }
}
