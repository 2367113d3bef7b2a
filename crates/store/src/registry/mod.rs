//! The registry protocol of Ollama, which is Docker's: manifests by name, blobs by digest.

mod login;
mod pull;
mod push;

use crate::error::StoreError;
use crate::fetch::again;
use crate::name::Name;
use crate::net::{Answer, Client, Credential, Method, NetError, Url};
use std::sync::Mutex;

/// One repository of a registry, and who we are there.
pub(crate) struct Repository<'a> {
    client: &'a Client,
    name: Name,
    root: Url,
    credential: Mutex<Option<Credential>>,
}

impl<'a> Repository<'a> {
    pub(crate) fn new(client: &'a Client, name: &Name) -> Result<Self, StoreError> {
        let tls = !client.network.insecure;
        let path = format!("/v2/{}/{}/", name.namespace(), name.model());
        let root = Url::new(tls, name.host(), &path)?;
        client.permit(&root)?;
        Ok(Self {
            client,
            name: name.clone(),
            root,
            credential: Mutex::new(None),
        })
    }

    fn credential(&self) -> Option<Credential> {
        self.credential.lock().ok()?.clone()
    }

    /// What is called so in the repository. A digest's colon must not look like a scheme's.
    fn url(&self, path: &str) -> Result<Url, NetError> {
        self.root.join(&format!("{}{path}", self.root.path()))
    }

    /// Asks for `path` of the repository, with a token if the registry wants one, and again if it is a bad moment.
    fn ask(
        &self,
        method: &Method,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<Answer, NetError> {
        let url = self.url(path)?;
        again(self.client, |by| {
            let credential = self.credential();
            let answer = self
                .client
                .ask(method, &url, headers, credential.as_ref(), Some(by))?;
            if answer.status().as_u16() != 401 {
                return if answer.status().is_server_error() {
                    answer.ok()
                } else {
                    Ok(answer)
                };
            }
            let credential = self.log_in(&answer, Some(by))?;
            self.client
                .ask(method, &url, headers, Some(&credential), Some(by))
        })
    }
}
