//! TLS to upstreams; set up when the first one needs it, since it costs memory.

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Why there is no TLS.
pub(crate) enum TlsError {
    /// What it said cannot be trusted, or our side cannot be set up: it will fail again.
    Refused(String),
    /// The connection broke.
    Broken(String),
}

/// The way to TLS.
pub(crate) struct Tls(Mutex<State>);

enum State {
    Roots(Vec<Vec<u8>>),
    Ready(TlsConnector),
}

impl Tls {
    /// Trusts the built-in roots and these, in DER.
    pub(crate) fn new(roots: Vec<Vec<u8>>) -> Self {
        Self(Mutex::new(State::Roots(roots)))
    }

    fn connector(&self) -> Result<TlsConnector, TlsError> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let roots = match &*state {
            State::Ready(connector) => return Ok(connector.clone()),
            State::Roots(roots) => roots,
        };
        let refused = |what: &str, error: rustls::Error| TlsError::Refused(format!("{what}: {error}"));
        let mut store = RootCertStore {
            roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
        };
        for root in roots {
            store
                .add(CertificateDer::from_slice(root))
                .map_err(|e| refused("a trust anchor of the policy", e))?;
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|e| refused("no usable protocol version", e))?
            .with_root_certificates(store)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.resumption = rustls::client::Resumption::in_memory_sessions(8);
        let connector = TlsConnector::from(Arc::new(config));
        *state = State::Ready(connector.clone());
        Ok(connector)
    }

    /// Speaks TLS over a connected socket.
    pub(crate) async fn connect(&self, host: &str, socket: TcpStream) -> Result<TlsStream<TcpStream>, TlsError> {
        let name = ServerName::try_from(host.to_owned()).map_err(|e| TlsError::Refused(e.to_string()))?;
        self.connector()?.connect(name, socket).await.map_err(|error| {
            let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
            match cause {
                Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented) => {
                    TlsError::Refused(error.to_string())
                }
                _ => TlsError::Broken(error.to_string()),
            }
        })
    }
}
