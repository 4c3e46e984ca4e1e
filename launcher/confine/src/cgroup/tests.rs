use super::*;
use crate::process;
use std::os::unix::fs::PermissionsExt;

/// A directory that looks like a group whose children have `controllers`. The kernel would fill a new one; here the test does.
fn hierarchy(name: &str, controllers: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("picktwo-cgroup-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("cgroup.subtree_control"), controllers).unwrap();
    fs::write(dir.join("cgroup.procs"), "").unwrap();
    dir
}

fn furnished(parent: &Parent, name: &str, most: Most) -> (PathBuf, Result<Cgroup>) {
    let path = parent.dir.join(name);
    fs::create_dir(&path).unwrap();
    for file in ["memory.max", "memory.oom.group", "pids.max", "cgroup.kill"] {
        fs::write(path.join(file), "").unwrap();
    }
    let made = parent.furnish(&path, name, most);
    (path, made)
}

const MOST: Most = Most {
    memory: 1 << 30,
    processes: 100,
};

#[test]
fn the_own_group_is_the_one_of_version_2() {
    let top = Path::new("/sys/fs/cgroup/unified");
    let own = below(top, "4:memory:/x\n0::/user.slice/user-1000.slice/a.scope\n").unwrap();
    assert_eq!(own, top.join("user.slice/user-1000.slice/a.scope"));
    assert_eq!(below(top, "0::/\n").unwrap(), top);
    assert_eq!(below(top, "0::/../x\n"), None);
    assert_eq!(below(top, "4:memory:/x\n"), None);
}

#[test]
fn a_parent_gives_controllers_and_may_be_written() {
    let top = hierarchy("parent", "cpu memory pids\n");
    let own = top.join("a.scope");
    fs::create_dir(&own).unwrap();
    fs::write(own.join("cgroup.subtree_control"), "\n").unwrap();
    fs::write(own.join("cgroup.procs"), "").unwrap();
    let found = Parent::near(&own, &top).unwrap();
    assert_eq!(
        (found.path(), found.memory, found.processes),
        (top.as_path(), true, true)
    );
    assert_eq!(found.own.as_deref(), Some(own.as_path()));
    // Not above what can be seen.
    assert_eq!(Parent::near(&own, &own), None);
    fs::write(top.join("cgroup.subtree_control"), "pids cpu\n").unwrap();
    let found = Parent::near(&own, &top).unwrap();
    assert_eq!((found.memory, found.processes), (false, true));
    fs::write(top.join("cgroup.subtree_control"), "cpu hugetlb\n").unwrap();
    assert_eq!(Parent::near(&own, &top), None);
    fs::write(top.join("cgroup.subtree_control"), "memory pids\n").unwrap();
    fs::remove_file(top.join("cgroup.procs")).unwrap();
    assert_eq!(
        Parent::near(&own, &top),
        None,
        "its list of processes cannot be written"
    );
    let _ = fs::remove_dir_all(top);
}

#[test]
fn bounds_are_written_and_those_of_the_own_group_stay() {
    let top = hierarchy("bounds", "memory pids\n");
    let own = top.join("own.scope");
    fs::create_dir(&own).unwrap();
    fs::write(own.join("memory.max"), "536870912\n").unwrap();
    fs::write(own.join("pids.max"), "max\n").unwrap();
    let parent = Parent {
        dir: top.clone(),
        own: Some(own),
        memory: true,
        processes: true,
    };
    let (path, made) = furnished(&parent, "picktwo-x", MOST);
    let mut group = made.unwrap();
    let read = |file: &str| fs::read_to_string(path.join(file)).unwrap();
    assert_eq!(read("memory.max"), "536870912");
    assert_eq!(read("pids.max"), "100");
    assert_eq!(read("memory.oom.group"), "1");
    assert!(!path.join("memory.swap.max").exists());
    assert_eq!(group.parent(), top);
    group.remove();
    assert_eq!(read("cgroup.kill"), "1");

    // A bound that cannot be set is no session.
    fs::create_dir(top.join("picktwo-y")).unwrap();
    let error = parent.furnish(&top.join("picktwo-y"), "picktwo-y", MOST).unwrap_err();
    assert!(error.to_string().contains("picktwo-y/memory.max"), "{error}");
    let _ = fs::remove_dir_all(top);
}

/// Groups of the kernel's own: only where this process may make them.
fn real() -> Option<Parent> {
    let (own, _) = own_group()?;
    let dir = [Some(own.as_path()), own.parent()].into_iter().flatten().find(|dir| {
        let probe = dir.join(format!("picktwo-probe-{}", std::process::id()));
        let may = |name: &str| nix::unistd::eaccess(&dir.join(name), AccessFlags::W_OK).is_ok();
        may("cgroup.procs") && fs::create_dir(&probe).and_then(|()| fs::remove_dir(&probe)).is_ok()
    })?;
    // Without bounds: the controllers may all be version 1's.
    Some(Parent {
        dir: dir.to_path_buf(),
        own: None,
        memory: false,
        processes: false,
    })
}

fn not_run(name: &str) {
    let line = format!("NOT RUN {name}: no control group of version 2 can be made here\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

#[test]
fn a_child_begins_in_its_group_and_ends_with_it() {
    let Some(parent) = real() else {
        return not_run("cgroup::tests::a_child_begins_in_its_group_and_ends_with_it");
    };
    let output = crate::testing::child_says(move || {
        let name = format!("begin-{}", std::process::id());
        let group = parent.create(&name, MOST).unwrap();
        let path = parent.dir.join(format!("{PREFIX}{name}"));
        let child = process::fork_bound_into(Some(group.fd()), "a child", || {
            // What it starts is in it as well, and nobody ends that but the group.
            let _ = process::fork(|| {
                loop {
                    nix::unistd::pause();
                }
            });
            loop {
                nix::unistd::pause();
            }
        })
        .unwrap();
        let members = || fs::read_to_string(path.join("cgroup.procs")).unwrap();
        while members().lines().count() < 2 {
            std::thread::yield_now();
        }
        let own = std::process::id().to_string();
        assert!(
            members().lines().any(|pid| pid == child.pid().to_string()) && !members().lines().any(|pid| pid == own)
        );
        drop(group);
        let exit = child.wait().unwrap();
        format!("{exit:?} {}", path.exists())
    });
    assert_eq!(output, "Signal(9) false");
}

#[test]
fn what_a_killed_launcher_left_is_swept_and_what_is_held_stays() {
    let Some(parent) = real() else {
        return not_run("cgroup::tests::what_a_killed_launcher_left_is_swept_and_what_is_held_stays");
    };
    let name = |part: &str| format!("{part}-{}", std::process::id());
    let held = parent.create(&name("held"), MOST).unwrap();
    let left = parent.dir.join(format!("{PREFIX}{}", name("left")));
    fs::create_dir(&left).unwrap();
    let other = parent.dir.join(name("other"));
    fs::create_dir(&other).unwrap();
    sweep(&parent.dir);
    assert!(left.exists(), "it may be one that is just being made");
    // Its time of change cannot be set back.
    std::thread::sleep(Duration::from_secs(STALE.cast_unsigned() + 2));
    sweep(&parent.dir);
    assert!(!left.exists());
    assert!(other.exists() && parent.dir.join(&held.name).exists());
    fs::remove_dir(other).unwrap();
    drop(held);
}

#[test]
fn a_group_that_is_not_ours_is_left_alone() {
    let top = hierarchy("foreign", "memory pids\n");
    let file = top.join("picktwo-file");
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    sweep(&top);
    assert!(file.exists());
    let _ = fs::remove_dir_all(top);
}
