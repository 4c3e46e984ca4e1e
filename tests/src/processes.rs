//! A look into the processes of a session from the host: who is inside, and whether something is in their environment,
//! arguments, memory or files.

use memchr::memmem::Finder;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, BufRead, BufReader},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

const PAGE: u64 = 4096;
/// Bytes read from a process at once.
const BLOCK: u64 = 1 << 20;

/// A process, as the host sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Process id on the host.
    pub pid: i32,
    /// Its parent's.
    pub parent: i32,
    /// Its id in each process namespace, the host's first.
    pub ids: Vec<i32>,
    /// Name of the program (`comm`).
    pub name: String,
    /// First argument, where a role names itself.
    pub title: String,
}

impl Process {
    /// Reads one process; none if there is none (any more).
    #[must_use]
    pub fn of(pid: i32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let field = |name: &str| status.lines().find_map(|l| l.strip_prefix(name)).map(str::trim);
        let cmdline = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let title = cmdline.split(|&b| b == 0).next().unwrap_or_default();
        Some(Self {
            pid,
            parent: field("PPid:")?.parse().ok()?,
            ids: field("NSpid:")?
                .split_ascii_whitespace()
                .filter_map(|n| n.parse().ok())
                .collect(),
            name: field("Name:")?.to_owned(),
            title: String::from_utf8_lossy(title).into_owned(),
        })
    }

    /// Whether it runs in the process namespace of a session: there is one more namespace than its launcher has.
    #[must_use]
    pub fn is_inside(&self, launcher: &Process) -> bool {
        self.ids.len() > launcher.ids.len()
    }
}

/// Every process that this user may list.
#[must_use]
pub fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .filter_map(Process::of)
        .collect()
}

/// `pid` and all its descendants.
#[must_use]
pub fn family(pid: i32) -> Vec<Process> {
    let all = all();
    let mut ids = BTreeSet::from([pid]);
    loop {
        let before = ids.len();
        ids.extend(
            all.iter()
                .filter(|p| ids.contains(&p.parent))
                .map(|p| p.pid)
                .collect::<Vec<_>>(),
        );
        if ids.len() == before {
            return all.into_iter().filter(|p| ids.contains(&p.pid)).collect();
        }
    }
}

/// The processes inside the session of `launcher`, its init first. In the container tier there is no init, and no namespace either:
/// all that descends from the launcher, which its orphans do, too, but for what is picktwo's own.
#[must_use]
pub fn inside(launcher: i32) -> Vec<Process> {
    let family = family(launcher);
    if crate::tier::container() {
        let cmdline = |pid: i32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let launchers = cmdline(launcher);
        return family
            .into_iter()
            .filter(|p| !p.title.starts_with("picktwo: ") && cmdline(p.pid) != launchers)
            .collect();
    }
    let Some(parent) = family.iter().find(|p| p.pid == launcher).cloned() else {
        return Vec::new();
    };
    let mut inside: Vec<Process> = family
        .into_iter()
        .filter(|p| p.is_inside(&parent))
        // picktwo's own network roles may have a namespace of their own, but they are not the agent's side.
        .filter(|p| {
            !["outside", "gateway", "resolver", "retriever"]
                .iter()
                .any(|r| p.title.starts_with(&format!("picktwo: {r}")))
        })
        .collect();
    inside.sort_by_key(|p| p.ids.last().copied());
    inside
}

/// Something to look for: the bytes, and the same text in UTF-16, as JavaScript engines keep it.
#[derive(Debug)]
pub struct Needle {
    name: String,
    forms: Vec<Finder<'static>>,
    longest: usize,
}

impl Needle {
    /// A needle that findings call `name`.
    ///
    /// # Panics
    /// If `text` has fewer than 8 bytes: it would be found by chance.
    #[must_use]
    pub fn new(name: &str, text: &str) -> Self {
        assert!(text.len() >= 8, "a needle of {} bytes is found by chance", text.len());
        let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let longest = wide.len();
        let forms = [text.as_bytes(), &wide]
            .map(|form| Finder::new(form).into_owned())
            .into();
        Self {
            name: name.into(),
            forms,
            longest,
        }
    }

    /// Whether `data` contains it.
    #[must_use]
    pub fn is_in(&self, data: &[u8]) -> bool {
        self.forms.iter().any(|form| form.find(data).is_some())
    }
}

/// What was searched and what was found.
#[derive(Debug, Default)]
pub struct Search {
    /// `needle: place`, sorted, each once.
    pub found: BTreeSet<String>,
    /// What could not be read, with the reason. A search with gaps proves nothing about them.
    pub unreadable: BTreeMap<String, String>,
    /// Bytes of memory read.
    pub memory: u64,
    /// Files read.
    pub files: u64,
}

impl Search {
    /// Whether `needle` was found anywhere.
    #[must_use]
    pub fn has(&self, needle: &str) -> bool {
        self.found.iter().any(|f| f.starts_with(&format!("{needle}: ")))
    }

    /// Environment, arguments and memory of a process.
    pub fn process(&mut self, process: &Process, needles: &[Needle]) {
        let place = format!("{} ({})", process.title, process.pid);
        // One that ended meanwhile has nothing left to search.
        let gone = || !Path::new(&format!("/proc/{}", process.pid)).exists();
        for part in ["environ", "cmdline"] {
            match fs::read(format!("/proc/{}/{part}", process.pid)) {
                Ok(data) => self.note(&data, needles, || format!("{part} of {place}")),
                Err(_) if gone() => return,
                Err(e) => self.gap(format!("{part} of {place}"), &e),
            }
        }
        if let Err(e) = self.memory(process.pid, &place, needles)
            && !gone()
        {
            self.gap(format!("memory of {place}"), &e);
        }
    }

    /// Every regular file below `root`, names included; links are not followed and other file systems not entered.
    pub fn tree(&mut self, root: &Path, needles: &[Needle]) {
        self.note(root.as_os_str().as_encoded_bytes(), needles, || {
            format!("name {}", root.display())
        });
        let entries = match fs::read_dir(root) {
            Ok(entries) => entries,
            Err(e) => return self.gap(root.display().to_string(), &e),
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() {
                self.tree(&path, needles);
                continue;
            }
            self.note(path.as_os_str().as_encoded_bytes(), needles, || {
                format!("name {}", path.display())
            });
            if kind.is_symlink() {
                if let Ok(target) = fs::read_link(&path) {
                    self.note(target.as_os_str().as_encoded_bytes(), needles, || {
                        format!("link {}", path.display())
                    });
                }
            } else if kind.is_file() {
                match fs::read(&path) {
                    Ok(data) => {
                        self.files += 1;
                        self.note(&data, needles, || path.display().to_string());
                    }
                    Err(e) => self.gap(path.display().to_string(), &e),
                }
            }
        }
    }

    fn memory(&mut self, pid: i32, place: &str, needles: &[Needle]) -> io::Result<()> {
        let overlap = needles.iter().map(|n| n.longest).max().unwrap_or(0) as u64;
        let mem = File::open(format!("/proc/{pid}/mem"))?;
        let pagemap = File::open(format!("/proc/{pid}/pagemap"))?;
        let before = self.memory;
        for map in resident_maps(pid)? {
            for (mut start, end) in present(&pagemap, map.start, map.end)? {
                while start < end {
                    let length = (end - start).min(BLOCK + overlap);
                    let mut data = vec![0; usize::try_from(length).unwrap_or(0)];
                    match mem.read_at(&mut data, start) {
                        Ok(n) => {
                            data.truncate(n);
                            self.memory += n as u64;
                            self.note(&data, needles, || format!("memory of {place}, {}", map.name));
                        }
                        // Pages that no debugger may read either ([vvar], device memory) hold none of the program's data.
                        Err(e) if e.raw_os_error() == Some(nix::errno::Errno::EIO as i32) => {}
                        Err(e) => return Err(e),
                    }
                    start += BLOCK;
                }
            }
        }
        if self.memory == before {
            return Err(io::Error::other("no memory was readable"));
        }
        Ok(())
    }

    fn note(&mut self, data: &[u8], needles: &[Needle], place: impl Fn() -> String) {
        for needle in needles {
            if needle.is_in(data) {
                self.found.insert(format!("{}: {}", needle.name, place()));
            }
        }
    }

    fn gap(&mut self, place: String, error: &io::Error) {
        self.unreadable.insert(place, error.to_string());
    }
}

struct Map {
    start: u64,
    end: u64,
    name: String,
}

/// The mappings of which anything is in memory or swapped out.
fn resident_maps(pid: i32) -> io::Result<Vec<Map>> {
    let mut maps: Vec<Map> = Vec::new();
    let mut keep = Vec::new();
    for line in BufReader::new(File::open(format!("/proc/{pid}/smaps"))?).lines() {
        let line = line?;
        let mut words = line.split_ascii_whitespace();
        let Some(first) = words.next() else { continue };
        if let Some((start, end)) = first.split_once('-')
            && let (Ok(start), Ok(end)) = (u64::from_str_radix(start, 16), u64::from_str_radix(end, 16))
        {
            maps.push(Map {
                start,
                end,
                name: words.skip(4).collect::<Vec<_>>().join(" "),
            });
            keep.push(false);
        } else if matches!(first, "Rss:" | "Swap:")
            && words.next() != Some("0")
            && let Some(last) = keep.last_mut()
        {
            *last = true;
        }
    }
    Ok(maps
        .into_iter()
        .zip(keep)
        .filter(|(_, keep)| *keep)
        .map(|(map, _)| map)
        .collect())
}

/// The runs of pages of a mapping that are in memory or swapped out: engines reserve far more than they use.
fn present(pagemap: &File, start: u64, end: u64) -> io::Result<Vec<(u64, u64)>> {
    const IN_MEMORY_OR_SWAPPED: u64 = 0b11 << 62;
    let mut runs: Vec<(u64, u64)> = Vec::new();
    let mut at = start;
    let mut entries = vec![0u8; 64 * 1024];
    while at < end {
        let want = usize::try_from((end - at) / PAGE * 8)
            .unwrap_or(usize::MAX)
            .min(entries.len());
        let n = pagemap.read_at(&mut entries[..want], at / PAGE * 8)?;
        if n < 8 {
            break; // [vsyscall] lies beyond the pages that have entries
        }
        for entry in entries[..n / 8 * 8].chunks_exact(8) {
            let entry = entry.iter().rev().fold(0u64, |value, &b| value << 8 | u64::from(b));
            if entry & IN_MEMORY_OR_SWAPPED != 0 {
                match runs.last_mut() {
                    Some(last) if last.1 == at => last.1 = at + PAGE,
                    _ => runs.push((at, at + PAGE)),
                }
            }
            at += PAGE;
        }
    }
    Ok(runs)
}

/// The directories that a session can write by itself, apart from its HOME, as the host reaches them through one of its
/// processes. Empty if none of `inside` lets us.
#[must_use]
pub fn writable_roots(inside: &[Process]) -> Vec<PathBuf> {
    let roots = inside.iter().map(|p| PathBuf::from(format!("/proc/{}/root", p.pid)));
    // picktwo's own first process is closed to ordinary users; the agent's are open.
    let Some(root) = roots.into_iter().find(|r| fs::read_dir(r.join("tmp")).is_ok()) else {
        return Vec::new();
    };
    ["tmp", "dev/shm", "run"]
        .iter()
        .map(|d| root.join(d))
        .filter(|d| d.is_dir())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// A shell that waits for its input with `secret` in a variable that is not exported.
    fn shell(secret: &str) -> std::process::Child {
        let half = secret.len() / 2;
        let script = format!(
            "x={}; x=${{x}}{}; echo ready; read line",
            &secret[..half],
            &secret[half..]
        );
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        child
    }

    #[test]
    fn memory_environment_and_arguments_are_searched() {
        let mut child = shell("picktwo-needle-6c1f");
        let process = Process::of(child.id().cast_signed()).unwrap();
        assert_eq!(
            (process.parent, process.title.as_str()),
            (std::process::id().cast_signed(), "sh")
        );
        let mut search = Search::default();
        search.process(
            &process,
            &[
                Needle::new("joined", concat!("picktwo-", "needle-6c1f")),
                Needle::new("absent", concat!("picktwo-needle-", "0000")),
                Needle::new("script", "echo ready; read"),
            ],
        );
        assert!(search.unreadable.is_empty(), "{search:?}");
        assert!(search.has("joined"), "{search:?}");
        assert!(
            search.found.iter().all(|f| !f.contains("joined: cmdline")),
            "{search:?}"
        );
        assert!(
            search.found.iter().any(|f| f.starts_with("script: cmdline of sh")),
            "{search:?}"
        );
        assert!(!search.has("absent"), "{search:?}");
        assert!(family(std::process::id().cast_signed()).contains(&process));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn files_names_and_links_are_searched_in_both_encodings() {
        let root = std::env::temp_dir().join(format!("picktwo-tree-{}", std::process::id()));
        fs::create_dir_all(root.join("a")).unwrap();
        let wide: Vec<u8> = "wide-needle".encode_utf16().flat_map(u16::to_le_bytes).collect();
        fs::write(root.join("a/b"), [b"xx".as_slice(), &wide].concat()).unwrap();
        fs::write(root.join("a/name-needle"), "").unwrap();
        std::os::unix::fs::symlink("link-needle", root.join("a/l")).unwrap();
        let mut search = Search::default();
        search.tree(
            &root,
            &["wide-needle", "name-needle", "link-needle", "other-needle"].map(|n| Needle::new(n, n)),
        );
        fs::remove_dir_all(&root).unwrap();
        assert!(
            search.has("wide-needle") && search.has("name-needle") && search.has("link-needle"),
            "{search:?}"
        );
        assert!(
            !search.has("other-needle") && search.unreadable.is_empty(),
            "{search:?}"
        );
        assert_eq!(search.files, 2);
    }
}
