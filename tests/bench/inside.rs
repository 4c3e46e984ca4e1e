//! Single calls, measured by the same program outside and in a session.

use crate::measure::{Bench, median};
use std::fs::File;
use std::io::{Result, Write};
use std::process::{ExitCode, Stdio};
use std::time::Instant;

const CALLS: usize = 3000;

/// One measured call.
type Call = (&'static str, fn(usize) -> Result<()>);

const MEASURED: &[Call] = &[
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
    static WRITTEN: File = File::create("bench-written").expect("the directory is writable");
}

/// The measuring program: prints a name and the median in microseconds per line.
pub(crate) fn main(_args: impl Iterator<Item = std::ffi::OsString>) -> ExitCode {
    if let Err(e) = File::create("bench-file") {
        eprintln!("bench-file: {e}");
        return ExitCode::FAILURE;
    }
    for (name, call) in MEASURED {
        let mut times = Vec::with_capacity(CALLS);
        for i in 0..CALLS {
            let start = Instant::now();
            if let Err(e) = call(i) {
                eprintln!("{name}: {e}");
                return ExitCode::FAILURE;
            }
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        println!("{name}\t{:.2}", median(&mut times));
    }
    ExitCode::SUCCESS
}

/// Prints both columns.
pub(crate) fn calls(bench: &Bench) -> Result<()> {
    println!("\nsingle calls, median of {CALLS}, in a session in edit mode and bare");
    let own = std::env::current_exe()?;
    let own_dir = own.parent().map(|d| d.display().to_string()).unwrap_or_default();
    let own = own.display().to_string();
    let read = |mut command: std::process::Command| -> Result<Vec<(String, f64)>> {
        let output = command
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()?
            .wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(text
            .lines()
            .filter_map(|l| l.split_once('\t'))
            .filter_map(|(n, v)| Some((n.to_owned(), v.parse().ok()?)))
            .collect())
    };
    let inside = read(bench.session(&["--edit", "--ro", &own_dir], &own, &["--inside"]))?;
    for file in ["bench-file", "bench-written"] {
        let _ = std::fs::remove_file(bench.work().join(file));
    }
    let bare = read(bench.bare(&own, &["--inside"]))?;
    for ((name, ours), (_, theirs)) in inside.iter().zip(&bare) {
        println!(
            "  {name:<34} {ours:>9.2} µs {theirs:>9.2} µs   {:>+8.2} µs   × {:.2}",
            ours - theirs,
            ours / theirs
        );
    }
    if inside.len() != bare.len() || bare.is_empty() {
        println!(
            "  not complete: {} of {} calls were measured inside",
            inside.len(),
            bare.len()
        );
    }
    Ok(())
}
