//! Finds and reads the policy files of a session and merges them.

use crate::names;
use picktwo_policies::diagnostics::{Diagnostics, Kind, Origin};
use picktwo_policies::model::{self, Layer, Policy};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// More than any policy holds, in bytes.
const LARGEST: u64 = 1 << 20;

/// Why there is no policy in force.
#[derive(Debug)]
pub(crate) enum PolicyError {
    /// A file that was named, or that exists, cannot be read.
    Unreadable(PathBuf, io::Error),
    /// A profile that does not exist; holds the known ones.
    NoProfile(String, String),
    /// What the files say is wrong.
    Wrong(Diagnostics),
    /// The user's policy cannot be looked for.
    NoHome(names::NoHome),
}

impl PolicyError {
    /// As people read it, with the offending key underlined.
    pub(crate) fn render(&self, colour: bool) -> String {
        match self {
            Self::Unreadable(path, e) => format!("picktwo: cannot read the policy {}: {e}\n", path.display()),
            Self::NoProfile(name, known) => {
                format!("picktwo: no profile `{name}`: choose one of {known}, or name a file that ends in .toml\n")
            }
            Self::Wrong(diagnostics) => format!("{}\n", diagnostics.render(colour).trim_end()),
            Self::NoHome(e) => format!("picktwo: {e}\n"),
        }
    }
}

/// A policy and the files it came from.
pub(crate) struct Loaded {
    /// The merged policy.
    pub(crate) policy: Policy,
    /// Files of system, user and command line, which must stay invisible and unchanged; the project's own is protected by name.
    pub(crate) files: Vec<PathBuf>,
}

/// The text of a policy file. A project's comes with the repository: it is no link, which could lead to a file of the person's, whose
/// lines an error would show.
fn text(path: &Path, project: bool) -> io::Result<String> {
    let no_link = if project { nix::libc::O_NOFOLLOW } else { 0 };
    let opened = File::options()
        .read(true)
        // Nobody waits for the other end of a FIFO.
        .custom_flags(nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY | no_link)
        .open(path);
    let file = match opened {
        Err(e) if project && e.raw_os_error() == Some(nix::libc::ELOOP) => {
            return Err(io::Error::other(
                "it is a symbolic link: put the file itself in its place, or take it away",
            ));
        }
        other => other?,
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other(format!("it is larger than {LARGEST} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8 text"))
}

fn read(path: &Path, kind: Kind, needed: bool) -> Result<Option<Layer>, PolicyError> {
    let text = match text(path, kind == Kind::Project) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound && !needed => return Ok(None),
        Err(e) => return Err(PolicyError::Unreadable(path.to_path_buf(), e)),
    };
    model::parse(&text, Origin::new(kind, path.display().to_string()))
        .map(Some)
        .map_err(PolicyError::Wrong)
}

/// Reads a layer and, before it, the files that it extends (relative to its own directory), weakest first.
fn read_with_extended(
    path: &Path,
    kind: Kind,
    needed: bool,
    layers: &mut Vec<Layer>,
    files: &mut Vec<PathBuf>,
) -> Result<(), PolicyError> {
    let Some(layer) = read(path, kind, needed)? else {
        return Ok(());
    };
    files.push(path.to_path_buf());
    if kind != Kind::Project {
        for name in layer.extends.iter().filter(|n| n.contains('/') || n.ends_with(".toml")) {
            let file = path.parent().unwrap_or(Path::new("/")).join(&name.value);
            if let Some(extended) = read(&file, kind, true)? {
                files.push(file);
                layers.push(extended);
            }
        }
    }
    layers.push(layer);
    Ok(())
}

/// Loads the policy for a command in a workspace.
///
/// # Errors
/// Every problem of the files, or the first that cannot be read.
pub(crate) fn load(
    workspace: Option<&Path>,
    profile: Option<&str>,
    command: Option<&str>,
    extra: Option<&Path>,
) -> Result<Loaded, PolicyError> {
    let (mut layers, mut files) = (Vec::new(), Vec::new());
    let mut selected = None;
    match profile {
        Some(file) if file.ends_with(".toml") => {
            read_with_extended(Path::new(file), Kind::CommandLine, true, &mut layers, &mut files)?;
        }
        Some(name) => match model::BUILTIN.iter().map(|(n, _)| *n).find(|n| *n == name) {
            Some(known) => selected = Some(known),
            None => {
                let known: Vec<&str> = model::BUILTIN
                    .iter()
                    .map(|(n, _)| *n)
                    .filter(|n| is_profile(n))
                    .collect();
                return Err(PolicyError::NoProfile(name.to_owned(), known.join(", ")));
            }
        },
        None => selected = command.and_then(model::profile_for),
    }
    read_with_extended(
        Path::new(names::SYSTEM_POLICY),
        Kind::System,
        false,
        &mut layers,
        &mut files,
    )?;
    let user = names::user_policy().map_err(PolicyError::NoHome)?;
    read_with_extended(&user, Kind::User, false, &mut layers, &mut files)?;
    if let Some(workspace) = workspace {
        let mut project = Vec::new();
        read_with_extended(
            &workspace.join(names::PROJECT_POLICY),
            Kind::Project,
            false,
            &mut layers,
            &mut project,
        )?;
    }
    if let Some(extra) = extra {
        read_with_extended(extra, Kind::CommandLine, true, &mut layers, &mut files)?;
    }
    let stacked = model::stack(selected, layers).map_err(PolicyError::Wrong)?;
    let policy = model::effective(&stacked).map_err(PolicyError::Wrong)?;
    Ok(Loaded { policy, files })
}

fn is_profile(name: &str) -> bool {
    model::profile(name).is_some_and(|text| text.lines().any(|l| l == "[profile]"))
}

/// SHA-256 of the effective policy, as records state it.
pub(crate) fn fingerprint(policy: &Policy) -> String {
    crate::record::hash(&serde_json::to_vec(policy).unwrap_or_default())
}
