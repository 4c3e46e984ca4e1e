//! Real work in edit mode leaves the same tree as without picktwo: the same script, in the same directory, run once bare and once in
//! a session; output, exit code and every file are compared.

use picktwo_tests::{report::not_run, run, scene::Scene, tree::Tree};
use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

const LIMIT: Duration = Duration::from_secs(150);
/// Set by the long suite, which takes minutes.
const LONG: &str = "PICKTWO_LONG";

struct Work {
    name: &'static str,
    program: &'static str,
    script: &'static str,
    argument: String,
    needs: &'static [&'static str],
    /// Files that differ between two runs without picktwo, too.
    ignored: fn(&Path) -> bool,
    /// Added in front of PATH.
    path: Option<PathBuf>,
}

impl Default for Work {
    fn default() -> Self {
        Self {
            name: "",
            program: "/bin/sh",
            script: "",
            argument: String::new(),
            needs: &[],
            ignored: |_| false,
            path: None,
        }
    }
}

impl Work {
    fn compare(self) {
        let scene = Scene::new(env!("CARGO_BIN_EXE_picktwo")).unwrap();
        for need in self.needs {
            let found = run::run(
                self.on_path(scene.command("sh"), ["-c", &format!("{need} --version")]),
                LIMIT,
            )
            .unwrap();
            if found.code() != 0 {
                return not_run(
                    &format!("fidelity::{}", self.name),
                    &format!("no `{need}` for the test's user"),
                );
            }
        }
        let words = [self.program, "-c", self.script, self.name, &self.argument];
        let started = SystemTime::now() - Duration::from_secs(60);

        let [program, arguments @ ..] = &words;
        let bare = run::run(self.on_path(scene.command(program), arguments), LIMIT).unwrap();
        assert_eq!(bare.code(), 0, "without picktwo: {}", bare.all());
        let expected = self.read(&scene.work(), started);
        assert!(!expected.is_empty(), "the script left nothing to compare");
        // The same path again, since scripts write it into files.
        fs::rename(scene.work(), scene.root().join("bare")).unwrap();
        scene.directories(&scene.work()).unwrap();

        let command = self.on_path(scene.picktwo(["run", "--edit", "--"]), words);
        let inside = run::run(command, LIMIT).unwrap();
        assert_eq!(inside.code(), 0, "{}", inside.all());
        assert_eq!(inside.stdout, bare.stdout, "{}", inside.all());
        let got = self.read(&scene.work(), started);
        assert_eq!(expected.differences(&got), Vec::<String>::new());
    }

    fn on_path(
        &self,
        mut command: std::process::Command,
        words: impl IntoIterator<Item = impl AsRef<std::ffi::OsStr>>,
    ) -> std::process::Command {
        command.args(words);
        if let Some(first) = &self.path {
            let mut path = OsString::from(first);
            path.push(":/usr/local/bin:/usr/bin:/bin");
            command.env("PATH", path);
        }
        command
    }

    fn read(&self, root: &Path, started: SystemTime) -> Tree {
        Tree::with_times_before(root, started).unwrap().without(self.ignored)
    }
}

/// git's index holds inode numbers and times; what it says is compared by the scripts.
fn is_index(path: &Path) -> bool {
    path.ends_with("index") && path.components().any(|c| c.as_os_str() == ".git")
}

fn git(files: &str) {
    Work {
        name: "git",
        script: include_str!("work/git.sh"),
        argument: files.to_owned(),
        needs: &["git"],
        ignored: is_index,
        ..Work::default()
    }
    .compare();
}

#[test]
fn git_on_300_files() {
    git("300");
}

#[test]
fn git_on_3000_files() {
    if std::env::var_os(LONG).is_none() {
        return not_run(
            "fidelity::git_on_3000_files",
            &format!("part of the long suite ({LONG}=1)"),
        );
    }
    git("3000");
}

#[test]
fn shell_tools() {
    Work {
        name: "tools",
        script: include_str!("work/tools.sh"),
        ..Work::default()
    }
    .compare();
}

#[test]
fn file_calls() {
    Work {
        name: "files",
        program: "/usr/bin/python3",
        script: include_str!("work/files.py"),
        needs: &["/usr/bin/python3"],
        ..Work::default()
    }
    .compare();
}

#[test]
fn make_and_gcc() {
    Work {
        name: "build",
        script: include_str!("work/build.sh"),
        needs: &["make", "gcc", "ar"],
        ..Work::default()
    }
    .compare();
}

fn venv(option: &str) {
    Work {
        name: "venv",
        script: include_str!("work/venv.sh"),
        argument: option.to_owned(),
        needs: &["/usr/bin/python3 -c 'import ensurepip' && /usr/bin/python3"],
        // What pip compiles holds the times of its sources; that it is there is compared by the script.
        ignored: |path| path.starts_with("env") && path.extension().is_some_and(|e| e == "pyc"),
        ..Work::default()
    }
    .compare();
}

#[test]
fn virtual_environment() {
    venv("--without-pip");
}

#[test]
fn virtual_environment_with_pip() {
    if std::env::var_os(LONG).is_none() {
        return not_run(
            "fidelity::virtual_environment_with_pip",
            &format!("part of the long suite ({LONG}=1)"),
        );
    }
    venv("--symlinks");
}

#[test]
fn npm_install() {
    Work {
        name: "npm",
        script: include_str!("work/npm.sh"),
        needs: &["npm", "node"],
        ..Work::default()
    }
    .compare();
}

#[test]
fn sqlite_with_four_writers() {
    Work {
        name: "sqlite",
        script: include_str!("work/sqlite.sh"),
        needs: &["sqlite3"],
        ..Work::default()
    }
    .compare();
}

#[test]
fn cargo_new_build_test() {
    // The toolchain itself, not a rustup proxy: that one would look for its settings in the real home.
    let path = std::env::var_os("CARGO")
        .map(PathBuf::from)
        .and_then(|c| c.parent().map(Path::to_path_buf));
    Work {
        name: "cargo",
        script: include_str!("work/cargo.sh"),
        needs: &["cargo", "rustc", "cc"],
        // Names and content of a target directory hold hashes of times; the script removes the whole of it but what it compares.
        path,
        ignored: is_index,
        ..Work::default()
    }
    .compare();
}
