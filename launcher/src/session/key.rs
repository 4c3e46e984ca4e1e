//! Reads model keys from where the policy says, before the launcher locks itself.

use picktwo_policies::model::KeySource;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Bytes of a key; longer ones are a mistake.
const MAX_KEY: u64 = 8192;

/// Why a key could not be read. Never holds the key.
#[derive(Debug)]
pub(crate) enum KeyError {
    /// The variable is not set, or empty.
    Variable(String),
    /// The file cannot be read.
    File(PathBuf, std::io::Error),
    /// The command cannot be run or failed.
    Command(String, String),
    /// The source gave nothing, or more than a key.
    NoKey(String),
    /// Not supported yet.
    Keyring(String),
}

impl std::fmt::Display for KeyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "the environment variable {name} is not set"),
            Self::File(path, e) => write!(f, "the key file {} cannot be read: {e}", path.display()),
            Self::Command(command, why) => write!(f, "the key command `{command}` failed: {why}"),
            Self::NoKey(source) => write!(f, "{source} gave no single line that could be a key"),
            Self::Keyring(name) => {
                write!(
                    f,
                    "keyring:{name} is not supported yet: use command: with your keyring's own tool"
                )
            }
        }
    }
}

/// Reads a key.
///
/// # Errors
/// Where it was looked for and why it is not there.
pub(crate) fn read(source: &KeySource) -> Result<String, KeyError> {
    match source {
        KeySource::Env(name) => match std::env::var(name) {
            Ok(key) if !key.trim().is_empty() => checked(&key, &format!("the environment variable {name}")),
            _ => Err(KeyError::Variable(name.clone())),
        },
        KeySource::File(path) => {
            let path = expand_home(path);
            let file = std::fs::File::open(&path).map_err(|e| KeyError::File(path.clone(), e))?;
            let line = first_line(file).map_err(|e| KeyError::File(path.clone(), e))?;
            checked(&line, &format!("the key file {}", path.display()))
        }
        KeySource::Command(command) => {
            let failed = |why: String| KeyError::Command(command.clone(), why);
            let mut child = Command::new("/bin/sh")
                .args(["-c", command])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .map_err(|e| failed(e.to_string()))?;
            let line = child
                .stdout
                .take()
                .map(first_line)
                .transpose()
                .map_err(|e| failed(e.to_string()))?;
            let status = child.wait().map_err(|e| failed(e.to_string()))?;
            if !status.success() {
                return Err(failed(status.to_string()));
            }
            checked(&line.unwrap_or_default(), &format!("the key command `{command}`"))
        }
        KeySource::Keyring(name) => Err(KeyError::Keyring(name.clone())),
    }
}

fn first_line(source: impl Read) -> std::io::Result<String> {
    let mut line = String::new();
    BufReader::new(source.take(MAX_KEY)).read_line(&mut line)?;
    Ok(line)
}

fn checked(text: &str, source: &str) -> Result<String, KeyError> {
    let key = text.trim();
    if key.is_empty() || !key.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(KeyError::NoKey(source.to_owned()));
    }
    Ok(key.to_owned())
}

/// `~/…` as the shell reads it.
pub(crate) fn expand_home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), crate::names::home_dir()) {
        (Some(rest), Ok(home)) => home.join(rest),
        _ => PathBuf::from(path),
    }
}
