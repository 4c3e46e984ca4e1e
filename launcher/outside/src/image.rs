//! The files that picktwo's own program consists of: what a supervisor has to be able to execute and read to start a role.

use std::path::PathBuf;

/// Files beside the mapped ones that the dynamic loader reads when the program starts.
const LOADER: &[&str] = &["/etc/ld.so.cache"];

/// The program, its dynamic loader and libraries, as they are mapped into this process, and what the loader reads. A
/// statically linked program is just itself. Files that were replaced or removed since the start are left out; the program
/// itself is started through a descriptor, so that it need not have a name any more.
#[must_use]
pub fn image_files() -> Vec<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut files = mapped(&maps);
    files.extend(LOADER.iter().map(PathBuf::from));
    files.retain(|path| path.is_file());
    files
}

/// Absolute paths of the files in `maps` (proc_pid_maps(5)), each once, in order.
fn mapped(maps: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    for line in maps.lines() {
        // address perms offset dev inode pathname; the path may contain blanks.
        let mut rest = line;
        for _ in 0..5 {
            rest = rest.trim_start().split_once(' ').map_or("", |(_, rest)| rest);
        }
        let path = PathBuf::from(rest.trim_start());
        if path.is_absolute() && !files.contains(&path) {
            files.push(path);
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_whole_and_once() {
        let maps = "\
00400000-00452000 r-xp 00000000 08:02 173521                             /opt/my tools/picktwo
00651000-00652000 r--p 00051000 08:02 173521                             /opt/my tools/picktwo
00e03000-00e24000 rw-p 00000000 00:00 0                                  [heap]
35b1800000-35b1820000 r-xp 00000000 08:02 135522                         /usr/lib/ld-2.15.so
35b1a21000-35b1a22000 rw-p 00000000 00:00 0
7fff-8fff r-xp 00000000 00:00 0                                          [vdso]
";
        assert_eq!(
            mapped(maps),
            [
                PathBuf::from("/opt/my tools/picktwo"),
                PathBuf::from("/usr/lib/ld-2.15.so")
            ]
        );
    }

    #[test]
    fn the_running_program_is_among_them() {
        let exe = std::fs::read_link("/proc/self/exe").expect("own path");
        assert!(image_files().contains(&exe), "{:?}", image_files());
    }
}
