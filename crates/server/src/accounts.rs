//! What each user has taken since the server started.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use strata_chat::Usage;

/// The accounts of all users, by name. Keys and users of this machine have names, so nobody can make them many.
#[derive(Debug, Default)]
pub(crate) struct Accounts(Mutex<BTreeMap<String, Account>>);

/// What one of them has taken.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Account {
    /// Who it is to the engines.
    pub(crate) number: u64,
    pub(crate) requests: u64,
    pub(crate) prompt_tokens: u64,
    pub(crate) cached_tokens: u64,
    pub(crate) generated_tokens: u64,
    /// Time that its requests were at work.
    pub(crate) seconds: f64,
}

impl Accounts {
    /// Adds a request.
    pub(crate) fn add(&self, (name, number): (&str, u64), usage: Usage, time: Duration) {
        let mut accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !accounts.contains_key(name) {
            accounts.insert(name.into(), Account::default());
        }
        if let Some(account) = accounts.get_mut(name) {
            account.number = number;
            account.requests += 1;
            account.prompt_tokens += usage.prompt_tokens as u64;
            account.cached_tokens += usage.cached_tokens as u64;
            account.generated_tokens += usage.generated_tokens as u64;
            account.seconds += time.as_secs_f64();
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> BTreeMap<String, Account> {
        let accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        accounts.clone()
    }
}
