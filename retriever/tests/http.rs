//! Fetches from servers on loopback, kind and hostile.

mod support;

use picktwo_retriever::fetch::{FetchError, Kind, Large, Slow};
use std::io::Write;
use std::time::{Duration, Instant};
use support::{Record, Server, fetch_with, get, head, limits, raw, respond};

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(data).expect("a vector takes everything");
    encoder.finish().expect("a vector takes everything")
}

#[test]
fn a_page_arrives_with_a_plain_request() {
    let server = Server::plain(|out, _| respond(out, "text/html; charset=iso-8859-1", b"<p>caf\xe9"));
    let document = get(&server, "/a?b=c").expect("a page");
    assert_eq!(
        (document.kind, document.text.as_str(), document.wire_bytes),
        (Kind::Html, "<p>café", 7)
    );
    let request = server.requests.lock().expect("no panic")[0].to_lowercase();
    assert!(request.starts_with("get /a?b=c http/1.1\r\n"), "{request}");
    for absent in ["cookie", "referer", "authorization", "origin"] {
        assert!(!request.contains(absent), "{request}");
    }
    assert!(request.contains("user-agent: picktwo/"), "{request}");
}

#[test]
fn tls_trusts_the_named_root_and_no_other() {
    let server = Server::tls(&["site.test"], |out, _| respond(out, "text/plain", b"secret transport"));
    assert_eq!(get(&server, "/").expect("a page").text, "secret transport");
    let error = fetch_with(&server.url("/"), &limits(), &[], &mut Record::default()).expect_err("an unknown authority");
    assert_eq!(error.cause(), "tls", "{error}");
    let wrong = Server::tls(&["other.test"], |out, _| respond(out, "text/plain", b"x"));
    assert_eq!(get(&wrong, "/").expect_err("a wrong name").cause(), "tls");
    let plain = raw(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        std::thread::sleep(Duration::from_millis(200));
    });
    let url = format!("https://site.test:{}/", plain.port());
    assert_eq!(
        fetch_with(&url, &limits(), &[], &mut Record::default())
            .expect_err("no TLS there")
            .cause(),
        "tls"
    );
}

#[test]
fn redirects_are_followed_one_by_one_and_only_as_allowed() {
    let server = Server::plain(|out, path| match path {
        "/one" => head(
            out,
            302,
            &[("location", "two?x"), ("set-cookie", "a=b"), ("content-length", "0")],
        ),
        "/two?x" => head(out, 308, &[("location", "//site.test:PORT/three#frag")]),
        "/refused" => head(out, 301, &[("location", "/refuse")]),
        "/loop" => head(out, 302, &[("location", "/loop")]),
        "/scheme" => head(out, 302, &[("location", "file:///etc/passwd")]),
        "/user" => head(out, 302, &[("location", "http://u:p@site.test/")]),
        "/bad" => head(out, 302, &[("location", "http://[::bad")]),
        "/bare" => head(out, 304, &[]),
        _ => respond(out, "text/plain", b"end"),
    });
    let mut record = Record::default();
    let go = |path: &str, record: &mut Record| fetch_with(&server.url(path), &limits(), &[], record);

    // The port in `/two` is none: the redirect itself is refused there.
    assert_eq!(
        go("/one", &mut record).expect_err("a malformed address").cause(),
        "redirect"
    );
    assert_eq!(record.hops.len(), 1);
    assert_eq!(record.hops[0].2.as_deref(), Some(server.url("/two?x").as_str()));
    assert!(
        !server.requests.lock().expect("no panic")[1]
            .to_lowercase()
            .contains("cookie")
    );

    let mut record = Record::default();
    let refused = go("/refused", &mut record).expect_err("a refused redirect");
    assert_eq!((refused.cause(), record.hops.len()), ("refused", 1));
    assert!(
        !server
            .requests
            .lock()
            .expect("no panic")
            .iter()
            .any(|r| r.starts_with("GET /refuse "))
    );

    let mut record = Record::default();
    assert_eq!(go("/loop", &mut record).expect_err("a loop").cause(), "redirect");
    assert_eq!(record.hops.len(), 4, "three are followed, the fourth answer ends it");
    for path in ["/scheme", "/user", "/bad"] {
        assert_eq!(
            go(path, &mut Record::default()).expect_err(path).cause(),
            "redirect",
            "{path}"
        );
    }
    assert_eq!(
        go("/bare", &mut Record::default()).expect_err("no content").cause(),
        "status"
    );
}

#[test]
fn https_does_not_lead_to_http_and_http_may_lead_to_https() {
    let plain = Server::plain(|out, _| respond(out, "text/plain", b"plain"));
    let down = plain.url("/");
    let server = Server::tls(&["site.test"], move |out, path| match path {
        "/down" => head(out, 302, &[("location", &down)]),
        _ => respond(out, "text/plain", b"safe"),
    });
    let error = get(&server, "/down").expect_err("a downgrade");
    assert_eq!(error.cause(), "redirect");
    assert!(plain.requests.lock().expect("no panic").is_empty());
    let up = server.url("/");
    let start = Server::plain(move |out, _| head(out, 301, &[("location", &up)]));
    let document = fetch_with(
        &start.url("/"),
        &limits(),
        &[server.root.clone().expect("TLS")],
        &mut Record::default(),
    )
    .expect("an upgrade");
    assert_eq!(document.text, "safe");
}

#[test]
fn time_to_decide_on_a_redirect_is_not_the_servers() {
    let server = Server::plain(|out, path| match path {
        "/a" => head(out, 302, &[("location", "/b")]),
        _ => respond(out, "text/plain", b"end"),
    });
    let mut record = Record {
        think: Duration::from_millis(800),
        ..Record::default()
    };
    let short = picktwo_wire::retrieval::Limits {
        total_ms: 600,
        ..limits()
    };
    assert_eq!(
        fetch_with(&server.url("/a"), &short, &[], &mut record)
            .expect("in time")
            .text,
        "end"
    );
}

#[test]
fn bodies_are_bounded_on_the_wire_and_decoded() {
    let bomb = gzip(&vec![b' '; 20 << 20]);
    let server = Server::plain(move |out, path| match path {
        "/long" => respond(out, "text/plain", &vec![b'a'; 300 << 10]),
        "/endless" => {
            head(out, 200, &[("content-type", "text/plain")]);
            while out.write_all(&[b'a'; 8192]).is_ok() {}
        }
        "/bomb" => {
            head(out, 200, &[("content-type", "text/html"), ("content-encoding", "gzip")]);
            let _ = out.write_all(&bomb);
        }
        "/twice" => {
            head(
                out,
                200,
                &[("content-type", "text/html"), ("content-encoding", "gzip, gzip")],
            );
            let _ = out.write_all(&gzip(&gzip(b"x")));
        }
        "/packed" => {
            head(out, 200, &[("content-type", "text/html"), ("content-encoding", "gzip")]);
            let _ = out.write_all(&gzip(b"<p>packed"));
        }
        _ => {
            head(out, 200, &[("content-type", "text/html"), ("content-encoding", "gzip")]);
            let _ = out.write_all(b"no gzip at all");
        }
    });
    assert_eq!(
        get(&server, "/long").err(),
        Some(FetchError::TooLarge(Large::Wire(256 << 10)))
    );
    assert_eq!(
        get(&server, "/endless").err(),
        Some(FetchError::TooLarge(Large::Wire(256 << 10)))
    );
    let started = Instant::now();
    assert_eq!(
        get(&server, "/bomb").err(),
        Some(FetchError::TooLarge(Large::Decoded(1 << 20)))
    );
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!(get(&server, "/twice").expect_err("two layers").cause(), "encoding");
    assert_eq!(get(&server, "/broken").expect_err("no gzip").cause(), "encoding");
    assert_eq!(get(&server, "/packed").expect("a page").text, "<p>packed");
}

#[test]
fn stalls_end_in_time() {
    let server = Server::plain(|out, path| match path {
        "/silent" => std::thread::sleep(Duration::from_secs(6)),
        "/drip" => {
            head(out, 200, &[("content-type", "text/plain")]);
            for _ in 0..60 {
                std::thread::sleep(Duration::from_millis(100));
                if out.write_all(b"x").and_then(|()| out.flush()).is_err() {
                    return;
                }
            }
        }
        _ => {
            for n in 0..60 {
                std::thread::sleep(Duration::from_millis(100));
                if out
                    .write_all(format!("x-{n}: y\r\n").as_bytes())
                    .and_then(|()| out.flush())
                    .is_err()
                {
                    return;
                }
            }
        }
    });
    for path in ["/silent", "/drip"] {
        let started = Instant::now();
        assert_eq!(
            get(&server, path).err(),
            Some(FetchError::Timeout(Slow::Total(3_000))),
            "{path}"
        );
        assert!(started.elapsed() < Duration::from_millis(4_500), "{path}");
    }
    let mut record = Record::default();
    let started = Instant::now();
    let error = fetch_with("http://hang.test/", &limits(), &[], &mut record).expect_err("a resolver that hangs");
    assert_eq!(error, FetchError::Timeout(Slow::Connect(500)));
    assert!(started.elapsed() < Duration::from_secs(2));
}

#[test]
fn a_slow_body_ends_by_its_rate_after_the_grace() {
    let server = Server::plain(|out, _| {
        head(out, 200, &[("content-type", "text/plain")]);
        for _ in 0..200 {
            std::thread::sleep(Duration::from_millis(100));
            if out.write_all(b"xxxxxxxxxx").and_then(|()| out.flush()).is_err() {
                return;
            }
        }
    });
    let patient = picktwo_wire::retrieval::Limits {
        total_ms: 60_000,
        ..limits()
    };
    let started = Instant::now();
    let error = fetch_with(&server.url("/"), &patient, &[], &mut Record::default()).expect_err("100 bytes per second");
    assert_eq!(error, FetchError::Timeout(Slow::Rate(1024)));
    assert!(
        (9..20).contains(&started.elapsed().as_secs()),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn headers_are_bounded() {
    let server = Server::plain(|out, path| match path {
        "/one" => head(
            out,
            200,
            &[("content-type", "text/plain"), ("x-big", &"a".repeat(100 << 10))],
        ),
        "/many" => {
            let names: Vec<String> = (0..1000).map(|n| format!("x-{n}")).collect();
            let fields: Vec<(&str, &str)> = names.iter().map(|n| (n.as_str(), "v")).collect();
            head(out, 200, &fields);
        }
        _ => {
            let _ = out.write_all(b"HTTP/1.1 200 OK\r\n");
            while out
                .write_all(b"x-endless: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n")
                .is_ok()
            {}
        }
    });
    for path in ["/one", "/many", "/endless"] {
        assert_eq!(
            get(&server, path).err(),
            Some(FetchError::TooLarge(Large::Headers)),
            "{path}"
        );
    }
}

#[test]
fn errors_of_servers_and_documents_have_their_own_names() {
    let server = Server::plain(|out, path| match path {
        "/404" => head(out, 404, &[("content-type", "text/html"), ("content-length", "0")]),
        "/500" => head(out, 500, &[]),
        "/png" => respond(out, "image/png", b"\x89PNG"),
        "/pdf" => respond(out, "application/pdf", b"<html>no PDF"),
        "/nul" => respond(out, "text/html", b"<p>a\0b"),
        "/utf7" => respond(out, "text/html; charset=utf-7", b"+ADw-script+AD4-"),
        "/short" => {
            head(out, 200, &[("content-type", "text/plain"), ("content-length", "100")]);
            let _ = out.write_all(b"too short");
        }
        "/chunks" => {
            head(
                out,
                200,
                &[("content-type", "text/plain"), ("transfer-encoding", "chunked")],
            );
            let _ = out.write_all(b"zz\r\nnot a chunk\r\n");
        }
        _ => {
            let _ = out.write_all(b"this is not HTTP\r\n\r\n");
        }
    });
    for (path, cause) in [
        ("/404", "status"),
        ("/500", "status"),
        ("/png", "content-type"),
        ("/pdf", "encoding"),
        ("/nul", "content-type"),
        ("/utf7", "encoding"),
        ("/short", "protocol"),
        ("/chunks", "protocol"),
        ("/garbage", "protocol"),
    ] {
        let error = get(&server, path).expect_err(path);
        assert_eq!(error.cause(), cause, "{path}: {error}");
    }
    let closed = raw(drop);
    let error = fetch_with(
        &format!("http://site.test:{}/", closed.port()),
        &limits(),
        &[],
        &mut Record::default(),
    )
    .expect_err("closed at once");
    assert_eq!(error.cause(), "protocol", "{error}");
}

#[test]
fn names_and_connections_that_fail_say_so() {
    let go = |url: &str| fetch_with(url, &limits(), &[], &mut Record::default()).expect_err(url);
    let error = go("http://unknown.example/");
    assert_eq!(
        error,
        FetchError::Dns {
            host: "unknown.example".to_owned(),
            reason: "no such name".to_owned()
        }
    );
    assert_eq!(
        go("http://liar.test/").cause(),
        "dns",
        "an answer for another name is none"
    );
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("its address")
        .port();
    let error = go(&format!("http://site.test:{free}/"));
    assert_eq!(error.cause(), "connect");
    assert!(error.reason().contains("refused"), "{error}");
    assert_eq!(
        go(&format!("http://127.0.0.1:{free}/")).cause(),
        "connect",
        "a literal is not resolved"
    );
}

#[test]
fn proxies_of_the_environment_are_ignored() {
    let own = std::env::current_exe().expect("this program");
    let mut again = std::process::Command::new(own);
    again.args(["--exact", "a_page_arrives_with_a_plain_request"]);
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        again.env(name, "http://127.0.0.1:1");
    }
    let output = again.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}
