//! Places of storage: where GitHub redirects to for logs and archives.

use url::Url;

/// One of them; its host may hold one `*`.
pub(crate) struct Storage {
    scheme: String,
    before: String,
    after: Option<String>,
    port: u16,
}

impl Storage {
    /// Reads `https://host:port`, in whose host a `*` stands for letters, digits and hyphens.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let authority = rest.trim_end_matches('/');
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().ok()?),
            None => (authority, if scheme == "https" { 443 } else { 80 }),
        };
        let (before, after) = match host.split_once('*') {
            Some((before, after)) => (before, Some(after.to_owned())),
            None => (host, None),
        };
        Some(Self {
            scheme: scheme.to_owned(),
            before: before.to_owned(),
            after,
            port,
        })
    }

    /// Whether an address lies there.
    pub(crate) fn covers(&self, to: &Url) -> bool {
        let host = to.host_str().unwrap_or("");
        let named = match &self.after {
            None => host == self.before,
            Some(after) => host
                .strip_prefix(self.before.as_str())
                .and_then(|rest| rest.strip_suffix(after.as_str()))
                .is_some_and(|free| !free.is_empty() && free.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')),
        };
        named
            && to.scheme() == self.scheme
            && to.port_or_known_default() == Some(self.port)
            && to.username().is_empty()
            && to.password().is_none()
    }

    /// Whether a host has to be named to whoever connects.
    pub(crate) fn is_pattern(&self) -> bool {
        self.after.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_named_is_covered() {
        let covers = |storage: &str, url: &str| {
            let storage = Storage::read(storage).unwrap_or_else(|| panic!("{storage}"));
            storage.covers(&Url::parse(url).expect(url))
        };
        for (storage, url) in [
            (
                "https://codeload.github.com",
                "https://codeload.github.com/o/n/legacy.tar.gz/main?token=x",
            ),
            (
                "https://*.actions.githubusercontent.com",
                "https://results-receiver.actions.githubusercontent.com/a",
            ),
            (
                "https://productionresultssa*.blob.core.windows.net",
                "https://productionresultssa12.blob.core.windows.net/a?sig=x",
            ),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/a"),
        ] {
            assert!(covers(storage, url), "{url}");
        }
        for (storage, url) in [
            ("https://codeload.github.com", "http://codeload.github.com/o"),
            ("https://codeload.github.com", "https://codeload.github.com:8443/o"),
            (
                "https://codeload.github.com",
                "https://codeload.github.com.evil.example/o",
            ),
            ("https://codeload.github.com", "https://u@codeload.github.com/o"),
            (
                "https://*.actions.githubusercontent.com",
                "https://a.b.actions.githubusercontent.com/",
            ),
            (
                "https://*.actions.githubusercontent.com",
                "https://.actions.githubusercontent.com/",
            ),
            (
                "https://productionresultssa*.blob.core.windows.net",
                "https://evil.blob.core.windows.net/",
            ),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8081/a"),
            ("http://127.0.0.1:8080", "http://169.254.169.254:8080/a"),
        ] {
            assert!(!covers(storage, url), "{url}");
        }
    }
}
