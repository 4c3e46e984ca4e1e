//! Whole tools in edit mode, in pairs with the same tool bare, in a fresh directory each time.

use crate::measure::{Bench, find, pair_with};
use std::io::Result;
use std::path::Path;
use std::process::Command;

/// A tool: its name, what it needs, the shell line that is measured, the line that prepares the directory once, and rounds.
struct Tool {
    name: &'static str,
    needs: &'static [&'static str],
    prepare: &'static str,
    line: &'static str,
    rounds: usize,
}

const TOOLS: &[Tool] = &[
    Tool {
        name: "tar x of 20,000 tiny files",
        needs: &["tar"],
        prepare: "mkdir t && cd t && for d in $(seq 200); do mkdir d$d; for f in $(seq 100); do echo $f > d$d/f$f; done; done; cd .. && tar cf t.tar t && rm -r t",
        line: "tar xf t.tar",
        rounds: 5,
    },
    Tool {
        name: "git checkout of 6,000 files",
        needs: &["git"],
        prepare: "git init -q . && git config user.name b && git config user.email b@example.org && for d in $(seq 60); do mkdir d$d; for f in $(seq 100); do echo $f > d$d/f$f; done; done; git add . && git commit -qm one && git checkout -q --orphan empty && git rm -rqf . && git commit -qm empty --allow-empty",
        line: "git checkout -q master 2>/dev/null || git checkout -q main; git checkout -q empty",
        rounds: 5,
    },
    Tool {
        name: "make of 20 C files",
        needs: &["make", "gcc"],
        prepare: "for i in $(seq 20); do echo \"int f$i(int x){return x+$i;}\" > f$i.c; done; printf 'OBJ=%s\\nall: $(OBJ)\\n' \"$(for i in $(seq 20); do printf 'f%s.o ' $i; done)\" > Makefile",
        line: "make -s -j2",
        rounds: 3,
    },
    Tool {
        name: "python3 -m venv, compileall",
        needs: &["python3"],
        prepare: "true",
        line: "python3 -m venv --without-pip v && python3 -m compileall -q v",
        rounds: 3,
    },
    Tool {
        name: "cargo build of a package",
        needs: &["cargo"],
        prepare: "cargo init -q --vcs none --name hello .",
        line: "cargo build -q --offline",
        rounds: 3,
    },
    Tool {
        name: "npm install of 30 local packages",
        needs: &["npm"],
        prepare: "mkdir -p src; deps=; for i in $(seq 30); do mkdir src/p$i; echo \"{\\\"name\\\":\\\"p$i\\\",\\\"version\\\":\\\"1.0.0\\\"}\" > src/p$i/package.json; for f in $(seq 20); do echo \"exports.x=$f\" > src/p$i/f$f.js; done; (cd src/p$i && npm pack -s --pack-destination .. >/dev/null); deps=\"$deps,\\\"p$i\\\":\\\"file:src/p$i-1.0.0.tgz\\\"\"; done; echo \"{\\\"name\\\":\\\"a\\\",\\\"version\\\":\\\"1.0.0\\\",\\\"dependencies\\\":{${deps#,}}}\" > package.json",
        line: "npm install --offline --no-audit --no-fund -s",
        rounds: 3,
    },
];

/// Prints all of them.
pub(crate) fn all(bench: &Bench) -> Result<()> {
    println!("\ntools in edit mode / bare");
    for tool in TOOLS {
        if let Some(missing) = tool.needs.iter().find(|n| find(n).is_none()) {
            println!("  not run: {} ({missing} is not installed)", tool.name);
            continue;
        }
        let template = bench.dir().join("template");
        let _ = std::fs::remove_dir_all(&template);
        std::fs::create_dir_all(&template)?;
        if !shell(tool.prepare, &template).status()?.success() {
            println!("  not run: {} (its preparation failed)", tool.name);
            continue;
        }
        let prepare = || {
            let _ = std::fs::remove_dir_all(bench.work());
            let status = Command::new("cp").arg("-a").arg(&template).arg(bench.work()).status()?;
            if status.success() {
                Ok(())
            } else {
                Err(std::io::Error::other("cp failed"))
            }
        };
        let session = || bench.session(&["--edit"], "/bin/sh", &["-c", tool.line]);
        let bare = || bench.bare("/bin/sh", &["-c", tool.line]);
        if let Err(e) = pair_with(tool.name, tool.rounds, session, bare, prepare) {
            println!("  not measured: {}: {e}", tool.name);
        }
    }
    Ok(())
}

fn shell(line: &str, dir: &Path) -> Command {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", line])
        .current_dir(dir)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    command
}
