//! Which directory may be a workspace.

use nix::errno::Errno;
use std::fmt;
use std::path::{Path, PathBuf};

/// Directories of the person that decide what may be a workspace. All absolute.
#[derive(Clone, Debug)]
pub struct Places {
    /// HOME.
    pub home: PathBuf,
    /// picktwo's state directory.
    pub state: PathBuf,
    /// picktwo's configuration directory.
    pub config: PathBuf,
    /// Policy files and directories in use, wherever they lie; a project's own `.picktwo.toml` is not one of them.
    pub policy: Vec<PathBuf>,
}

/// Why a directory cannot be a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It cannot be resolved or looked at.
    Unreadable {
        /// The directory, as given.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// It is not a directory.
    NotADirectory(PathBuf),
    /// It is HOME or contains it.
    Home {
        /// The directory, resolved.
        path: PathBuf,
        /// HOME.
        home: PathBuf,
    },
    /// It contains, is or lies in a place of picktwo's own.
    Own {
        /// The directory, resolved.
        path: PathBuf,
        /// What the place is.
        what: &'static str,
        /// The place.
        place: PathBuf,
    },
    /// It is, contains or lies in a directory of the system.
    System {
        /// The directory, resolved.
        path: PathBuf,
        /// The system directory.
        place: PathBuf,
    },
    /// It is a directory that many share (`/tmp` itself): a directory of its own below it is fine.
    Shared(PathBuf),
    /// It lies in or is a place for the person's credentials.
    Credentials {
        /// The directory, resolved.
        path: PathBuf,
        /// The place.
        place: PathBuf,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, errno } => {
                write!(f, "the workspace {} cannot be used: {}", path.display(), errno.desc())
            }
            Self::NotADirectory(path) => write!(f, "the workspace {} is not a directory", path.display()),
            Self::Home { path, home } if path == home => {
                write!(
                    f,
                    "the workspace cannot be your home directory {}: choose a project's directory below it",
                    home.display()
                )
            }
            Self::Home { path, home } => {
                write!(
                    f,
                    "the workspace {} contains your home directory {}",
                    path.display(),
                    home.display()
                )
            }
            Self::Own { path, what, place } if place.starts_with(path) => {
                write!(
                    f,
                    "the workspace {} contains picktwo's {what} {}",
                    path.display(),
                    place.display()
                )
            }
            Self::Own { path, what, place } => {
                write!(
                    f,
                    "the workspace {} lies in picktwo's {what} {}",
                    path.display(),
                    place.display()
                )
            }
            Self::System { path, place } if path == place || place.starts_with(path) => {
                write!(
                    f,
                    "the workspace {} is or contains the system directory {}",
                    path.display(),
                    place.display()
                )
            }
            Self::System { path, place } => {
                write!(
                    f,
                    "the workspace {} lies in the system directory {}",
                    path.display(),
                    place.display()
                )
            }
            Self::Shared(path) => {
                write!(
                    f,
                    "the workspace cannot be {} itself, which others use too: choose a directory of its own",
                    path.display()
                )
            }
            Self::Credentials { path, place } => {
                write!(
                    f,
                    "the workspace {} lies in {}, which holds credentials",
                    path.display(),
                    place.display()
                )
            }
        }
    }
}

impl std::error::Error for Refused {}

/// Neither these nor anything in them.
const SYSTEM_TREES: &[&str] = &[
    "/bin",
    "/boot",
    "/dev",
    "/efi",
    "/etc",
    "/gnu/store",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/lost+found",
    "/nix",
    "/proc",
    "/sbin",
    "/snap",
    "/sys",
    "/usr",
    "/run/picktwo",
];
/// Not these, but directories below them: people keep projects and temporary checkouts there.
const SHARED: &[&str] = &[
    "/dev/shm",
    "/home",
    "/media",
    "/mnt",
    "/opt",
    "/run",
    "/run/media",
    "/run/user",
    "/srv",
    "/tmp",
    "/var/tmp",
];
/// Not these, nor the directories right below them, which belong to services (`/var/lib/docker`).
const SERVICES: &[&str] = &["/var", "/var/cache", "/var/lib", "/var/log", "/var/run", "/var/spool"];
/// Below HOME: places whose content is secret as a whole.
const CREDENTIALS: &[&str] = &[
    ".aws",
    ".azure",
    ".docker",
    ".gnupg",
    ".kube",
    ".local/share/keyrings",
    ".mozilla",
    ".password-store",
    ".pki",
    ".ssh",
    ".thunderbird",
];

/// Decides whether `path` may be a workspace, and resolves it: the result is absolute and has no links.
///
/// # Errors
/// The reason, as a sentence for the person.
pub fn workspace_check(path: &Path, places: &Places) -> Result<PathBuf, Refused> {
    let unreadable = |error: std::io::Error| Refused::Unreadable {
        path: path.to_path_buf(),
        errno: error.raw_os_error().map_or(Errno::EINVAL, Errno::from_raw),
    };
    let resolved = path.canonicalize().map_err(unreadable)?;
    if !resolved.metadata().map_err(unreadable)?.is_dir() {
        return Err(Refused::NotADirectory(resolved));
    }
    let resolve = |place: &Path| place.canonicalize().unwrap_or_else(|_| place.to_path_buf());
    decide(
        &resolved,
        &Places {
            home: resolve(&places.home),
            state: resolve(&places.state),
            config: resolve(&places.config),
            policy: places.policy.iter().map(|p| resolve(p)).collect(),
        },
    )?;
    Ok(resolved)
}

/// The decision on resolved paths.
fn decide(path: &Path, places: &Places) -> Result<(), Refused> {
    let owned = path.to_path_buf();
    if path == Path::new("/") {
        return Err(Refused::System {
            path: owned,
            place: "/".into(),
        });
    }
    if places.home.starts_with(path) && places.home != Path::new("/") {
        return Err(Refused::Home {
            path: owned,
            home: places.home.clone(),
        });
    }
    let own = [
        ("state directory", &places.state),
        ("configuration directory", &places.config),
    ];
    let policy = places.policy.iter().map(|p| ("policy", p));
    for (what, place) in own.into_iter().chain(policy) {
        if path.starts_with(place) || place.starts_with(path) {
            return Err(Refused::Own {
                path: owned,
                what,
                place: place.clone(),
            });
        }
    }
    if SHARED.iter().any(|shared| path == Path::new(shared)) {
        return Err(Refused::Shared(owned));
    }
    let below_shm = path.starts_with("/dev/shm");
    for tree in SYSTEM_TREES {
        if (path.starts_with(tree) && !below_shm) || Path::new(tree).starts_with(path) {
            return Err(Refused::System {
                path: owned,
                place: tree.into(),
            });
        }
    }
    for service in SERVICES {
        if path == Path::new(service) || (path.parent() == Some(Path::new(service)) && *service != "/var") {
            return Err(Refused::System {
                path: owned,
                place: service.into(),
            });
        }
    }
    for name in CREDENTIALS {
        let place = places.home.join(name);
        if path.starts_with(&place) {
            return Err(Refused::Credentials { path: owned, place });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        Places {
            home: "/home/u".into(),
            state: "/home/u/.local/state/picktwo".into(),
            config: "/home/u/.config/picktwo".into(),
            policy: vec!["/srv/policies/team.toml".into()],
        }
    }

    fn refused(path: &str) -> Refused {
        decide(Path::new(path), &places()).expect_err(path)
    }

    #[test]
    fn projects_are_fine() {
        for path in [
            "/home/u/project",
            "/srv/x",
            "/tmp/x",
            "/var/tmp/x",
            "/opt/x",
            "/mnt/disk/p",
            "/dev/shm/x",
            "/code/main",
            "/var/www/site",
            "/var/lib/ci/job",
        ] {
            assert_eq!(decide(Path::new(path), &places()), Ok(()), "{path}");
        }
    }

    #[test]
    fn home_and_what_contains_it() {
        for path in ["/home/u", "/home"] {
            assert!(matches!(refused(path), Refused::Home { .. }), "{path}");
        }
        assert!(refused("/home/u").to_string().contains("cannot be your home directory"));
    }

    #[test]
    fn own_places_in_both_directions() {
        for (path, text) in [
            ("/home/u/.local", "contains picktwo's state directory"),
            (
                "/home/u/.local/state/picktwo/agents",
                "lies in picktwo's state directory",
            ),
            ("/home/u/.config", "contains picktwo's configuration directory"),
            ("/srv/policies", "contains picktwo's policy"),
        ] {
            assert!(refused(path).to_string().contains(text), "{path}: {}", refused(path));
        }
    }

    #[test]
    fn system_and_shared_directories() {
        for path in [
            "/",
            "/usr",
            "/usr/src/linux",
            "/etc",
            "/proc",
            "/proc/1",
            "/dev",
            "/dev/pts",
            "/sys",
            "/boot",
            "/nix/store",
            "/gnu",
            "/var",
            "/var/lib",
            "/var/lib/docker",
            "/run/picktwo",
        ] {
            assert!(
                matches!(refused(path), Refused::System { .. }),
                "{path}: {:?}",
                refused(path)
            );
        }
        for path in ["/tmp", "/var/tmp", "/dev/shm", "/mnt", "/opt", "/run"] {
            assert!(
                matches!(refused(path), Refused::Shared(_)),
                "{path}: {:?}",
                refused(path)
            );
        }
    }

    #[test]
    fn credentials() {
        assert!(matches!(refused("/home/u/.ssh"), Refused::Credentials { .. }));
        assert!(matches!(
            refused("/home/u/.password-store/work"),
            Refused::Credentials { .. }
        ));
    }

    #[test]
    fn links_and_what_is_no_directory() {
        let dir = std::env::temp_dir().join(format!("picktwo-workspace-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("file"), "").unwrap();
        std::os::unix::fs::symlink("/usr", dir.join("link")).unwrap();
        assert!(matches!(
            workspace_check(&dir.join("file"), &places()),
            Err(Refused::NotADirectory(_))
        ));
        assert!(matches!(
            workspace_check(&dir.join("link"), &places()),
            Err(Refused::System { .. })
        ));
        assert_eq!(
            workspace_check(&dir.join("absent"), &places()),
            Err(Refused::Unreadable {
                path: dir.join("absent"),
                errno: Errno::ENOENT
            })
        );
        assert_eq!(workspace_check(&dir, &places()), Ok(dir.canonicalize().unwrap()));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
