//! Which directories of software outside the system's own a session sees: found from PATH, from the variables that version
//! managers set, and from the program that is to run. Only what holds programs and packages, never what holds settings or
//! credentials (`~/.cargo/credentials.toml`, `~/.gem/credentials`, `~/.config`).

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Where to look. All paths absolute.
pub struct Search<'a> {
    /// HOME, without links in it.
    pub home: &'a Path,
    /// The environment that the session's command will have, or the person's own.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// Never shown, nor anything that contains them: picktwo's state, configuration and policy.
    pub hidden: &'a [PathBuf],
}

/// Below HOME: where a version manager or package manager lives, and what of it is shown.
const KNOWN: &[(&str, &[&str])] = &[
    (".asdf", &[".asdf"]),
    (".bun", &[".bun/bin", ".bun/install"]),
    (".cabal", &[".cabal/bin", ".cabal/packages", ".cabal/store"]),
    (".cargo", &[".cargo/bin", ".cargo/registry", ".cargo/git", ".rustup"]),
    (".claude/local", &[".claude/local"]),
    (".composer", &[".composer/vendor"]),
    (".deno", &[".deno/bin"]),
    (".dotnet", &[".dotnet"]),
    (".elan", &[".elan"]),
    (".foundry", &[".foundry/bin", ".foundry/versions"]),
    (".fnm", &[".fnm"]),
    (".gem", &[".gem/ruby"]),
    (".ghcup", &[".ghcup/bin", ".ghcup/ghc", ".ghcup/hls", ".ghcup/share"]),
    (".goenv", &[".goenv"]),
    (".jenv", &[".jenv"]),
    (
        ".juliaup",
        &[".juliaup", ".julia/juliaup", ".julia/packages", ".julia/artifacts"],
    ),
    (".krew", &[".krew/bin", ".krew/store"]),
    (".linuxbrew", &[".linuxbrew"]),
    (".local/pipx", &[".local/pipx"]),
    (".local/share/claude", &[".local/share/claude"]),
    (".local/share/cursor-agent", &[".local/share/cursor-agent"]),
    (".local/share/fnm", &[".local/share/fnm"]),
    (
        ".local/share/mise",
        &[".local/share/mise/installs", ".local/share/mise/shims"],
    ),
    (".local/share/pipx", &[".local/share/pipx"]),
    (".local/share/pnpm", &[".local/share/pnpm"]),
    (
        ".local/share/pypoetry",
        &[".local/share/pypoetry/venv", ".local/share/pypoetry/python"],
    ),
    (".local/share/uv", &[".local/share/uv/python", ".local/share/uv/tools"]),
    (".nodenv", &[".nodenv"]),
    (".npm-global", &[".npm-global"]),
    (".npm-packages", &[".npm-packages"]),
    (".nvm", &[".nvm"]),
    (".opam", &[".opam"]),
    (".opencode", &[".opencode/bin"]),
    (".pyenv", &[".pyenv"]),
    (".rbenv", &[".rbenv"]),
    (".rustup", &[".rustup"]),
    (".rvm", &[".rvm"]),
    (".sdkman", &[".sdkman/candidates", ".sdkman/bin", ".sdkman/libexec"]),
    (".swiftly", &[".swiftly"]),
    (".volta", &[".volta"]),
    (".yarn", &[".yarn/bin"]),
    ("anaconda3", &["anaconda3"]),
    ("go", &["go/bin", "go/pkg/mod"]),
    ("mambaforge", &["mambaforge"]),
    ("miniconda3", &["miniconda3"]),
    ("miniforge3", &["miniforge3"]),
];

/// Variables that name such a place, and what below it is shown.
const VARIABLES: &[(&str, &[&str])] = &[
    ("ASDF_DATA_DIR", &[""]),
    ("BUN_INSTALL", &["bin", "install"]),
    ("CARGO_HOME", &["bin", "registry", "git"]),
    ("CONDA_PREFIX", &[""]),
    ("GOENV_ROOT", &[""]),
    ("GOPATH", &["bin", "pkg/mod"]),
    ("GOROOT", &[""]),
    ("HOMEBREW_PREFIX", &[""]),
    ("JAVA_HOME", &[""]),
    ("MISE_DATA_DIR", &["installs", "shims"]),
    ("NODENV_ROOT", &[""]),
    ("NVM_DIR", &[""]),
    ("PNPM_HOME", &[""]),
    ("PYENV_ROOT", &[""]),
    ("RBENV_ROOT", &[""]),
    ("RUSTUP_HOME", &[""]),
    ("SDKMAN_DIR", &["candidates"]),
    ("VIRTUAL_ENV", &[""]),
    ("VOLTA_HOME", &[""]),
];

/// Shown in every session, or made new for it (`/var/tmp` is the session's own `/tmp`).
const ELSEWHERE: &[&str] = &[
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix", "/gnu", "/proc", "/sys", "/dev",
    "/etc", "/run", "/boot", "/var/tmp",
];
/// How many entries of a directory of links are followed.
const LINKS_MAX: usize = 512;

/// The directories (and single files) to show, sorted, none below another.
pub fn discover(search: &Search<'_>) -> Vec<PathBuf> {
    let mut found = Found {
        search,
        paths: BTreeSet::new(),
    };
    for (name, below) in VARIABLES {
        if let Some(value) = (search.variable)(name) {
            for part in *below {
                found.add(&Path::new(&value).join(part));
            }
        }
    }
    for entry in path_entries(search) {
        found.path_entry(&entry);
    }
    found.finish()
}

/// What must be visible beside [`discover`]'s answer so that `program` can run: a name that PATH finds, or a path.
pub fn for_program(program: &OsStr, search: &Search<'_>) -> Vec<PathBuf> {
    let mut found = Found {
        search,
        paths: BTreeSet::new(),
    };
    let candidates: Vec<PathBuf> = if Path::new(program).components().count() > 1 {
        vec![program.into()]
    } else {
        path_entries(search).iter().map(|dir| dir.join(program)).collect()
    };
    if let Some(path) = candidates.into_iter().find(|path| path.is_file()) {
        // Each link of the chain has to be visible, and what the last one names.
        let mut at = path.clone();
        for _ in 0..40 {
            if let Some(parent) = at.parent().and_then(|p| p.canonicalize().ok()) {
                found.package(&parent.join(at.file_name().unwrap_or_default()));
            }
            let Ok(target) = fs::read_link(&at) else { break };
            at = at.parent().unwrap_or(Path::new("/")).join(target);
        }
        if let Ok(target) = path.canonicalize() {
            found.package(&target);
        }
    }
    found.finish()
}

fn path_entries(search: &Search<'_>) -> Vec<PathBuf> {
    let path = (search.variable)("PATH").unwrap_or_default();
    std::env::split_paths(&path).filter(|p| p.is_absolute()).collect()
}

struct Found<'a> {
    search: &'a Search<'a>,
    paths: BTreeSet<PathBuf>,
}

impl Found<'_> {
    /// Adds a path if it exists, is not shown anyway, and shows nothing that must stay hidden.
    fn add(&mut self, path: &Path) {
        let Ok(path) = path.canonicalize() else { return };
        let broad = path.components().count() <= 2 && path.starts_with("/home");
        if broad
            || path == Path::new("/")
            || self.search.home.starts_with(&path)
            || ELSEWHERE.iter().any(|e| path.starts_with(e))
        {
            return;
        }
        if matches!(
            path.to_str(),
            Some("/tmp" | "/var" | "/var/tmp" | "/srv" | "/mnt" | "/media")
        ) {
            return;
        }
        if self
            .search
            .hidden
            .iter()
            .any(|h| h.starts_with(&path) || path.starts_with(h))
        {
            return;
        }
        let readable = if path.is_dir() {
            fs::read_dir(&path).is_ok()
        } else {
            fs::File::open(&path).is_ok()
        };
        if readable {
            self.paths.insert(path);
        }
    }

    /// What of HOME is shown for a place of a known manager. `false`: not one of them.
    fn known(&mut self, path: &Path) -> bool {
        let Ok(rest) = path.strip_prefix(self.search.home) else {
            return false;
        };
        let Some((_, shown)) = KNOWN.iter().find(|(place, _)| rest.starts_with(place)) else {
            return false;
        };
        for part in *shown {
            self.add(&self.search.home.join(part));
        }
        true
    }

    fn path_entry(&mut self, entry: &Path) {
        let Ok(dir) = entry.canonicalize() else { return };
        // The name as it is in PATH must work inside as well as what it leads to.
        for dir in [entry, &dir] {
            if self.known(dir) || ELSEWHERE.iter().any(|e| dir.starts_with(e)) {
                continue;
            }
            if dir.parent().is_some_and(|p| p.join("pyvenv.cfg").is_file()) {
                self.add(dir.parent().unwrap_or(dir));
            }
            // /srv/tool/bin belongs to /srv/tool; below HOME a parent may hold anything.
            let of_a_package = dir.file_name() == Some(OsStr::new("bin"))
                && dir.components().count() > 3
                && !dir.starts_with(self.search.home);
            self.add(if of_a_package { dir.parent().unwrap_or(dir) } else { dir });
        }
        // A directory of the system's has thousands of entries, which lead to the system's own programs.
        if ELSEWHERE.iter().any(|e| dir.starts_with(e)) {
            return;
        }
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten().take(LINKS_MAX) {
            if entry.file_type().is_ok_and(|t| t.is_symlink())
                && let Ok(target) = entry.path().canonicalize()
                && executable(&target)
            {
                self.package(&target);
            }
        }
    }

    /// Shows the package that a program belongs to: its manager's place, its node_modules, its directory, or only the file.
    fn package(&mut self, program: &Path) {
        let covered =
            self.paths.iter().any(|p| program.starts_with(p)) || ELSEWHERE.iter().any(|e| program.starts_with(e));
        if covered || self.known(program) {
            return;
        }
        let modules = program
            .components()
            .position(|c| c == Component::Normal(OsStr::new("node_modules")));
        if let Some(position) = modules {
            return self.add(&program.components().take(position + 1).collect::<PathBuf>());
        }
        let Some(parent) = program.parent() else { return };
        let depth = parent
            .strip_prefix(self.search.home)
            .unwrap_or(parent)
            .components()
            .count();
        self.add(if depth > 2 { parent } else { program });
    }

    fn finish(self) -> Vec<PathBuf> {
        let mut result: Vec<PathBuf> = Vec::new();
        for path in self.paths {
            if !result.iter().any(|parent| path.starts_with(parent)) {
                result.push(path);
            }
        }
        result
    }
}

fn executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::fs::symlink;

    /// A home of its own, removed at the end.
    struct Home(PathBuf);

    impl Home {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir()
                .join(format!("picktwo-tools-{name}-{}", std::process::id()))
                .join("home/u");
            fs::create_dir_all(&path).unwrap();
            Self(path.canonicalize().unwrap())
        }

        fn dir(&self, path: &str) -> PathBuf {
            let path = self.0.join(path);
            fs::create_dir_all(&path).unwrap();
            path
        }

        fn file(&self, path: &str) -> PathBuf {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            path
        }

        fn program(&self, path: &str) -> PathBuf {
            let path = self.file(path);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path
        }

        fn relative(&self, paths: Vec<PathBuf>) -> Vec<String> {
            paths
                .iter()
                .map(|p| p.strip_prefix(&self.0).unwrap_or(p).display().to_string())
                .collect()
        }
    }

    impl Drop for Home {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(self.0.parent().and_then(Path::parent).unwrap());
        }
    }

    fn search<'a>(home: &'a Home, variable: &'a dyn Fn(&str) -> Option<OsString>, hidden: &'a [PathBuf]) -> Search<'a> {
        Search {
            home: &home.0,
            variable,
            hidden,
        }
    }

    #[test]
    fn cargo_shows_packages_but_no_credentials() {
        let home = Home::new("cargo");
        let path: OsString = home.dir(".cargo/bin").into();
        home.dir(".cargo/registry");
        home.dir(".rustup/toolchains");
        home.file(".cargo/credentials.toml");
        let variable = |name: &str| (name == "PATH").then(|| path.clone());
        let found = discover(&search(&home, &variable, &[]));
        assert_eq!(home.relative(found), [".cargo/bin", ".cargo/registry", ".rustup"]);
    }

    #[test]
    fn path_entries_that_are_home_or_hidden_are_not_shown() {
        let home = Home::new("broad");
        let state = home.dir(".local/state/picktwo");
        let path = std::env::join_paths([
            home.0.clone(),
            home.0.parent().unwrap().into(),
            home.dir(".local"),
            state.join("bin"),
            "/usr/bin".into(),
            "/tmp".into(),
            "relative".into(),
        ])
        .unwrap();
        home.dir(".local/state/picktwo/bin");
        let variable = |name: &str| (name == "PATH").then(|| path.clone());
        let found = discover(&search(&home, &variable, &[state]));
        assert_eq!(home.relative(found), Vec::<String>::new());
    }

    #[test]
    fn links_in_a_path_entry_show_what_they_lead_to() {
        let home = Home::new("links");
        let bin = home.dir(".local/bin");
        symlink(home.program(".local/share/claude/versions/2.1"), bin.join("claude")).unwrap();
        symlink(home.program(".npm/lib/node_modules/@x/y/cli.js"), bin.join("y")).unwrap();
        symlink(home.file("notes.txt"), bin.join("odd")).unwrap();
        let path: OsString = bin.into();
        let variable = |name: &str| (name == "PATH").then(|| path.clone());
        let found = discover(&search(&home, &variable, &[]));
        assert_eq!(
            home.relative(found),
            [".local/bin", ".local/share/claude", ".npm/lib/node_modules"]
        );
    }

    #[test]
    fn a_program_by_path_shows_its_package() {
        let home = Home::new("program");
        let program = home.file("src/tool/target/release/tool");
        let variable = |_: &str| None;
        let found = for_program(program.as_os_str(), &search(&home, &variable, &[]));
        assert_eq!(home.relative(found), ["src/tool/target/release"]);
    }

    #[test]
    fn a_virtual_environment_is_shown_whole() {
        let home = Home::new("venv");
        let bin = home.dir("envs/a/bin");
        home.file("envs/a/pyvenv.cfg");
        let path: OsString = bin.into();
        let variable = |name: &str| (name == "PATH").then(|| path.clone());
        assert_eq!(home.relative(discover(&search(&home, &variable, &[]))), ["envs/a"]);
    }
}
