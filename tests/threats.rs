//! docs/THREATS.md and what it names: every class of escapes has a test that exists, and every attempt says what it is for.

use picktwo_tests::{run, scene::Scene};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

const LIMIT: Duration = Duration::from_secs(30);

/// Classes that no test shows, and that say why in their row. Nothing is added here in passing.
const WITHOUT: [&str; 6] = ["F12", "F14", "G19", "G20", "G22", "G23"];

/// How many classes each section has.
const SECTIONS: [(char, usize); 7] = [
    ('A', 20),
    ('B', 19),
    ('C', 28),
    ('D', 18),
    ('E', 25),
    ('F', 13),
    ('G', 23),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn threats() -> String {
    fs::read_to_string(root().join("docs/THREATS.md")).unwrap()
}

/// The cells of a table's row.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.strip_prefix("| ")?.strip_suffix(" |")?;
    Some(inner.split(" | ").map(str::trim).collect())
}

/// What `text` says in code marks.
fn marked(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn sources(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            sources(&path, into);
        } else if name.ends_with(".rs") {
            into.push(path);
        }
    }
}

/// The functions that the test runner runs.
fn tests() -> BTreeSet<String> {
    let mut files = Vec::new();
    sources(root(), &mut files);
    let mut names = BTreeSet::new();
    for path in files {
        let code = fs::read_to_string(path).unwrap();
        for part in code.split("#[test]").skip(1) {
            let after = part.split_once("fn ").map_or("", |(_, after)| after);
            names.extend(after.split_once('(').map(|(name, _)| name.to_owned()));
        }
        // Tests that need a process each are listed by hand.
        for kind in ["(&str, fn())", "Test"] {
            for table in code.split(&format!("const TESTS: &[{kind}] = &[")).skip(1) {
                let table = table.split_once("];").map_or("", |(table, _)| table);
                let listed = table.split('"').skip(1).step_by(2);
                names.extend(listed.filter_map(|name| Some(name.rsplit("::").next()?.to_owned())));
            }
        }
    }
    names
}

/// The attempts, with the classes that each says it belongs to.
fn attempts() -> BTreeMap<String, Vec<String>> {
    let scene = Scene::new(env!("CARGO_BIN_EXE_picktwo")).unwrap();
    let finished = run::run(scene.picktwo(["verify", "--list", "--json"]), LIMIT).unwrap();
    let list: Value = serde_json::from_str(&finished.stdout).unwrap_or_else(|e| panic!("{e}: {}", finished.all()));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    list.as_array()
        .unwrap()
        .iter()
        .map(|p| {
            (
                text(&p["id"]),
                p["threats"].as_array().unwrap().iter().map(text).collect(),
            )
        })
        .collect()
}

#[test]
fn every_class_has_a_test_that_exists() {
    let (text, tests, attempts) = (threats(), tests(), attempts());
    let mut classes = BTreeSet::new();
    for row in text
        .lines()
        .filter_map(cells)
        .filter(|row| row.len() == 6 && row[0].len() == 3)
    {
        let (class, last) = (row[0], row[5]);
        assert!(classes.insert(class), "{class} twice");
        for cell in &row[1..] {
            assert!(!cell.is_empty(), "{class} has an empty cell");
        }
        if WITHOUT.contains(&class) {
            assert!(
                last.starts_with("none: "),
                "{class} has a test now: take it off the list"
            );
            continue;
        }
        assert!(marked(last).next().is_some(), "{class} has no test");
        for name in marked(last) {
            match name.split_once('.') {
                Some(_) => assert!(
                    attempts.get(name).is_some_and(|of| of.iter().any(|id| id == class)),
                    "`{name}` is named for {class} and is no attempt of that class"
                ),
                None => assert!(tests.contains(name), "`{name}` is named for {class} and is no test"),
            }
        }
    }
    for (section, count) in SECTIONS {
        let found = classes.iter().filter(|class| class.starts_with(section)).count();
        assert_eq!(found, count, "section {section}");
    }
    for (id, of) in &attempts {
        for class in of {
            assert!(
                classes.contains(class.as_str()),
                "{id} names {class}, which is no class"
            );
        }
    }
}

#[test]
fn the_attacks_name_only_what_exists() {
    let (text, tests, attempts) = (threats(), tests(), attempts());
    let (mut attacks, mut named) = (BTreeSet::new(), 0);
    for row in text
        .lines()
        .filter_map(cells)
        .filter(|row| row.len() == 3 && row[0] != "attack")
    {
        for name in marked(row[2]) {
            named += 1;
            let found = match name.split_once('.') {
                Some(_) => attempts.contains_key(name),
                None => tests.contains(name),
            };
            assert!(found, "`{name}` is named in docs/THREATS.md and does not exist");
        }
        assert!(
            row[2].contains('`') || row[2].starts_with("none"),
            "no test: {}",
            row[0]
        );
        attacks.insert(row[0]);
    }
    assert!(
        attacks.len() >= 60 && named >= 100,
        "{} attacks, {named} tests",
        attacks.len()
    );
}

#[test]
fn every_attempt_is_explained() {
    let attempts = attempts();
    assert!(attempts.len() >= 250, "{}", attempts.len());
    let scene = Scene::new(env!("CARGO_BIN_EXE_picktwo")).unwrap();
    for (id, of) in attempts.iter().step_by(9) {
        let said = run::run(scene.picktwo(["verify", "--explain", id]), LIMIT).unwrap();
        assert_eq!(said.code(), 0, "{}", said.all());
        assert!(said.stdout.contains("Tried: a process "), "{}", said.all());
        for class in of {
            assert!(
                said.stdout.contains(&format!("\n{class} (docs/THREATS.md): ")),
                "{}",
                said.all()
            );
        }
    }
    let unknown = run::run(scene.picktwo(["verify", "--explain", "read.nothing"]), LIMIT).unwrap();
    assert_eq!(unknown.code(), 125);
    assert!(unknown.stderr.contains("read.open"), "{}", unknown.all());
}
