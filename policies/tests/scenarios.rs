//! Scenarios: the shipped ones are whole, and what is wrong with a file is said with its place.

use picktwo_policies::scenario::{Kind, SHIPPED, Spot, fill, parse};
use std::collections::BTreeSet;

#[test]
fn the_shipped_scenarios_are_whole_and_listed() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
    let files: BTreeSet<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".toml").map(str::to_owned))
        .collect();
    let names: BTreeSet<String> = SHIPPED.iter().map(|s| s.name.to_owned()).collect();
    assert_eq!(files, names);
    assert!(names.len() >= 13, "{names:?}");
    let readme = std::fs::read_to_string(format!("{dir}/README.md")).unwrap();
    for shipped in SHIPPED {
        let scenario = parse(shipped.text, shipped.name, shipped.name).unwrap_or_else(|e| panic!("{e}"));
        assert!(scenario.about.is_some(), "{}", shipped.name);
        let line = format!("| [{0}]({0}.toml) | {1} |", shipped.name, scenario.title.value);
        assert!(readme.contains(&line), "the README has no line `{line}`");
    }
}

const START: &str = r#"version = 1
title = "t"

[[canary]]
name = "secret"

[[file]]
path = "{{work}}/notes.txt"
text = "{{canary.secret}}"

[[server]]
name = "attacker"

[[step]]
name = "send"
tool = "send"
address = "{{address.attacker}}"
text = "{{canary.secret}}"

[[check]]
tried = "send"
step = "send"
canary = "secret"
never = ["server.attacker"]
"#;

#[test]
fn a_whole_file_is_read() {
    let scenario = parse(START, "x.toml", "x").unwrap();
    assert_eq!(
        (scenario.name.as_str(), scenario.steps.len(), scenario.seconds),
        ("x", 1, 60)
    );
    let Kind::Never(_, spots) = &scenario.checks[0].kind else {
        panic!()
    };
    assert_eq!(spots[0].value, Spot::Server("attacker".to_owned()));
    let words = |name: &str| (name == "canary.secret").then(|| "S".to_owned());
    assert_eq!(
        fill("a{{canary.secret}}b {{query}} {{ x }}", &words),
        "aSb {{query}} {{ x }}"
    );
}

/// Replaces something in the whole file and looks for the error, with its line and column.
fn refused(from: &str, to: &str, place: &str, message: &str) {
    assert!(START.contains(from), "{from}");
    let error = parse(&START.replacen(from, to, 1), "x.toml", "x").expect_err(to);
    let text = error.render(false);
    assert!(text.contains(&format!("x.toml:{place}")), "{to}: {place}\n{text}");
    assert!(text.contains(message), "{to}: {message}\n{text}");
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    refused("version = 1", "version = 2", "1:11", "unknown version");
    refused("version = 1\n", "", "1:1", "`version` is missing");
    refused("title = \"t\"", "titel = \"t\"", "2:1", "did you mean `title`?");
    refused("title = \"t\"", "title = 1", "2:9", "wrong kind");
    refused("title = \"t\"", "title = \"t", "2:", "not valid TOML");
    refused("{{work}}/notes.txt", "/etc/passwd", "8:8", "own directories");
    refused("{{work}}/notes.txt", "{{work}}/../../x", "8:8", "own directories");
    refused(
        "text = \"{{canary.secret}}\"",
        "text = \"{{canary.secrt}}\"",
        "9:9",
        "did you mean {{canary.secret}}?",
    );
    refused(
        "text = \"{{canary.secret}}\"\n\n[[server",
        "text = \"x\"\n\n[[server",
        "5:8",
        "planted nowhere",
    );
    refused(
        "canary = \"secret\"",
        "canary = \"secrets\"",
        "23:10",
        "no canary has this name",
    );
    refused("canary = \"secret\"", "text = \"x\"", "5:8", "looked for nowhere");
    refused(
        "canary = \"secret\"",
        "canary = \"secret\"\nanything = true",
        "20:1",
        "looks for two things",
    );
    refused("tool = \"send\"", "tool = \"sent\"", "16:8", "did you mean \"send\"?");
    refused(
        "address = \"{{address.attacker}}\"\n",
        "",
        "14:1",
        "`step.address` is missing",
    );
    refused("address = ", "adress = ", "17:1", "did you mean `address`?");
    refused("step = \"send\"", "step = \"sent\"", "22:8", "did you mean \"send\"?");
    refused("server.attacker", "server.attackr", "24:10", "nothing can arrive there");
    refused("server.attacker", "file:/etc/passwd", "24:10", "own directories");
    refused("never = [\"server.attacker\"]", "never = []", "24:9", "looks nowhere");
    refused("never = [\"server.attacker\"]", "", "20:1", "says not what must hold");
    refused("never", "arrives", "1:1", "can fail");
    refused("[[step]]", "[env]\nHOME = \"/x\"\n\n[[step]]", "15:1", "cannot be set");
    refused(
        "[[check]]",
        "[[step]]\nname = \"send\"\ntool = \"say\"\ntext = \"x\"\n\n[[check]]",
        "21:8",
        "two tables of `step` have this name",
    );
    refused(
        "[[step]]",
        "[[step]]\nname = \"first\"\ntool = \"say\"\ntext = \"x\"\n\n[[step]]",
        "15:8",
        "only the last step",
    );
}
