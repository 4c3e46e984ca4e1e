//! Single calls, measured by the same program in a session, outside without and with an empty filter, and under bubblewrap.

use crate::measure::{Bench, find, median};
use picktwo_confine::seccomp;
use std::fs::File;
use std::io::{Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{ExitCode, Stdio};
use std::time::Instant;

const CALLS: usize = 3000;
/// Tells the measuring program to put itself under a filter that allows everything.
const FILTERED: &str = "--filtered";

/// One measured call.
type Call = (&'static str, fn(usize) -> Result<()>);

/// Calls that take less than the clock: so many make one measurement.
const BATCH: usize = 200;
const BATCHED: &[Call] = &[
    ("getpid", |_| {
        std::hint::black_box(nix::unistd::getpid());
        Ok(())
    }),
    ("read of 1 byte", |_| ZEROES.with(|f| (&*f).read_exact(&mut [0]))),
];

const MEASURED: &[Call] = &[
    ("connect to a listener of its own", |_| {
        LISTENER.with(|l| TcpStream::connect(l.local_addr()?).and_then(|_| l.accept()).map(drop))
    }),
    ("open for reading", |_| File::open("bench-file").map(drop)),
    ("stat", |_| std::fs::metadata("bench-file").map(drop)),
    ("open for writing", |_| {
        File::options().write(true).open("bench-file").map(drop)
    }),
    ("open, truncating", |_| {
        File::options().write(true).truncate(true).open("bench-file").map(drop)
    }),
    ("create", |i| {
        File::options()
            .write(true)
            .create_new(true)
            .open(format!("new-{i}"))
            .map(drop)
    }),
    ("chmod", |i| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions("bench-file", std::fs::Permissions::from_mode(0o600 | (i as u32 & 0o44)))
    }),
    ("rename", |i| std::fs::rename(format!("new-{i}"), format!("moved-{i}"))),
    ("unlink", |i| std::fs::remove_file(format!("moved-{i}"))),
    ("write 4 KiB", |_| WRITTEN.with(|f| (&*f).write_all(&[7; 4096]))),
];

thread_local! {
    static ZEROES: File = File::open("/dev/zero").expect("a device that always exists");
    static LISTENER: TcpListener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    static WRITTEN: File = File::create("bench-written").expect("the directory is writable");
}

/// The measuring program: prints a name and the median in microseconds per line.
pub(crate) fn main(mut args: impl Iterator<Item = std::ffi::OsString>) -> ExitCode {
    if args.any(|arg| arg == FILTERED)
        && let Err(e) = seccomp::install(&empty_filter())
    {
        eprintln!("an empty filter: {e}");
        return ExitCode::FAILURE;
    }
    if let Err(e) = File::create("bench-file") {
        eprintln!("bench-file: {e}");
        return ExitCode::FAILURE;
    }
    let batched = BATCHED.iter().map(|call| (call, BATCH));
    for ((name, call), batch) in batched.chain(MEASURED.iter().map(|call| (call, 1))) {
        let mut times = Vec::with_capacity(CALLS);
        for i in 0..CALLS {
            let start = Instant::now();
            for _ in 0..batch {
                if let Err(e) = call(i) {
                    eprintln!("{name}: {e}");
                    return ExitCode::FAILURE;
                }
            }
            times.push(start.elapsed().as_secs_f64() * 1e6 / batch as f64);
        }
        println!("{name}\t{:.3}", median(&mut times));
    }
    ExitCode::SUCCESS
}

/// One that allows everything: what the kernel takes for any filter at all.
fn empty_filter() -> seccomp::Filter {
    seccomp::Filter {
        name: "empty",
        foreign: seccomp::Action::Allow,
        x32: seccomp::Action::Allow,
        newer: None,
        rules: Vec::new(),
        otherwise: seccomp::Action::Allow,
    }
}

/// Prints all columns.
pub(crate) fn calls(bench: &Bench) -> Result<()> {
    println!(
        "\nsingle calls, median of {CALLS} in µs: in a session in edit mode, bare, bare with one filter that allows everything, \
         under bubblewrap"
    );
    let own = std::env::current_exe()?;
    let own_dir = own.parent().map(|d| d.display().to_string()).unwrap_or_default();
    let own = own.display().to_string();
    let measure = |mut command: std::process::Command| -> Result<Vec<(String, f64)>> {
        for file in ["bench-file", "bench-written"] {
            let _ = std::fs::remove_file(bench.work().join(file));
        }
        let output = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?
            .wait_with_output()?;
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(text
            .lines()
            .filter_map(|l| l.split_once('\t'))
            .filter_map(|(n, v)| Some((n.to_owned(), v.parse().ok()?)))
            .collect())
    };
    let inside = measure(bench.session(&["--edit", "--ro", &own_dir], &own, &["--inside"]))?;
    let bare = measure(bench.bare(&own, &["--inside"]))?;
    let filtered = measure(bench.bare(&own, &["--inside", FILTERED]))?;
    let peer = match find("bwrap") {
        Some(bwrap) => {
            let work = bench.work().display().to_string();
            let view = [
                "--unshare-all",
                "--ro-bind",
                "/",
                "/",
                "--dev",
                "/dev",
                "--proc",
                "/proc",
            ];
            let words = [&view[..], &["--bind", &work, &work, "--chdir", &work, &own, "--inside"]].concat();
            measure(bench.bare(&bwrap, &words))?
        }
        None => {
            println!("  bubblewrap's column: not run, bwrap is not installed");
            Vec::new()
        }
    };
    let of = |list: &[(String, f64)], name: &str| list.iter().find(|(n, _)| n == name).map(|(_, v)| *v);
    for (name, ours) in &inside {
        let column = |other: Option<f64>| match other {
            Some(other) => format!("{other:>9.2}  × {:<6.2}", ours / other),
            None => format!("{:>9}  {:<8}", "–", ""),
        };
        let [bare, filtered, peer] = [&bare, &filtered, &peer].map(|list| column(of(list, name)));
        println!("  {name:<34} {ours:>9.2}   {bare} {filtered} {peer}");
    }
    if inside.len() != BATCHED.len() + MEASURED.len() {
        println!("  not complete: {} calls were measured inside", inside.len());
    }
    Ok(())
}
