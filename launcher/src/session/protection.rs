//! What is protected in this session beyond the names: where links at protected places lead, and what may not be a root at all.

use super::start::StartError;
use picktwo_confine::Errno;
use picktwo_inside::files;
use picktwo_policies::gitconfig::{self, Named};
use picktwo_policies::protect::{Protected, is_git_directory};
use std::collections::{BTreeSet, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the roots are searched before the first change; what is nearest to a root is looked at first.
const LIMIT: Duration = Duration::from_secs(2);
/// Far more than hooks and settings lead to.
const MAX_PLACES: usize = 4000;
/// As the kernel follows them.
const MAX_LINKS: usize = 40;
/// Configuration files that include each other.
const MAX_INCLUDES: usize = 8;

/// The name that makes a directory unfit to be a root: beneath it, protected names would not be recognised as such.
fn protected_component(protected: &Protected, path: &Path) -> Option<PathBuf> {
    let mut at = PathBuf::new();
    for part in path.components() {
        at.push(part);
        let name = part.as_os_str().as_bytes();
        if protected.inner_name(name) || protected.check(&[name]).is_some() {
            return Some(at);
        }
        // A bare repository, or what lies in one: its hooks and its configuration would have other names from there.
        if is_git_directory(|mark| at.join(mark).symlink_metadata().is_ok()) {
            return Some(at);
        }
    }
    None
}

/// The protected names of a session: the built-in ones and those of the policy. What links at such places and git's configuration lead
/// to is added by [`finder`]: a hook that is a link to a script of the workspace runs that script.
///
/// # Errors
/// A root that lies in a protected place; a pattern of the policy that is none.
pub(super) fn of(roots: &[PathBuf], extra: &[String]) -> Result<Protected, StartError> {
    let wrong = |e: picktwo_policies::protect::BadPattern| StartError::Policy(e.to_string());
    let names = Protected::builtin();
    if let Some(place) = roots.iter().find_map(|root| protected_component(&names, root)) {
        return Err(StartError::ProtectedRoot(place));
    }
    names.with(extra).map_err(wrong)
}

/// What git's configuration names for the roots themselves, read while all of it can be read.
pub(super) struct Configured {
    /// Of the person and the system: holds in every repository.
    everywhere: Vec<(Named, PathBuf)>,
    /// Of the repository that a root is or lies in, with its work tree.
    here: Vec<(Named, PathBuf, PathBuf)>,
    home: Option<PathBuf>,
}

/// Reads git's configuration of the person, the system and the repositories of the roots.
pub(super) fn named(roots: &[PathBuf]) -> Configured {
    let var = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let home = var("HOME");
    let mut files = vec![PathBuf::from("/etc/gitconfig")];
    files.extend(
        var("XDG_CONFIG_HOME")
            .or_else(|| home.as_ref().map(|h| h.join(".config")))
            .map(|c| c.join("git/config")),
    );
    files.extend(home.as_ref().map(|h| h.join(".gitconfig")));
    let mut configured = Configured {
        everywhere: Vec::new(),
        here: Vec::new(),
        home,
    };
    for file in &files {
        let home = configured.home.clone();
        read_configuration(file, home.as_deref(), MAX_INCLUDES, &mut configured.everywhere);
    }
    for root in roots {
        let Some(top) = root.ancestors().find(|at| at.join(".git").symlink_metadata().is_ok()) else {
            continue;
        };
        let mut found = Vec::new();
        let home = configured.home.clone();
        for file in configurations(&top.join(".git")) {
            read_configuration(&file, home.as_deref(), MAX_INCLUDES, &mut found);
        }
        configured
            .here
            .extend(found.into_iter().map(|(named, base)| (named, base, top.to_path_buf())));
    }
    configured
}

/// The configuration files of a git directory, or of that which a gitfile names.
fn configurations(git: &Path) -> Vec<PathBuf> {
    let line = |path: &Path, prefix: &str| {
        let text = read_small(path)?;
        let text = text.strip_prefix(prefix.as_bytes())?.trim_ascii();
        Some(path.parent()?.join(OsStr::from_bytes(text)))
    };
    let directory = line(git, "gitdir:").unwrap_or_else(|| git.to_path_buf());
    let common = line(&directory.join("commondir"), "").unwrap_or_else(|| directory.clone());
    vec![
        common.join("config"),
        common.join("config.worktree"),
        directory.join("config.worktree"),
    ]
}

fn read_small(path: &Path) -> Option<Vec<u8>> {
    // Neither a FIFO nor a device: opening one may wait.
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut content = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(gitconfig::MAX_FILE as u64 + 1)
        .read_to_end(&mut content)
        .ok()?;
    Some(content)
}

/// Reads a configuration and what it includes. `false` if one of them cannot be understood.
fn read_configuration(file: &Path, home: Option<&Path>, left: usize, into: &mut Vec<(Named, PathBuf)>) -> bool {
    let (Some(base), Some(content)) = (file.parent(), read_small(file)) else {
        return true;
    };
    let Some(found) = gitconfig::named(&content) else {
        return false;
    };
    let mut understood = true;
    for named in found {
        if let Named::Include(path) = &named
            && left > 0
        {
            understood &= read_configuration(&place(path, base, home), home, left - 1, into);
        }
        into.push((named, base.to_path_buf()));
    }
    understood
}

/// A path of a configuration, with `~/` for the home directory.
fn place(path: &[u8], base: &Path, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix(b"~/"), home) {
        (Some(rest), Some(home)) => home.join(OsStr::from_bytes(rest)),
        _ => base.join(OsStr::from_bytes(path)),
    }
}

/// Finds what links at protected places and git's configuration lead to, everywhere beneath the roots. What cannot be looked at is told.
pub(super) fn finder(roots: Vec<PathBuf>, configured: Configured, tell: files::Sink) -> files::Finder {
    Box::new(move |names| {
        let (found, unseen) = find(&roots, &configured, &names, Instant::now() + LIMIT);
        if let Some(path) = unseen {
            tell(files::Event {
                pid: 0,
                call: "protect",
                path,
                refused: Some(Errno::EACCES),
                rule: Some("not looked at for links and git's configuration: what they lead to is unprotected".into()),
                suppressed: 0,
            });
        }
        names.with_places(found)
    })
}

/// The same at once, for what is mounted when the session starts.
pub(super) fn completed(roots: &[PathBuf], names: Protected) -> Protected {
    let (found, unseen) = find(roots, &named(roots), &names, Instant::now() + LIMIT);
    if let Some(path) = unseen {
        eprintln!(
            "picktwo: {} was not looked at for links and git's configuration: what they lead to is unprotected",
            path.display()
        );
    }
    names.with_places(found)
}

type Places = BTreeSet<Vec<Vec<u8>>>;

/// The places, and the first directory that was not looked at.
fn find(roots: &[PathBuf], configured: &Configured, names: &Protected, deadline: Instant) -> (Places, Option<PathBuf>) {
    let mut search = Search {
        roots,
        configured,
        names,
        found: Places::new(),
        waiting: roots.iter().map(|root| (root.clone(), false)).collect(),
        inside: HashSet::new(),
        unseen: None,
    };
    for (named, base, top) in &configured.here {
        search.named(named, base, top);
    }
    for root in roots {
        search.everywhere(root);
    }
    while let Some((dir, inside)) = search.waiting.pop_front() {
        if Instant::now() >= deadline || search.found.len() > MAX_PLACES {
            search.unseen = Some(dir);
            break;
        }
        search.look(&dir, inside);
    }
    (search.found, search.unseen)
}

struct Search<'a> {
    roots: &'a [PathBuf],
    configured: &'a Configured,
    names: &'a Protected,
    found: Places,
    /// Directories, and whether all that lies in one is protected.
    waiting: VecDeque<(PathBuf, bool)>,
    /// Those that were looked at as protected ones: links may lead to one again.
    inside: HashSet<PathBuf>,
    unseen: Option<PathBuf>,
}

impl Search<'_> {
    fn look(&mut self, dir: &Path, inside: bool) {
        if inside && !self.inside.insert(dir.to_path_buf()) {
            return;
        }
        let mut entries = Vec::new();
        match std::fs::read_dir(dir) {
            Ok(read) => {
                for entry in read {
                    match entry.and_then(|e| Ok((e.file_type()?, e.file_name()))) {
                        Ok(entry) => entries.push(entry),
                        Err(_) => self.unseen = Some(dir.to_path_buf()),
                    }
                }
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(_) => self.unseen = Some(dir.to_path_buf()),
        }
        let git = is_git_directory(|mark| entries.iter().any(|(_, name)| name == mark));
        let inside = inside || git;
        if git {
            let top = match dir.file_name() {
                Some(name) if name == ".git" => dir.parent().unwrap_or(dir),
                _ => dir,
            };
            self.repository(dir, top);
        }
        for (kind, name) in entries {
            let path = dir.join(&name);
            if kind.is_dir() {
                // Git's objects are no place for links that anything obeys, and there are many of them.
                if !(git && name == "objects") {
                    let inside = inside || self.is_protected(&path);
                    self.waiting.push_back((path, inside));
                }
            } else if kind.is_symlink() {
                if inside || self.names.inner_name(name.as_bytes()) || self.is_protected(&path) {
                    self.leads(&path);
                }
            } else if name == ".git" {
                self.repository(&path, dir);
            }
        }
    }

    fn beneath<'p>(&self, path: &'p Path) -> Option<Vec<&'p [u8]>> {
        let relative = self.roots.iter().find_map(|root| path.strip_prefix(root).ok())?;
        Some(relative.components().map(|c| c.as_os_str().as_bytes()).collect())
    }

    fn is_protected(&self, path: &Path) -> bool {
        self.beneath(path)
            .is_some_and(|parts| !parts.is_empty() && self.names.check(&parts).is_some())
    }

    /// Follows a path and protects every link on its way and what it leads to, whether that exists or not.
    fn leads(&mut self, path: &Path) {
        let parts = |path: &Path| -> Vec<OsString> {
            let parts = path
                .components()
                .filter(|c| !matches!(c, Component::RootDir | Component::CurDir));
            parts.map(|c| c.as_os_str().to_owned()).rev().collect()
        };
        let mut left = parts(path);
        let (mut at, mut links) = (PathBuf::from("/"), 0);
        while let Some(name) = left.pop() {
            if name == ".." {
                at.pop();
                continue;
            }
            let next = at.join(&name);
            let Ok(target) = std::fs::read_link(&next) else {
                at = next;
                continue;
            };
            self.protect(&next);
            links += 1;
            if links > MAX_LINKS {
                return;
            }
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            left.extend(parts(&target));
        }
        self.protect(&at);
        if self.beneath(&at).is_some_and(|parts| !parts.is_empty()) && at.is_dir() {
            self.waiting.push_back((at, true));
        }
    }

    fn protect(&mut self, path: &Path) {
        // Whatever is protected by its name keeps its rule: some of what lies there may be vetted.
        if self.is_protected(path) {
            return;
        }
        // A root may lie within another one: a place has a name from each.
        for root in self.roots {
            let Ok(relative) = path.strip_prefix(root) else {
                continue;
            };
            let parts: Vec<Vec<u8>> = relative
                .components()
                .map(|c| c.as_os_str().as_bytes().to_vec())
                .collect();
            if parts.is_empty() {
                // A whole root cannot be protected.
                self.unseen = Some(path.to_path_buf());
            } else {
                self.found.insert(parts);
            }
        }
    }

    fn repository(&mut self, git: &Path, top: &Path) {
        let home = self.configured.home.as_deref();
        for file in configurations(git) {
            let mut found = Vec::new();
            if !read_configuration(&file, home, MAX_INCLUDES, &mut found) {
                self.unseen = Some(file);
            }
            for (named, base) in &found {
                self.named(named, base, top);
            }
        }
        self.everywhere(top);
    }

    fn everywhere(&mut self, top: &Path) {
        let configured = self.configured;
        for (named, base) in &configured.everywhere {
            self.named(named, base, top);
        }
    }

    fn named(&mut self, named: &Named, base: &Path, top: &Path) {
        let home = self.configured.home.as_deref();
        match named {
            Named::Include(path) => self.leads(&place(path, base, home)),
            Named::Place(path) => self.leads(&place(path, top, home)),
            Named::Command(line) => {
                let words = line.split(|b| b.is_ascii_whitespace() || b"\"';()|&!".contains(b));
                for (index, word) in words.filter(|word| !word.is_empty()).enumerate() {
                    let path = place(word, top, home);
                    let (slash, first) = (word.contains(&b'/'), index == 0);
                    let absent = first && slash && !path.exists();
                    if absent || (slash || first) && path.is_file() {
                        self.leads(&path);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_a_protected_place_is_no_root() {
        let names = Protected::builtin();
        for bad in ["/home/u/p/.git", "/home/u/p/.git/modules/x", "/srv/x/.claude"] {
            assert!(protected_component(&names, Path::new(bad)).is_some(), "{bad}");
        }
        assert_eq!(protected_component(&names, Path::new("/home/u/project")), None);
    }

    #[test]
    fn what_lies_in_a_bare_repository_is_no_root() {
        let base = std::env::temp_dir().join(format!("picktwo-bare-{}", std::process::id()));
        for dir in ["r/objects", "r/refs", "r/hooks"] {
            std::fs::create_dir_all(base.join(dir)).unwrap();
        }
        std::fs::write(base.join("r/HEAD"), "ref: refs/heads/main\n").unwrap();
        let of = |place: &str| protected_component(&Protected::builtin(), &base.join(place));
        let found = (of("r"), of("r/hooks"), of(""));
        std::fs::remove_dir_all(&base).unwrap();
        assert_eq!(found, (Some(base.join("r")), Some(base.join("r")), None));
    }

    fn all_of(root: &Path) -> Protected {
        let roots = [root.to_path_buf()];
        completed(&roots, of(&roots, &[]).unwrap())
    }

    fn tree(name: &str, files: &[&str], links: &[(&str, &str)]) -> PathBuf {
        let root = std::env::temp_dir().join(format!("picktwo-{name}-{}", std::process::id()));
        let parent = |path: &str| std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        for file in files {
            parent(file);
            std::fs::write(root.join(file), "").unwrap();
        }
        for (link, target) in links {
            parent(link);
            std::os::unix::fs::symlink(target, root.join(link)).unwrap();
        }
        root.canonicalize().unwrap()
    }

    fn holds(protected: &Protected, path: &str) -> bool {
        let parts: Vec<&[u8]> = path.split('/').map(str::as_bytes).collect();
        protected.check(&parts).is_some()
    }

    #[test]
    fn links_at_protected_places_protect_what_they_lead_to() {
        let root = tree(
            "links",
            &[
                "scripts/pre-commit",
                "scripts/v1/real",
                "tools/h",
                "skills/a.md",
                "sub/s/h",
                "docs/ai.md",
                "many*/[x]",
                "sub/.git/HEAD",
                "bare/HEAD",
                "bare/objects/x",
                "bare/refs/x",
            ],
            &[
                (".git/hooks/pre-commit", "../../scripts/pre-commit"),
                (".git/hooks/pre-push", "../../scripts/current"),
                ("scripts/current", "v1/real"),
                (".git/hooks/post-checkout", "../../scripts/absent"),
                (".git/hooks/post-merge", "../../toolslink/h"),
                (".git/hooks/update", "../../many*/[x]"),
                ("toolslink", "tools"),
                (".claude/skills", "../skills"),
                ("skills/b.md", "../docs/b.md"),
                ("sub/.git/hooks/pre-commit", "../../s/h"),
                ("pkg/a/CLAUDE.md", "../../docs/ai.md"),
                ("bare/hooks/post-receive", "../../bare-hook"),
            ],
        );
        for i in 0..5000 {
            std::fs::write(root.join(format!("docs/{i}")), "").unwrap();
        }
        let protected = all_of(&root);
        std::fs::remove_dir_all(&root).unwrap();
        for path in [
            "scripts/pre-commit",
            "scripts/current",
            "scripts/v1/real",
            "scripts/absent",
            "toolslink",
            "tools/h",
            "many*/[x]",
            "skills/b.md",
            "docs/b.md",
            "sub/s/h",
            "docs/ai.md",
            "bare-hook",
        ] {
            assert!(holds(&protected, path), "{path}");
        }
        for path in ["scripts/other", "tools/i", "docs/c.md", "sub/s/i", "many1/[x]"] {
            assert!(!holds(&protected, path), "{path}");
        }
        assert!(protected.moving(&[b"scripts", b"v1"], true).is_some());
    }

    #[test]
    fn what_gits_configuration_names_is_protected() {
        let repository = ["HEAD", "objects/x", "refs/x"];
        let mut files = vec!["tools/clean.py".to_owned(), "tools/other.py".to_owned()];
        for at in [".git", "sub/.git"] {
            files.extend(repository.iter().map(|name| format!("{at}/{name}")));
        }
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let root = tree("configured", &files, &[("hk/pre-commit", "../linked")]);
        let config = "[core]\n\thooksPath = hk\n\tfsmonitor = ./watch -x\n[include]\n\tpath = ../shared.cfg\n\
            [includeIf \"onbranch:x\"]\n\tpath = ../absent.cfg\n[filter \"a\"]\n\tclean = python3 tools/clean.py %f\n";
        std::fs::write(root.join(".git/config"), config).unwrap();
        std::fs::write(root.join("shared.cfg"), "[core]\n\tattributesFile = attrs\n").unwrap();
        std::fs::write(root.join("sub/.git/config"), "[core]\n\thooksPath = my-hooks\n").unwrap();
        let protected = all_of(&root);
        std::fs::remove_dir_all(&root).unwrap();
        for path in [
            "hk/pre-push",
            "linked",
            "watch",
            "shared.cfg",
            "absent.cfg",
            "attrs",
            "tools/clean.py",
            "sub/my-hooks/pre-commit",
        ] {
            assert!(holds(&protected, path), "{path}");
        }
        assert!(!holds(&protected, "tools/other.py"));
    }

    #[test]
    fn a_target_has_a_name_from_every_root_that_holds_it() {
        let root = tree("within", &["in/s/h"], &[("in/.git/hooks/pre-commit", "../../s/h")]);
        let roots = [root.clone(), root.join("in")];
        let protected = completed(&roots, of(&roots, &[]).unwrap());
        std::fs::remove_dir_all(&root).unwrap();
        assert!(holds(&protected, "in/s/h") && holds(&protected, "s/h"));
    }

    #[test]
    fn what_is_not_looked_at_is_told() {
        let root = tree("unseen", &["a/b"], &[]);
        let roots = [root.clone()];
        let (_, unseen) = find(&roots, &named(&[]), &Protected::builtin(), Instant::now());
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(unseen, Some(root));
    }
}
