//! The parser agrees with another one on what is JSON, and is stricter where providers may differ.

use super::super::json::{ANSWER, Fault, Limits, REQUEST, parse, plain_length, write_value};
use super::super::refusal::Refusal;

fn rewritten(text: &str) -> Result<String, Fault> {
    let mut out = Vec::new();
    write_value(&parse(text.as_bytes(), REQUEST)?, &mut out);
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn documents_keep_their_meaning() {
    for text in [
        r#"{"a":[1,2.5e3,-0,true,false,null,"x"],"b":{}}"#,
        r#" [ ] "#,
        r#""\u00e9\ud83e\udd80\n\t\"\\\/\b\f\r\u0000\u007f""#,
        r#"{"":{"\u0061":1}}"#,
        "\"\u{7f}\u{e000}\u{10ffff}\"",
    ] {
        let written = rewritten(text).unwrap();
        let (before, after): (serde_json::Value, serde_json::Value) = (
            serde_json::from_str(text).unwrap(),
            serde_json::from_str(&written).unwrap(),
        );
        assert_eq!(before, after, "{text}");
    }
}

#[test]
fn what_is_not_json_is_refused() {
    for text in [
        "",
        " ",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "{a:1}",
        "'a'",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "NaN",
        "Infinity",
        "tru",
        "nulll",
        "\"a",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\n\"",
        "\"\u{1}\"",
        "[1 2]",
        "{\"a\" 1}",
        "1 2",
        "{}x",
        "\u{feff}{}",
        "// c\n{}",
        "[1/**/]",
        "-",
        "{\"a\":1 \"b\":2}",
        "\u{a0}1",
        "\"\\u+123\"",
        "0x10",
        "1_000",
        "--1",
    ] {
        assert!(
            serde_json::from_str::<serde_json::Value>(text).is_err(),
            "the other parser takes {text:?}"
        );
        assert!(
            matches!(rewritten(text), Err(Fault::Syntax { .. })),
            "{text:?}: {:?}",
            rewritten(text)
        );
    }
}

#[test]
fn duplicate_keys_are_refused_wherever_and_however_they_are_written() {
    let many: String = (0..40).map(|n| format!("\"k{n}\":1,")).collect();
    for text in [
        r#"{"a":1,"a":2}"#.to_owned(),
        r#"{"x":[{"y":{"a":1,"b":2,"\u0061":3}}]}"#.to_owned(),
        format!("{{{many}\"k7\":2}}"),
    ] {
        assert!(matches!(rewritten(&text), Err(Fault::Duplicate { .. })), "{text}");
        assert!(parse(text.as_bytes(), ANSWER).is_ok());
    }
    assert!(rewritten(&format!("{{{many}\"K7\":2}}")).is_ok());
}

#[test]
fn surrogates_and_encodings() {
    for text in [
        r#""\ud800""#,
        r#""\udc00""#,
        r#""\ud800\u0041""#,
        r#""\ud800x""#,
        r#"{"\udfff":1}"#,
    ] {
        assert!(matches!(rewritten(text), Err(Fault::LoneSurrogate { .. })), "{text}");
    }
    for bytes in [
        &b"\"\xff\""[..],
        b"\"\xc0\x80\"",
        b"\"\xed\xa0\x80\"",
        b"\xef\xbb\xbf{}",
        b"{\x00}",
        b"\"\xf5\x80\x80\x80\"",
    ] {
        assert!(parse(bytes, REQUEST).is_err(), "{bytes:?}");
    }
}

#[test]
fn bounds_hold_at_their_edge() {
    let deep = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
    assert!(rewritten(&deep(64)).is_ok());
    assert!(matches!(rewritten(&deep(65)), Err(Fault::TooDeep { .. })));
    assert!(matches!(rewritten(&"[".repeat(1 << 20)), Err(Fault::TooDeep { .. })));
    let long = |n: usize| format!("[{}]", vec!["1"; n].join(","));
    assert!(rewritten(&long(20_000)).is_ok());
    assert!(matches!(rewritten(&long(20_001)), Err(Fault::TooManyItems { .. })));
    let few = Limits { values: 10, ..REQUEST };
    assert!(parse(long(9).as_bytes(), few).is_ok());
    assert!(matches!(
        parse(long(10).as_bytes(), few),
        Err(Fault::TooManyValues { .. })
    ));
    assert!(rewritten(&"1".repeat(1024)).is_ok());
    assert!(matches!(rewritten(&"1".repeat(1025)), Err(Fault::Syntax { .. })));
}

#[test]
fn faults_are_refusals_with_status_400() {
    for (text, rule) in [
        (r#"{"a":1,"a":2}"#, "duplicate-key"),
        ("{", "malformed"),
        (r#""\ud800""#, "malformed"),
    ] {
        let refusal = Refusal::from(parse(text.as_bytes(), REQUEST).unwrap_err());
        assert_eq!((refusal.rule, refusal.status), (rule, 400));
    }
}

#[test]
fn every_byte_stops_a_plain_run_where_it_must() {
    for byte in 0..=255u8 {
        let stops = byte < 0x20 || byte == b'"' || byte == b'\\';
        for at in 0..24 {
            // Neighbours from which a word-wise comparison could borrow.
            for filler in [b' ', b'!', b'#', b'[', b']', 0x7f, 0x80, 0xa2, 0xdc, 0xff] {
                let mut bytes = [filler; 24];
                bytes[at] = byte;
                assert_eq!(
                    plain_length(&bytes),
                    if stops { at } else { 24 },
                    "{byte:#x} at {at} in {filler:#x}"
                );
            }
        }
    }
}
