//! What grants cost, on tmpfs. Prints; run with `--release -- --ignored --nocapture costs`.

use super::harness::{Checks, Scene, close, open, path1, path2, write_file};
use nix::libc::*;
use picktwo_confine::Errno;
use picktwo_inside::mode::Mode;
use std::time::Instant;

const ROUNDS: usize = 4000;

fn median(mut call: impl FnMut(usize) -> Result<i64, Errno>) -> f64 {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|i| {
            let start = Instant::now();
            let got = call(i);
            let time = start.elapsed().as_secs_f64() * 1e6;
            if let Ok(fd) = got
                && fd > 2
            {
                close(fd);
            }
            time
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[ROUNDS / 2]
}

fn calls(s: &Checks) -> Vec<(&'static str, f64)> {
    let absolute = s.w.join("d/f").to_string_lossy().into_owned();
    let _ = std::fs::create_dir_all("d/e");
    let _ = write_file("d/f", O_WRONLY | O_CREAT | O_TRUNC, "x");
    vec![
        ("open, relative", median(|_| open("d/f", O_WRONLY, 0))),
        ("open, absolute", median(|_| open(&absolute, O_WRONLY, 0))),
        (
            "open, truncating",
            median(|_| open("d/f", O_WRONLY | O_CREAT | O_TRUNC, 0o666)),
        ),
        (
            "create",
            median(|i| open(&format!("d/e/{i}"), O_WRONLY | O_CREAT | O_EXCL, 0o644)),
        ),
        (
            "rename",
            median(|i| path2(SYS_rename, &format!("d/e/{i}"), &format!("d/e/r{i}"))),
        ),
        ("chmod", median(|i| path1(SYS_chmod, "d/f", &[0o600 | (i & 1) as i64]))),
        ("unlink", median(|i| path1(SYS_unlink, &format!("d/e/r{i}"), &[]))),
        ("mkdir", median(|i| path1(SYS_mkdir, &format!("d/e/d{i}"), &[0o777]))),
        ("/dev/null", median(|_| open("/dev/null", O_WRONLY, 0))),
        ("read-only open", median(|_| open("d/f", O_RDONLY, 0))),
    ]
}

#[test]
#[ignore = "prints measurements"]
fn costs_of_calls() {
    let scene = Scene::at("/dev/shm", Mode::Edit, &[]);
    scene.run(|s| {
        for (what, time) in calls(s) {
            eprintln!("{what:20} {time:6.1} us");
        }
    });
}

#[test]
#[ignore = "prints measurements"]
fn costs_of_programs() {
    let scene = Scene::at("/dev/shm", Mode::Edit, &[]);
    let prepare = format!(
        "cd {o}; mkdir t; for d in $(seq 1 200); do mkdir t/$d; for f in $(seq 1 100); do echo $f > t/$d/$f; done; done; tar cf t.tar t; \
         mkdir g; cd g; git init -q .; for d in $(seq 1 60); do mkdir $d; for f in $(seq 1 100); do echo $f > $d/$f; done; done; git add .; \
         git -c user.name=a -c user.email=b commit -qm 1; git checkout -q -b two; git rm -rq .; git -c user.name=a -c user.email=b commit -qm 2; git checkout -q master || git checkout -q main",
        o = scene.out.display()
    );
    assert!(
        std::process::Command::new("/bin/sh")
            .arg("-c")
            .arg(prepare)
            .output()
            .unwrap()
            .status
            .success()
    );
    let tar = format!("tar xf {}/t.tar -C x", scene.out.display());
    let git = format!("rm -rf r; cp -r {}/g r; cd r; git checkout -q two", scene.out.display());
    let checkout = "cd r; git checkout -q -; git checkout -q -; git checkout -q -";
    let mut served = [0.0; 2];
    let mut results = [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
    for _ in 0..5 {
        for (i, (before, line)) in [("rm -rf x; mkdir x", tar.as_str()), (git.as_str(), checkout)]
            .iter()
            .enumerate()
        {
            let bare = scene.out.join("bare");
            std::fs::create_dir_all(&bare).unwrap();
            let run = |dir: &std::path::Path| {
                let start = Instant::now();
                let done = std::process::Command::new("/bin/sh")
                    .arg("-c")
                    .arg(line)
                    .current_dir(dir)
                    .output()
                    .unwrap();
                assert!(done.status.success(), "{done:?}");
                start.elapsed().as_secs_f64() * 1e3
            };
            for dir in [&bare, &scene.w] {
                let _ = std::process::Command::new("/bin/sh")
                    .arg("-c")
                    .arg(before)
                    .current_dir(dir)
                    .output();
            }
            results[i][0].push(run(&bare));
            let file = scene.out.join("time");
            let before = own_time();
            scene.run(|s| {
                let start = Instant::now();
                s.works(line);
                let _ = std::fs::write(s.out.join("time"), format!("{}", start.elapsed().as_secs_f64() * 1e3));
            });
            served[i] += (own_time() - before) / 5.0;
            results[i][1].push(std::fs::read_to_string(file).unwrap().parse().unwrap());
        }
    }
    let names = ["tar of 20,000 files", "git checkout, 3 x 6,000"];
    for ((what, [mut bare, mut granted]), served) in names.iter().zip(results).zip(served) {
        bare.sort_by(f64::total_cmp);
        granted.sort_by(f64::total_cmp);
        eprintln!(
            "{what:25} bare {:6.0} ms, granted {:6.0} ms: {:.1} x, of that {served:.0} ms of the supervisor's",
            bare[2],
            granted[2],
            granted[2] / bare[2]
        );
    }
}

/// Processor time of this process, in milliseconds.
fn own_time() -> f64 {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF).unwrap();
    let ms = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 * 1e3 + t.tv_usec() as f64 / 1e3;
    ms(usage.user_time()) + ms(usage.system_time())
}
