//! Makes a table of `protected.toml`: every session starts with it, and reading the file would take a twentieth of that time.

use serde::Deserialize;
use std::fmt::Write;
use std::path::Path;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    protect: Vec<Entry>,
    git: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    paths: Vec<String>,
    #[serde(default)]
    except: Vec<String>,
    /// By the name of a variant of `protect::Kind`, in small letters with hyphens.
    kind: Option<String>,
    reason: String,
}

fn main() {
    const SOURCE: &str = "protected.toml";
    println!("cargo::rerun-if-changed={SOURCE}");
    let text = std::fs::read_to_string(SOURCE).expect("policies/protected.toml can be read");
    let file: File = match toml::from_str(&text) {
        Ok(file) => file,
        Err(e) => panic!("policies/{SOURCE}: {e}"),
    };
    assert_eq!(file.version, 1, "policies/{SOURCE} is of version 1");
    let table = format!(
        "static PROTECT: &[Entry] = &[{}];\nstatic GIT: &[Entry] = &[{}];\n",
        entries(&file.protect),
        entries(&file.git)
    );
    let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(Path::new(&out).join("protected.rs"), table).expect("OUT_DIR can be written");
}

fn entries(of: &[Entry]) -> String {
    let mut text = String::new();
    for entry in of {
        let kind = match &entry.kind {
            Some(kind) => format!("Some(Kind::{})", variant(kind)),
            None => "None".to_owned(),
        };
        // Writing to a string never fails.
        let _ = writeln!(
            text,
            "Entry {{ name: {:?}, paths: &{:?}, except: &{:?}, kind: {kind}, reason: {:?} }},",
            entry.name, entry.paths, entry.except, entry.reason
        );
    }
    text
}

/// `git-config` is `GitConfig`; one that does not exist does not compile.
fn variant(kind: &str) -> String {
    let word = |word: &str| word[..1].to_uppercase() + &word[1..];
    kind.split('-').map(word).collect()
}
