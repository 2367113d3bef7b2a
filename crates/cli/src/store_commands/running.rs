//! `strata ps` and `strata stop`: what a server that runs has in memory, and for whom.

use super::columns;
use crate::failure::{Failure, Kind};
use crate::server_client::ServerClient;
use serde_json::{Value, json};
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// List the models that the server has loaded, and what users have taken
///
/// Connects to $STRATA_HOST, $OLLAMA_HOST or 127.0.0.1:11434. STRATA_HOST=unix:PATH is a socket of `strata serve --socket`.
/// Administrators see all users, others themselves.
#[derive(clap::Args)]
pub(crate) struct PsArguments {
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Unload a model from the server
///
/// Connects to $STRATA_HOST, $OLLAMA_HOST or 127.0.0.1:11434.
#[derive(clap::Args)]
pub(crate) struct StopArguments {
    /// The model
    model: String,
}

pub(crate) fn ps(arguments: &PsArguments) -> Result<(), Failure> {
    let server = ServerClient::from_env()?;
    let mut answer = server.get("/api/ps")?.ok()?;
    // Other servers have no such route.
    if let Ok(usage) = server.get("/usage")?.ok()
        && let Some(users) = usage["users"].as_array()
    {
        let took = |user: &&Value| user["requests"] != 0 || user["sessions"] != 0;
        answer["users"] = users.iter().filter(took).cloned().collect();
    }
    let mut out = std::io::stdout().lock();
    let written = if arguments.json {
        writeln!(out, "{answer}")
    } else {
        columns::print(&rows(&answer), "", &mut out).and_then(|()| {
            let users = users(&answer);
            if users.len() > 1 {
                writeln!(out)?;
                columns::print(&users, "", &mut out)?;
            }
            Ok(())
        })
    };
    written.map_err(|error| Failure::stdout(&error))
}

pub(crate) fn stop(arguments: &StopArguments) -> Result<(), Failure> {
    let model = &arguments.model;
    let body = json!({ "model": model, "keep_alive": 0 });
    let answer = ServerClient::from_env()?.post("/api/generate", &body)?;
    if answer.status == 404 {
        let sentence = format_args!("the server has no model {model}");
        return Err(Failure::new(Kind::Usage, sentence).hint("`strata ps` lists the loaded models"));
    }
    answer.ok().map(drop)
}

fn rows(answer: &Value) -> Vec<Vec<String>> {
    let head = ["NAME", "ID", "SIZE", "PROCESSOR", "CONTEXT", "UNTIL"];
    let mut rows = vec![head.map(String::from).to_vec()];
    let text = |model: &Value, key: &str| model[key].as_str().unwrap_or_default().to_string();
    for model in answer["models"].as_array().into_iter().flatten() {
        rows.push(vec![
            text(model, "name"),
            text(model, "digest").chars().take(12).collect(),
            columns::bytes(model["size"].as_u64().unwrap_or(0)),
            "100% CPU".into(),
            model["context_length"].as_u64().unwrap_or(0).to_string(),
            until(&text(model, "expires_at")),
        ]);
    }
    rows
}

/// What users have taken.
fn users(answer: &Value) -> Vec<Vec<String>> {
    let head = [
        "USER",
        "SESSIONS",
        "REQUESTS",
        "TOKENS IN",
        "TOKENS OUT",
        "SECONDS",
        "MEMORY",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    for user in answer["users"].as_array().into_iter().flatten() {
        let number = |key: &str| user[key].as_u64().unwrap_or(0);
        let name = match user["uid"].as_u64() {
            Some(uid) => user_name(uid).unwrap_or_else(|| format!("uid {uid}")),
            None => match user["user"].as_str() {
                Some("") | None => "without a key".into(),
                Some(name) => name.into(),
            },
        };
        rows.push(vec![
            name,
            number("sessions").to_string(),
            number("requests").to_string(),
            number("prompt_tokens").to_string(),
            number("completion_tokens").to_string(),
            format!("{:.1}", user["seconds"].as_f64().unwrap_or(0.0)),
            columns::bytes(number("cache_bytes") + number("session_bytes")),
        ]);
    }
    rows
}

/// The name of a user of this machine.
fn user_name(uid: u64) -> Option<String> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let mut users = users.lines().map(|line| line.split(':'));
    users.find_map(|mut fields| {
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

/// A time as RFC 3339 has it, in Ollama's words.
fn until(text: &str) -> String {
    let Some(time) = seconds(text) else {
        return text.into();
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or(Duration::ZERO).as_secs();
    // No model is kept for a century but for ever.
    match time.checked_sub(now) {
        Some(left) if left > 100 * 366 * 86_400 => "Forever".into(),
        Some(left) => format!("{} from now", columns::span(left)),
        None => "Stopping...".into(),
    }
}

/// Seconds since 1970 of `2026-11-15T12:00:00Z`.
fn seconds(text: &str) -> Option<u64> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    // Days since 1970, counted in years that begin in March.
    let (year, month) = match month {
        3..=12 => (year, month - 3),
        1 | 2 => (year.checked_sub(1)?, month + 9),
        _ => return None,
    };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day;
    let days = days.checked_sub(719_469)?;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_told() {
        assert_eq!(seconds("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(seconds("2026-11-15T12:00:00Z"), Some(1_794_744_000));
        assert_eq!(seconds("2024-02-29T23:59:59Z"), Some(1_709_251_199));
        assert_eq!(until("2318-01-01T00:00:00Z"), "Forever");
        assert_eq!(until("1999-01-01T00:00:00Z"), "Stopping...");
        assert_eq!(until("soon"), "soon");
    }
}
