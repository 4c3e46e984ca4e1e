//! `kill -9` of picktwo's processes at random moments: nothing inside survives the launcher, nothing is left behind, the records
//! hold up to their last whole line, and the next session starts.
//!
//! `PICKTWO_SEED` repeats the moments as far as a machine does, `PICKTWO_KILLS` (20) sets how many there are.

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use picktwo_tests::{
    http,
    processes::{self, Process},
    random::Random,
    run::{self, wait_until},
    scene::Scene,
    tier::container,
    tree::Tree,
};
use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    net::TcpListener,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

const LIMIT: Duration = Duration::from_secs(60);

/// Whom to kill: by the start of the title, the launcher by its process id; in the container tier the keeper and the broker instead
/// of the init.
fn victims() -> Vec<&'static str> {
    let own: &[&str] = if container() { &["keeper", "broker"] } else { &["init"] };
    [&["launcher"], own, OTHERS].concat()
}

const OTHERS: &[&str] = &[
    "outside",
    "outside-model",
    "outside-web",
    "gateway",
    "resolver",
    "retriever",
    "agent",
];

#[test]
fn killed_at_random_moments() {
    let mut random = Random::new("kills");
    let times: usize = std::env::var("PICKTWO_KILLS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(20);
    let scene = Scene::new(env!("CARGO_BIN_EXE_picktwo")).unwrap();
    let stalled = Stalled::start();
    let model = http::Server::start(|_, to: &mut http::Responder<'_>| {
        to.full(200, &[("content-type", "application/json")], b"{}")
    })
    .unwrap();
    scene
        .policy(&format!(
            "version = 1\n[model.anthropic]\nupstream = \"{}\"\nkey = \"env:REAL_KEY\"\n[retrieval]\nprivate = [\"127.0.0.1:{}\"]\n",
            model.url(),
            stalled.port
        ))
        .unwrap();
    scene.write("kept/file", "text\n").unwrap();
    let mounts = mounts(&scene);
    let mut killed = BTreeMap::<String, usize>::new();
    for n in 0..times {
        // Each role in turn, so that none is left out by chance; the moment is what is random.
        let victims = victims();
        let victim = victims[n % victims.len()];
        let mark = format!("kill-mark-{}-{n}", std::process::id());
        if one(&scene, victim, &mark, stalled.port, &mut random) {
            *killed.entry(victim.to_owned()).or_default() += 1;
        }
        assert_eq!(mounts, self::mounts(&scene), "a mount is left after killing {victim}");
        let left = Tree::read(&scene.work()).unwrap().without(|p| p.starts_with("made"));
        assert_eq!(left.len(), 2, "{victim}: {left:?}");
        let verified = scene.run(["audit", "verify"], LIMIT).unwrap();
        assert_eq!(verified.code(), 0, "after killing {victim}: {}", verified.all());
    }
    let next = scene.run(["run", "--", "cat", "kept/file"], LIMIT).unwrap();
    assert_eq!((next.code(), next.stdout.as_str()), (0, "text\n"), "{}", next.all());
    let _ = std::io::stderr().write_all(format!("killed: {killed:?}\n").as_bytes());
    let own: &[&str] = if container() { &["keeper", "broker"] } else { &["init"] };
    let met = [&["launcher", "gateway", "outside-web", "outside-model", "agent"], own].concat();
    for role in met {
        assert!(
            times < victims().len() * 2 || killed.contains_key(role),
            "no {role} was met, only {killed:?}"
        );
    }
}

/// What is mounted where a session's view has its mounts. Elsewhere others may mount what they like meanwhile.
fn mounts(scene: &Scene) -> Vec<String> {
    const VIEW: [&str; 9] = ["/dev", "/etc", "/host", "/proc", "/run", "/sys", "/tmp", "/usr", "/var"];
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    let is_a_sessions = |line: &&str| {
        let place = Path::new(line.split(' ').nth(1).unwrap());
        place == Path::new("/") || place.starts_with(scene.root()) || VIEW.iter().any(|top| place.starts_with(top))
    };
    table.lines().filter(is_a_sessions).map(str::to_owned).collect()
}

/// One session, one kill. Says whether the victim was there.
fn one(scene: &Scene, victim: &str, mark: &str, port: u16, random: &mut Random) -> bool {
    let script = format!(
        ": {mark}; picktwo fetch http://127.0.0.1:{port}/page >/dev/null 2>&1 &
         (while :; do mkdir -p made/d; echo x > made/f; mv made/f made/d/g; rm -r made; done) 2>/dev/null &
         setsid sh -c ': {mark}; trap \"\" HUP TERM; sleep 1000' & while :; do sleep 0.05; done"
    );
    let mut command = scene.picktwo(["run", "--edit", "--", "sh", "-c", &script]);
    command.env("REAL_KEY", "sk-real-key-of-nobody");
    let mut running = run::start(command, b"").unwrap();
    let launcher = running.pid();
    let started = Instant::now();
    // Some during the start, most afterwards: sometimes as soon as the victim is there.
    let moment = random.time(Duration::from_millis(900));
    let mut family: BTreeMap<i32, Process> = BTreeMap::new();
    let mut target = None;
    while started.elapsed() < moment || (target.is_none() && started.elapsed() < moment + Duration::from_millis(1500)) {
        family.extend(processes::family(launcher).into_iter().map(|p| (p.pid, p)));
        target = find(victim, launcher, &family);
        thread::sleep(Duration::from_millis(2));
    }
    let met = target.is_some();
    kill(Pid::from_raw(target.unwrap_or(launcher)), Signal::SIGKILL).ok();
    if target != Some(launcher) {
        // Without one of its parts, a session goes on or ends; then it is the launcher's turn.
        let until = Instant::now() + random.time(Duration::from_millis(300));
        while Instant::now() < until && !running.ended().unwrap() {
            family.extend(processes::family(launcher).into_iter().map(|p| (p.pid, p)));
            thread::sleep(Duration::from_millis(5));
        }
        if ["init", "keeper"].contains(&victim) && met {
            // Everything inside goes with the first process of its namespace, or with the one that would end it.
            assert!(
                wait_until(Duration::from_secs(10), || running.ended().unwrap()),
                "a session survives its {victim}"
            );
        }
        kill(Pid::from_raw(launcher), Signal::SIGKILL).ok();
    }
    let finished = running.finish(LIMIT).unwrap();
    assert!(!finished.timed_out, "{}", finished.all());
    let mut left = Vec::new();
    let gone = wait_until(Duration::from_secs(10), || {
        left = survivors(&family, mark);
        left.is_empty()
    });
    assert!(
        gone,
        "after killing {victim}, there still are {left:#?}\n{}",
        finished.all()
    );
    met
}

fn find(victim: &str, launcher: i32, family: &BTreeMap<i32, Process>) -> Option<i32> {
    match victim {
        "launcher" => Some(launcher),
        "agent" => family
            .values()
            .find(|p| p.parent == launcher && p.title == "sh")
            .map(|p| p.pid),
        role => {
            let title = format!("picktwo: {role}");
            family
                .values()
                .find(|p| p.pid != launcher && p.title.starts_with(&title))
                .map(|p| p.pid)
        }
    }
}

/// Processes of the session that are still there, as zombies or alive.
fn survivors(family: &BTreeMap<i32, Process>, mark: &str) -> Vec<String> {
    let own = std::process::id().cast_signed();
    processes::all()
        .into_iter()
        .filter(|p| p.pid != own)
        .filter(|p| {
            let cmdline = fs::read(format!("/proc/{}/cmdline", p.pid)).unwrap_or_default();
            let marked = String::from_utf8_lossy(&cmdline).contains(mark);
            // The number of a process that is gone may be another's by now, with another name.
            marked
                || family
                    .get(&p.pid)
                    .is_some_and(|known| known.name == p.name && known.ids == p.ids)
        })
        .map(|p| format!("{p:?} {}", state(&p)))
        .collect()
}

fn state(process: &Process) -> String {
    let status =
        fs::read_to_string(Path::new("/proc").join(process.pid.to_string()).join("status")).unwrap_or_default();
    status
        .lines()
        .find(|l| l.starts_with("State:"))
        .unwrap_or_default()
        .to_owned()
}

/// A web server that accepts and never answers, so that there is a retriever to kill.
struct Stalled {
    port: u16,
    stop: Arc<AtomicBool>,
}

impl Stalled {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let stop = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&stop);
        thread::spawn(move || {
            let mut held = Vec::new();
            for stream in listener.incoming() {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                held.push(stream);
            }
        });
        Self { port, stop }
    }
}

impl Drop for Stalled {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = std::net::TcpStream::connect(("127.0.0.1", self.port));
    }
}
