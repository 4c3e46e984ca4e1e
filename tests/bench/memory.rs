//! Private memory of all of picktwo's processes of one idle session with a gateway.

use crate::measure::Bench;
use std::io::Result;
use std::time::Duration;

/// Prints what each process holds for itself alone.
pub(crate) fn idle(bench: &Bench) -> Result<()> {
    println!("\nprivate memory of an idle session with a gateway");
    let mut session = bench
        .session_with_gateway("http://127.0.0.1:9", "sleep", &["20"])
        .spawn()?;
    std::thread::sleep(Duration::from_secs(2));
    let mut total = 0;
    let mut pids = vec![session.id()];
    let mut at = 0;
    while let Some(pid) = pids.get(at).copied() {
        at += 1;
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        pids.extend(children.split_whitespace().filter_map(|p| p.parse::<u32>().ok()));
        let title = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let title = String::from_utf8_lossy(&title).replace('\0', " ");
        if title.starts_with("sleep") {
            continue;
        }
        let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let field = |name: &str| {
            let line = rollup.lines().find_map(|l| l.strip_prefix(name));
            line.and_then(|l| l.split_whitespace().next())
                .and_then(|n| n.parse::<u64>().ok())
                .unwrap_or(0)
        };
        let private = field("Private_Clean:") + field("Private_Dirty:");
        total += private;
        let short: String = title.chars().take(34).collect();
        println!("  {short:<34} {:>9.2} MB", private as f64 / 1024.0);
    }
    println!("  {:<34} {:>9.2} MB", "all", total as f64 / 1024.0);
    session.kill()?;
    session.wait().map(drop)
}
