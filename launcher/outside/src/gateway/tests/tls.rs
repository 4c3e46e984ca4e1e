//! TLS to the upstream: the built-in roots and those of the policy, nothing else.

use super::super::Limits;
use super::fake::*;
use picktwo_wire::gateway::GatewayStart;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;

// A root and a certificate for model.test, made for these tests.
const ROOT: &[u8] = include_bytes!("tls/root.der");
const LEAF: &[u8] = include_bytes!("tls/leaf.der");
const LEAF_KEY: &[u8] = include_bytes!("tls/leaf.key.der");

const SMALL: &str = r#"{"model":"claude-opus-5-5","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}"#;

/// A TLS server that answers every request on every connection.
fn server() -> SocketAddr {
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_slice(LEAF)],
            PrivateKeyDer::try_from(LEAF_KEY).unwrap(),
        )
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        while let Ok((socket, _)) = listener.accept() {
            let config = config.clone();
            thread::spawn(move || {
                let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), socket);
                let mut got = Vec::new();
                let mut block = [0; 4096];
                while let Ok(n @ 1..) = stream.read(&mut block) {
                    got.extend_from_slice(&block[..n]);
                    if got.ends_with(b"]}") {
                        got.clear();
                        stream
                            .write_all(whole("200 OK", "application/json", r#"{"content":[]}"#).as_bytes())
                            .unwrap();
                        stream.flush().unwrap();
                    }
                }
            });
        }
    });
    address
}

fn https(name: &str, roots: Vec<Vec<u8>>, address: SocketAddr) -> GatewayStart {
    let mut start = start(address);
    start.upstreams.truncate(1);
    start.upstreams[0].base = format!("https://{name}:{}", address.port());
    start.roots = roots;
    start
}

#[test]
fn a_root_of_the_policy_is_trusted_and_connections_are_kept() {
    let address = server();
    let harness = Harness::with(
        https("model.test", vec![ROOT.to_vec()], address),
        Limits::default(),
        address,
    );
    let mut agent = harness.agent();
    for _ in 0..5 {
        assert_eq!(call(&mut agent, "/v1/messages", "", SMALL).0, 200);
    }
    assert_eq!(harness.asked.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[test]
fn other_certificates_are_refused_for_good() {
    let address = server();
    for (name, roots, part) in [
        ("model.test", vec![], "UnknownIssuer"),
        ("other.test", vec![ROOT.to_vec()], "not valid for name"),
        ("model.test", vec![b"no certificate".to_vec()], "trust anchor"),
    ] {
        let harness = Harness::with(https(name, roots, address), Limits::default(), address);
        let (status, head, text) = harness.call("/v1/messages", "", SMALL);
        assert_eq!(
            (status, header(&head, "x-should-retry")),
            (502, Some("false")),
            "{text}"
        );
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn an_upstream_without_tls_is_a_clear_502() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket
            .write_all(whole("400 Bad Request", "text/plain", "no TLS here").as_bytes())
            .unwrap();
    });
    let harness = Harness::with(https("model.test", vec![], address), Limits::default(), address);
    let (status, _, text) = harness.call("/v1/messages", "", SMALL);
    assert!(status == 502 && text.contains("TLS"), "{text}");
}
