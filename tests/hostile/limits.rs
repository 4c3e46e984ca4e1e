//! A program that takes all it can get of one thing: `limits WHAT HOW-MANY [DIRECTORY] [--stay]`.
//!
//! Prints `made N: ERRNO`, or `made N: all`. With `--stay` it keeps what it has until its input ends.

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use picktwo_confine::{process, sys};
use std::fs::{self, File};
use std::io::{Error, Read, Write};
use std::path::Path;

const MIB: usize = 1 << 20;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let many: usize = arguments[1].parse().expect("a number");
    let dir = arguments
        .get(2)
        .filter(|a| !a.starts_with("--"))
        .map_or(Path::new("."), Path::new);
    let stay = arguments.iter().any(|a| a == "--stay");
    match arguments[0].as_str() {
        "processes" => processes(many, stay),
        "threads" => report(many, stay, |_| {
            let waits = || loop {
                std::thread::park();
            };
            std::thread::Builder::new().stack_size(16 * 1024).spawn(waits)
        }),
        // Each page is written to, or none of it would be memory.
        "memory" => report(many, stay, |_| {
            let mut block = Vec::new();
            block.try_reserve_exact(MIB).map_err(|_| Error::from(Errno::ENOMEM))?;
            block.resize(MIB, 1u8);
            Ok(block)
        }),
        "descriptors" => report(many, stay, |_| File::open("/dev/null")),
        "files" => report(many, stay, |n| File::create(dir.join(format!("file-{n}"))).map(drop)),
        "disk" => {
            // One file after the other, so that a bound of one file does not answer for the directory's.
            report(many, stay, |n| fs::write(dir.join(format!("fill-{n}")), vec![1u8; MIB]));
        }
        "file" => {
            // Else the answer would be the signal.
            sys::signal_ignore(Signal::SIGXFSZ as i32).expect("signals");
            let mut file = File::create(dir.join("file")).expect("a file");
            report(many, stay, |_| file.write_all(&vec![1u8; MIB]));
        }
        other => panic!("nothing known of {other}"),
    }
}

fn report<T>(many: usize, stay: bool, mut take: impl FnMut(usize) -> Result<T, Error>) {
    let mut taken = Vec::with_capacity(many);
    let mut answer = None;
    for n in 0..many {
        match take(n) {
            Ok(one) => taken.push(one),
            Err(error) => {
                answer = Some(error);
                break;
            }
        }
    }
    tell(taken.len(), answer.and_then(|e| e.raw_os_error()), stay);
}

fn tell(made: usize, errno: Option<i32>, stay: bool) {
    let errno = errno.map_or_else(|| "all".to_owned(), |n| format!("{:?}", Errno::from_raw(n)));
    println!("made {made}: {errno}");
    if stay {
        let _ = std::io::stdin().read(&mut [0]);
    }
}

fn processes(many: usize, stay: bool) {
    let mut children = Vec::new();
    let mut answer = None;
    for _ in 0..many {
        let child = process::fork(|| {
            loop {
                nix::unistd::pause();
            }
        });
        match child {
            Ok(child) => children.push(Pid::from_raw(child.pid())),
            Err(error) => {
                answer = error.errno().map(|errno| errno as i32);
                break;
            }
        }
    }
    tell(children.len(), answer, stay);
    let ended = |child: &Pid| kill(*child, Signal::SIGKILL).is_ok();
    assert!(children.iter().all(ended));
}
