use super::*;
use crate::diagnostics::{Kind, Origin};
use crate::model::{effective, parse, stack};

fn retrieval(more: &str) -> Retrieval {
    let layer = parse(
        &format!("version = 1\n{more}\n"),
        Origin::new(Kind::User, "policy.toml"),
    )
    .unwrap_or_else(|d| panic!("{d}"));
    let layers = stack(None, vec![layer]).unwrap_or_else(|d| panic!("{d}"));
    effective(&layers).unwrap_or_else(|d| panic!("{d}")).retrieval
}

fn guard(more: &str, secrets: &[(&str, &str)]) -> Guard {
    let secrets: Vec<Secret> = secrets
        .iter()
        .map(|(n, v)| Secret {
            name: (*n).into(),
            value: (*v).into(),
        })
        .collect();
    Guard::new(&retrieval(more), &secrets)
}

fn rule(g: &mut Guard, url: &str, question: &str) -> &'static str {
    match g.check(url, Some(question)) {
        Ok(_) => "ok",
        Err(r) => r.rule,
    }
}

#[test]
fn address_forms_are_read_as_the_web_reads_them() {
    let mut g = guard("[retrieval]\nurls = \"any\"", &[]);
    let mut blocked = 0;
    for line in include_str!("../../tests/data/vectors.tsv").lines() {
        let (input, verdict) = line.split_once('\t').expect("two columns");
        // Escapes in the file stand for the characters.
        let input = input.replace("\\t", "\t").replace("\\n", "\n");
        let result = g.check(&input, None);
        match verdict.split('-').next() {
            Some("block" | "reject" | "same") => {
                let refusal = result.expect_err(&input);
                assert!(
                    matches!(refusal.rule, "bad-url" | "private-address" | "private-name" | "port"),
                    "{input}: {refusal:?}"
                );
                blocked += 1;
            }
            Some("policy") if verdict == "policy-port" => assert_eq!(result.expect_err(&input).rule, "port"),
            _ => drop(result.unwrap_or_else(|e| panic!("{input}: {e}"))),
        }
    }
    assert!(blocked > 60, "only {blocked} vectors read");
    assert_eq!(
        Target::parse("https://example.com./a#b").map(|t| t.url),
        Ok("https://example.com/a".into())
    );
}

#[test]
fn only_named_hosts_are_asked() {
    let mut g = guard(
        "[retrieval]\nprivate = [\"127.0.0.1:8080\"]\nhosts = [\"docs.example.org\"]",
        &[],
    );
    assert_eq!(rule(&mut g, "https://docs.rs/serde", "how do I rename a field?"), "ok");
    assert_eq!(rule(&mut g, "https://docs.example.org/x", ""), "ok");
    assert_eq!(rule(&mut g, "https://a.docs.example.org/x", ""), "ok");
    assert_eq!(rule(&mut g, "https://evildocs.example.org/x", ""), "unknown-host");
    assert_eq!(rule(&mut g, "https://docs.example.org.evil.net/x", ""), "unknown-host");
    assert_eq!(rule(&mut g, "http://127.0.0.1:8080/page", ""), "ok");
    assert_eq!(rule(&mut g, "http://127.0.0.1:8081/page", ""), "private-address");
    let refusal = g.check("https://blog.example.net/post", None).expect_err("unknown");
    assert!(refusal.ask && refusal.host.as_deref() == Some("blog.example.net"));
    g.allow_host("blog.example.net");
    assert_eq!(rule(&mut g, "https://blog.example.net/post", ""), "ok");
}

#[test]
fn seen_links_are_known_within_their_site() {
    let mut g = guard("", &[]);
    g.found("https://blog.example.net/post");
    assert_eq!(rule(&mut g, "https://blog.example.net/post", ""), "ok");
    assert_eq!(rule(&mut g, "https://blog.example.net/other", ""), "unknown-host");
    g.linked("https://blog.example.net/post", "https://www.blog.example.net/next");
    g.linked("https://blog.example.net/post", "https://elsewhere.example/x");
    assert_eq!(rule(&mut g, "https://www.blog.example.net/next", ""), "ok");
    assert_eq!(rule(&mut g, "https://elsewhere.example/x", ""), "unknown-host");
    let mut open = guard("[retrieval]\nurls = \"seen\"", &[]);
    open.linked("https://blog.example.net/post", "https://elsewhere.example/x");
    assert_eq!(rule(&mut open, "https://elsewhere.example/x", ""), "ok");
    assert_eq!(rule(&mut open, "https://elsewhere.example/y", ""), "unknown-host");
}

#[test]
fn sites_are_told_apart() {
    assert!(same_site("a.example", "www.a.example") && same_site("x.a.example", "a.example"));
    assert!(
        !same_site("a.example", "b.example") && !same_site("a.com", "com") && !same_site("xa.example", "a.example")
    );
    assert!(!same_site("1.2.3.4", "4") && !same_site("10.1.2.3.4", "1.2.3.4"));
}

#[test]
fn redirects_stay_on_their_site_or_on_known_hosts() {
    let mut g = guard("", &[("TOKEN", "k3yB8fQ2zX9wLm4T")]);
    let from = g.check("https://docs.rs/serde", None).expect("known");
    assert!(g.redirect(&from, "https://docs.rs/serde/latest").is_ok());
    assert!(g.redirect(&from, "https://www.rust-lang.org/").is_ok());
    for (to, want) in [
        ("http://docs.rs/x", "bad-url"),
        ("https://evil.example/x", "unknown-host"),
        ("https://127.0.0.1/", "private-address"),
        ("https://docs.rs:8443/", "port"),
        ("https://localhost/", "private-name"),
        ("https://docs.rs/?k3yB8fQ2zX9wLm4T", "secret"),
        ("file:///etc/passwd", "bad-url"),
    ] {
        assert_eq!(g.redirect(&from, to).expect_err(to).rule, want, "{to}");
    }
}

const SECRET: &str = "q7Rz-Lm2vX/9kTbW4yHc8NsPd3F+a6Ue";

fn b64(text: &[u8], alphabet: &[u8; 64]) -> String {
    let bits: String = text.iter().map(|b| format!("{b:08b}")).collect();
    bits.as_bytes()
        .chunks(6)
        .map(|c| {
            char::from(
                alphabet[usize::from_str_radix(&format!("{:0<6}", std::str::from_utf8(c).expect("bits")), 2)
                    .expect("bits")],
            )
        })
        .collect()
}

fn encodings(secret: &str) -> Vec<(String, String)> {
    let std = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let url = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let percent = |upper: bool| {
        secret
            .bytes()
            .map(|b| {
                if upper {
                    format!("%{b:02X}")
                } else {
                    format!("%{b:02x}")
                }
            })
            .collect::<String>()
    };
    let hex: String = secret.bytes().map(|b| format!("{b:02x}")).collect();
    let bits: String = secret.bytes().map(|b| format!("{b:08b}")).collect();
    let base32 = bits.as_bytes().chunks(5).map(|c| {
        let n = usize::from_str_radix(&format!("{:0<5}", std::str::from_utf8(c).expect("bits")), 2).expect("bits");
        char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[n])
    });
    let rot13 = secret.chars().map(|c| match c {
        'a'..='z' => char::from((c as u8 - b'a' + 13) % 26 + b'a'),
        'A'..='Z' => char::from((c as u8 - b'A' + 13) % 26 + b'A'),
        c => c,
    });
    let mut all = vec![
        ("raw".into(), secret.into()),
        ("upper".into(), secret.to_uppercase()),
        ("percent".into(), percent(true)),
        ("percent lower".into(), percent(false)),
        ("percent twice".into(), percent(true).replace('%', "%25")),
        ("hex".into(), hex.clone()),
        ("HEX".into(), hex.to_uppercase()),
        ("base32".into(), base32.collect()),
        ("reversed".into(), secret.chars().rev().collect()),
        ("rot13".into(), rot13.collect()),
        ("dashes".into(), secret.chars().map(|c| format!("{c}-")).collect()),
        ("json".into(), secret.bytes().map(|b| format!("\\u{b:04x}")).collect()),
        ("entities".into(), secret.bytes().map(|b| format!("&#{b};")).collect()),
        (
            "base64 of base64".into(),
            b64(b64(secret.as_bytes(), std).as_bytes(), std),
        ),
        ("base64 of hex".into(), b64(hex.as_bytes(), std)),
        (
            "base64 of utf-16".into(),
            b64(
                &secret.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>(),
                std,
            ),
        ),
        ("half".into(), secret[..20].into()),
        ("middle".into(), format!("x{}y", &secret[7..24])),
    ];
    for n in 0..3 {
        let shifted = format!("{}{secret}zz", &"abc"[..n]);
        all.push((format!("base64 at {n}"), b64(shifted.as_bytes(), std)));
        all.push((format!("base64url at {n}"), b64(shifted.as_bytes(), url)));
    }
    all
}

#[test]
fn known_secrets_are_found_in_every_usual_form() {
    for (name, text) in encodings(SECRET) {
        let mut g = guard("", &[("DEPLOY_TOKEN", SECRET)]);
        for url in [
            format!("https://docs.rs/{}", text.replace('/', "%2F")),
            format!("https://docs.rs/search?q={text}"),
        ] {
            // JSON escapes hold backslashes, which no URL may have.
            if !text.contains('\\') {
                let refusal = g.check(&url, None).expect_err(&name);
                assert_eq!(refusal.rule, "secret", "{name}: {url}");
                assert!(
                    refusal.reason.contains("DEPLOY_TOKEN") && !refusal.reason.contains(&SECRET[..6]),
                    "{}",
                    refusal.reason
                );
            }
        }
        assert_eq!(
            rule(&mut g, "https://docs.rs/x", &format!("what is {text} about?")),
            "secret",
            "{name}"
        );
        assert_eq!(rule(&mut g, "https://docs.rs/x", "what is serde about?"), "ok");
    }
}

#[test]
fn secrets_in_pieces_are_found() {
    let mut g = guard("", &[("T", SECRET)]);
    assert_eq!(
        rule(
            &mut g,
            &format!("https://docs.rs/?a={}&b={}", &SECRET[..16], &SECRET[16..]),
            ""
        ),
        "secret"
    );
    // Over several requests: the pieces add up.
    let mut g = guard("", &[("T", SECRET)]);
    let mut verdicts = Vec::new();
    for piece in SECRET.as_bytes().chunks(11) {
        let piece: String = piece
            .iter()
            .map(|b| char::from(*b))
            .filter(char::is_ascii_alphanumeric)
            .collect();
        verdicts.push(rule(&mut g, &format!("https://docs.rs/{piece}"), ""));
    }
    assert_eq!(verdicts[0], "ok");
    assert!(verdicts.contains(&"secret"), "{verdicts:?}");
}

#[test]
fn words_are_no_secrets() {
    let mut g = guard(
        "",
        &[("DB_PASSWORD", "postgres"), ("USER", "administrator"), ("T", SECRET)],
    );
    for q in [
        "how do I connect to postgres as administrator?",
        "what does sk-ant-api03 mean",
        "is the password in the environment?",
    ] {
        assert_eq!(rule(&mut g, "https://docs.rs/postgres", q), "ok", "{q}");
    }
}

/// Put together here, so that no scanner takes them for live ones.
fn shaped() -> Vec<String> {
    let hex = "3f9a1c7e5b2d8460";
    let mix = "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY";
    vec![
        format!("AKIA{}", "Q3EGRIZ5LYNVOJ7X"),
        format!("ghp_{}{}", mix, "Zz12"),
        format!("github_pat_{}{}", "11ABCDEFG0", mix),
        format!("glpat-{}", &mix[..20]),
        format!("xoxb-{}-{}", "123456789012", &mix[..24]),
        format!("sk_live_{}", &mix[..24]),
        format!("sk-ant-api03-{mix}"),
        format!("sk-proj-{mix}"),
        format!("AIza{}{}", mix, "abC"),
        format!("npm_{}{}", mix, "Zz12"),
        format!("pypi-AgEIcHlwaS5vcmc{mix}{mix}"),
        format!("eyJhbGciOiJIUzI1NiJ9.{}.{}", "eyJzdWIiOiIxMjM0In0", &mix[..22]),
        format!("-----BEGIN {} KEY-----", "OPENSSH PRIVATE"),
        format!("hf_{}{}", mix, "Ab"),
        format!("dop_v1_{hex}{hex}{hex}{hex}"),
        format!("SG.{}.{}{}", &mix[..22], mix, "AbcDefGhi1J"),
        format!("postgres://app:{}@db/x", "s3cr3tPa55"),
        format!("password={}", "hunter2-Kx9qLm"),
        format!("Authorization: Bearer {mix}"),
        format!("hvs.{mix}"),
    ]
}

#[test]
fn shapes_of_secrets_are_found_plain_and_encoded() {
    let std = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for secret in shaped() {
        let mut g = guard("", &[]);
        let percent: String = secret.bytes().map(|b| format!("%{b:02X}")).collect();
        let hex: String = secret.bytes().map(|b| format!("{b:02x}")).collect();
        for text in [secret.clone(), percent, b64(secret.as_bytes(), std), hex] {
            assert_eq!(
                rule(&mut g, "https://docs.rs/x", &format!("explain {text} please")),
                "secret-shape",
                "{text}"
            );
        }
        assert_eq!(
            rule(
                &mut g,
                &format!("https://docs.rs/?q={}", secret.replace(' ', "+").replace('/', "%2F")),
                ""
            ),
            "secret-shape",
            "{secret}"
        );
    }
}

#[test]
fn ordinary_requests_pass() {
    let mut g = guard("", &[("T", SECRET)]);
    for (url, q) in [
        (
            "https://docs.rs/tokio/1.54.1/tokio/sync/struct.Mutex.html",
            "How do I lock a mutex without blocking the runtime?",
        ),
        (
            "https://doc.rust-lang.org/std/collections/struct.HashMap.html#method.entry",
            "entry API",
        ),
        (
            "https://docs.python.org/3/library/asyncio-subprocess.html",
            "create_subprocess_exec with a timeout",
        ),
        (
            "https://developer.mozilla.org/en-US/docs/Web/JavaScript/Reference/Global_Objects/Array/prototype/flatMap",
            "flatMap",
        ),
        (
            "https://docs.spring.io/AbstractSingletonProxyFactoryBeanConfigurationSupportInitializer",
            "what is it",
        ),
        (
            "https://pkg.go.dev/k8s.io/api@v0.31.2/core/v1#PodSpec",
            "fields of PodSpec",
        ),
        (
            "https://git-scm.com/docs/git-rebase#_incompatible_options_and_other_long_fragment_names",
            "options",
        ),
        (
            "https://www.rfc-editor.org/rfc/rfc9110.html",
            "section on conditional requests",
        ),
        (
            "https://learn.microsoft.com/en-us/windows/win32/api/fileapi/nf-fileapi-createfilew",
            "what is dwDesiredAccess",
        ),
        (
            "https://docs.rs/serde/commit/4f2e7c9b1a3d5f60718293a4b5c6d7e8f9012345",
            "what changed",
        ),
        (
            "https://en.wikipedia.org/wiki/Transmission_Control_Protocol",
            "slow start",
        ),
        ("https://docs.rs/x/3f2504e0-4f89-41d3-9a0c-0305e82c3301", "what is this"),
        (
            "https://pypi.org/project/opentelemetry-instrumentation-sqlalchemy/",
            "which token does the API key option take?",
        ),
        (
            "https://docs.github.com/en/authentication/keeping-your-account-and-data-secure/managing-your-personal-access-tokens",
            "how do I set GITHUB_TOKEN?",
        ),
        (
            "https://stackoverflow.com/questions/11227809/why-is-processing-a-sorted-array-faster-than-processing-an-unsorted-array",
            "why",
        ),
    ] {
        if let Err(r) = g.check(url, Some(q)) {
            panic!("{url}: {r:?}");
        }
    }
}

#[test]
fn random_pieces_are_refused_unless_they_were_seen() {
    let mut g = guard("", &[]);
    let random = "kQ3xZ8vB1nM5cL7jH2gF9dS4aP6oI0uY";
    let url = format!("https://docs.rs/{random}");
    assert_eq!(rule(&mut g, &url, ""), "entropy");
    assert_eq!(
        rule(&mut g, &format!("https://{}.docs.rs/", random.to_lowercase()), ""),
        "entropy"
    );
    assert_eq!(rule(&mut g, &format!("https://docs.rs/?v={random}"), ""), "entropy");
    assert_eq!(
        rule(&mut g, "https://docs.rs/x", &format!("explain {random}")),
        "entropy"
    );
    assert_eq!(
        rule(
            &mut g,
            "https://docs.rs/?n=9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b",
            ""
        ),
        "entropy"
    );
    for text in [
        "CANARY-e354ab640a73d7990c6190c2",
        "password: swordfish",
        "thirty-two hexadecimal digits..",
    ] {
        let hex: String = text.bytes().map(|b| format!("{b:02x}")).collect();
        let binary: String = text.bytes().map(|b| format!("{b:08b}")).collect();
        let decimal: String = text.bytes().map(|b| format!("{b:03}")).collect();
        let joined: Vec<String> = text.bytes().map(|b| format!("{b:02x}")).collect();
        for digits in [
            hex.to_uppercase(),
            format!("a{hex}"),
            format!("{hex}a"),
            hex,
            binary,
            decimal,
            joined.join("-"),
            joined.join("_"),
        ] {
            let url = format!("https://docs.rs/{digits}");
            assert_eq!(rule(&mut g, &url, ""), "entropy", "{text}: {digits}");
        }
    }
    let twice: String = random.bytes().map(|b| format!("%2525{b:02x}")).collect();
    assert_eq!(rule(&mut g, &format!("https://docs.rs/{twice}"), ""), "entropy");
    for hash in [
        "d41d8cd98f00b204e9800998ecf8427e",
        "da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    ] {
        assert_eq!(rule(&mut g, &format!("https://docs.rs/{hash}"), ""), "ok", "{hash}");
    }
    g.linked("https://docs.rs/", &url);
    assert_eq!(rule(&mut g, &url, ""), "ok");
}

#[test]
fn budgets_end() {
    let mut g = guard(
        "[retrieval.budget]\nrequests = 3\nrequests_per_host = 2\nquery_bytes = 16",
        &[],
    );
    assert_eq!(rule(&mut g, "https://docs.rs/a", ""), "ok");
    assert_eq!(rule(&mut g, "https://docs.rs/?q=12345678901234567", ""), "length");
    assert_eq!(rule(&mut g, "https://docs.rs/b", ""), "ok");
    assert_eq!(rule(&mut g, "https://docs.rs/c", ""), "budget");
    assert_eq!(rule(&mut g, "https://crates.io/c", ""), "ok");
    assert_eq!(rule(&mut g, "https://python.org/c", ""), "budget");
    let mut g = guard("[retrieval.budget]\nbits_per_host = 300", &[]);
    assert_eq!(rule(&mut g, "https://docs.rs/some/longer/path/of/a/page", ""), "ok");
    assert_eq!(rule(&mut g, "https://docs.rs/some/longer/path/of/a/pack", ""), "ok");
    assert_eq!(
        rule(&mut g, "https://docs.rs/entirely/new/words/that/say", "and a question"),
        "budget"
    );
    assert_eq!(rule(&mut g, "https://crates.io/entirely/new/words/that/say", ""), "ok");
}

#[test]
fn search_queries_are_checked_too() {
    let mut g = guard("", &[("T", SECRET)]);
    assert!(g.text("search", "rust tokio mutex").is_ok());
    assert_eq!(g.text("search", SECRET).expect_err("secret").rule, "secret");
}
