//! A hostile program for the attack loops: `attack DIR SECONDS SEED`. It tries to change protected files of the workspace DIR, files
//! beside it and, in read-only mode, anything in it. What became of that is judged by the test outside; this program only
//! reports how much it tried.

#[path = "calls.rs"]
mod calls;
#[path = "names.rs"]
mod names;

use calls::{Name, open};
use nix::libc;
use picktwo_confine::attempt::{Arg, numbers, syscall};
use picktwo_tests::random::Random;
use std::{
    collections::BTreeMap,
    env, fs,
    io::Write as _,
    os::unix::fs::symlink,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

fn main() {
    let words: Vec<String> = env::args().collect();
    let [_, dir, seconds, seed] = words.as_slice() else {
        panic!("attack DIR SECONDS SEED");
    };
    env::set_current_dir(dir).expect("the workspace");
    let seconds: f64 = seconds.parse().expect("SECONDS");
    let random = Random::from(seed.parse::<u64>().expect("SEED"));
    let mut attack = Attack::new(random);
    names::every_absent_name(&mut attack.counts);
    rebuild(&mut attack.counts);
    let swaps = attack.start_swaps();
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    while Instant::now() < until {
        attack.round();
    }
    attack.stop.store(true, Ordering::Relaxed);
    for swap in swaps {
        swap.join().expect("a swapping thread");
    }
    let mut out = std::io::stdout();
    writeln!(out, "swaps {}", attack.swapped.load(Ordering::Relaxed)).expect("output");
    for (what, (tried, done)) in &attack.counts.0 {
        writeln!(out, "{what} {tried} {done}").expect("output");
    }
}

/// How often each call was tried, and how often it succeeded.
#[derive(Default)]
pub(crate) struct Counts(BTreeMap<&'static str, (u64, u64)>);

impl Counts {
    pub(crate) fn note(&mut self, what: &'static str, done: bool) {
        let (tried, succeeded) = self.0.entry(what).or_default();
        *tried += 1;
        *succeeded += u64::from(done);
    }
}

struct Attack {
    random: Random,
    counts: Counts,
    stop: Arc<AtomicBool>,
    swapped: Arc<AtomicU64>,
    /// Paths whose bytes another thread changes between two meanings.
    flipping: Vec<Name>,
    steady: Vec<Name>,
    step: u64,
}

/// Pairs of equal length: what the path names at one moment, and at the next. `ok-x` is an ordinary directory that is there.
const PAIRS: &[(&str, &str)] = &[
    ("ok-1/config", ".git/config"),
    ("ok-1/hooks/pre-commit", ".git/hooks/pre-commit"),
    ("ok-tree/settings.json", ".claude/settings.json"),
    ("ok/canary/file", "../canary/file"),
    ("ok-tree/new.json", ".cursor/new.json"),
    ("ok-tree/CLAUDE_md", "ok-tree/CLAUDE.md"),
    ("ok-tree/_envrc", "ok-tree/.envrc"),
    ("nested/ok-1/config", "nested/.git/config"),
    ("ok-1/plain", "plain.file"),
];

/// A path below /tmp, where the session's own temporary directory is.
pub(crate) fn temporary(path: &str) -> String {
    match (path.strip_prefix("/tmp/"), env::var("TMPDIR")) {
        (Some(rest), Ok(dir)) => format!("{dir}/{rest}"),
        _ => path.to_owned(),
    }
}

/// Paths through links and directories that other threads exchange.
const THROUGH: &[&str] = &[
    "swap/config",
    "swap/hooks/pre-commit",
    "swap/settings.json",
    "swap/file",
    "turn/config",
    "turn/hooks/pre-commit",
    "/tmp/attack/swap/config",
    "/tmp/attack/swap/hooks/pre-commit",
    "/tmp/attack/swap/file",
    "/tmp/attack/swap",
    "nested/.git/config",
    "plain.file",
    "alias",
    "/proc/self/cwd/.git/config",
    "/proc/thread-self/cwd/.claude/settings.json",
    "/proc/self/root/../canary/file",
    "./.git/./hooks/../config",
    ".GIT/config",
    ".git/CONFIG",
    ".mcp.json",
];

impl Attack {
    fn new(random: Random) -> Self {
        let mut flipping: Vec<Name> = PAIRS.iter().map(|(a, b)| Name::pair(a, b)).collect();
        // The first meaning ends at a page's last byte, or goes on in the next page.
        flipping.extend(
            PAIRS
                .iter()
                .enumerate()
                .map(|(i, (a, b))| Name::pair_at_page_edge(a, b, i)),
        );
        Self {
            random,
            counts: Counts::default(),
            stop: Arc::default(),
            swapped: Arc::default(),
            flipping,
            steady: THROUGH.iter().map(|p| Name::new(&temporary(p))).collect(),
            step: 0,
        }
    }

    fn start_swaps(&self) -> Vec<thread::JoinHandle<()>> {
        let spawn = |work: Box<dyn Fn() + Send>| {
            let (stop, swapped) = (Arc::clone(&self.stop), Arc::clone(&self.swapped));
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    work();
                    // On few cores, the calls that are raced need their turn, too.
                    thread::yield_now();
                    swapped.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let flipping = self.flipping.clone();
        let place = |base: &str| -> Box<dyn Fn() + Send> {
            let (swap, spare, turn) = (format!("{base}swap"), format!("{base}spare"), format!("{base}turn"));
            let cwd = env::current_dir().expect("a directory");
            Box::new(move || {
                for to in [
                    "ok-1",
                    ".git",
                    "ok-tree",
                    ".claude",
                    "../canary",
                    "ok-1/config",
                    ".git/config",
                ] {
                    let _ = fs::remove_file(&spare);
                    let _ = symlink(cwd.join(to), &spare);
                    let _ = fs::rename(&spare, &swap);
                    let _ = calls::exchange(&turn, &swap);
                    let _ = fs::create_dir(&turn);
                    let _ = calls::exchange("ok-1", &turn);
                    let _ = calls::exchange("ok-1", &turn);
                    thread::sleep(Duration::from_micros(50));
                }
            })
        };
        let attack = temporary("/tmp/attack/");
        let _ = fs::create_dir(&attack);
        vec![
            spawn(Box::new(move || {
                for name in &flipping {
                    name.flip();
                }
                thread::sleep(Duration::from_micros(1));
            })),
            spawn(place("")),
            spawn(place(&attack)),
            spawn(Box::new(|| {
                // A parent of protected names goes away and comes back.
                let _ = fs::rename("nested", "elsewhere");
                let _ = fs::create_dir("nested");
                let _ = fs::create_dir("nested/.git");
                calls::put("nested/.git/config");
                let _ = fs::remove_file("nested/.git/config");
                let _ = fs::remove_dir("nested/.git");
                let _ = fs::remove_dir("nested");
                let _ = fs::rename("elsewhere", "nested");
                thread::sleep(Duration::from_micros(100));
            })),
        ]
    }

    /// Tries a handful of calls on a path that means two things.
    fn round(&mut self) {
        self.step += 1;
        // A caller that may not be read any more, for a part of the time.
        if self.step.is_multiple_of(500) {
            let dumpable = i64::from(self.step.is_multiple_of(1000));
            let changed = numbers(libc::SYS_prctl, &[i64::from(libc::PR_SET_DUMPABLE), dumpable]).is_ok();
            self.counts.note("dumpable", changed);
        }
        if self.step.is_multiple_of(300) {
            restock();
        }
        let all = if self.random.below(3) == 0 {
            &self.steady
        } else {
            &self.flipping
        };
        let path = *self.random.of(all);
        let other = *self.random.of(&self.flipping);
        match self.random.below(10) {
            0 | 1 => calls::open_and_write(&path, &mut self.random, &mut self.counts),
            2 => calls::two_paths(&path, &other, &mut self.random, &mut self.counts),
            3 => calls::metadata(&path, &mut self.random, &mut self.counts),
            4 => calls::remove(&path, &mut self.random, &mut self.counts),
            5 => calls::create(&path, &mut self.random, &mut self.counts),
            6 => calls::reopen(&path, &mut self.random, &mut self.counts),
            7 if self.step.is_multiple_of(20) => calls::bad_arguments(&mut self.counts),
            8 => calls::by_directory(&mut self.random, &mut self.counts),
            _ => calls::make(&path, &mut self.random, &mut self.counts),
        }
    }
}

/// Ordinary files that the attack itself has used up: a path that names nothing at any moment attacks nothing.
fn restock() {
    for dir in ["ok-1/hooks", "ok-tree", "ok/canary", "nested/ok-1"] {
        let _ = fs::create_dir_all(dir);
    }
    for file in [
        "ok-1/config",
        "ok-1/hooks/pre-commit",
        "ok-1/plain",
        "ok-tree/settings.json",
        "ok/canary/file",
        "nested/ok-1/config",
        "plain.file",
    ] {
        calls::put(file);
    }
}

/// `.git` and `.claude` are moved away, their parents are, and they are made anew with other content.
fn rebuild(counts: &mut Counts) {
    for name in [".git", ".claude", "nested/.git"] {
        let away = format!("{name}-away");
        counts.note("move away", fs::rename(name, &away).is_ok());
        counts.note("exchange away", calls::exchange(name, "ok-1").is_ok());
        counts.note(
            "move inner away",
            fs::rename(format!("{name}/hooks"), "ok-tree/hooks-away").is_ok(),
        );
        let _ = fs::create_dir_all("build/hooks");
        calls::put("build/hooks/pre-commit");
        calls::put("build/config");
        counts.note("move in", fs::rename("build", name).is_ok());
        counts.note(
            "move hooks in",
            fs::rename("build/hooks", format!("{name}/hooks")).is_ok(),
        );
        counts.note(
            "move file in",
            fs::rename("build/config", format!("{name}/config")).is_ok(),
        );
        counts.note("link in place", symlink("build", name).is_ok());
        counts.note("remove", fs::remove_dir_all(name).is_ok());
        counts.note("rebuild", fs::create_dir(name).is_ok());
        counts.note("rebuild file", calls::put(Path::new(name).join("config")));
    }
    // A whole repository that nobody named .git.
    let _ = fs::create_dir_all("bare/objects");
    let _ = fs::create_dir_all("bare/refs");
    let _ = fs::write("bare/HEAD", "ref: refs/heads/main\n");
    counts.note("config of a bare repository", calls::put("bare/config"));
    // From names that mean nothing, moved under one that means much.
    let _ = fs::create_dir_all("quiet/hooks");
    calls::put("quiet/hooks/pre-commit");
    counts.note("whole moved in", fs::rename("quiet", "ok-tree/.git").is_ok());
    counts.note("link to whole", symlink("quiet", "ok-tree/.git").is_ok());
    let fd = open(&Name::new("quiet"), libc::O_PATH | libc::O_DIRECTORY, 0);
    counts.note(
        "moved by descriptor",
        fd.is_ok_and(|fd| {
            let (from, to) = (b"hooks\0", b".git/hooks\0");
            syscall(
                libc::SYS_renameat,
                [
                    Arg::Int(fd),
                    Arg::In(from),
                    Arg::Int(i64::from(libc::AT_FDCWD)),
                    Arg::In(to),
                    Arg::Null,
                    Arg::Null,
                ],
            )
            .is_ok()
        }),
    );
}
