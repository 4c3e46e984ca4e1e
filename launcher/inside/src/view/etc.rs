//! `/etc`: what ordinary programs need of it, by name. Whatever is not named here does not exist inside, whoever runs
//! picktwo: no shadow file, host keys, sudoers, machine id, registry tokens or connection settings.

use super::error::Error;
use super::plan::{HOST_NAME, Identity};
use super::tree::Tree;
use nix::errno::Errno;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

/// Files, copied; directories, bound read-only; links into /usr, kept as links. Names may have one slash.
const ALLOWED: &[&str] = &[
    // The loader and the C library.
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "ld-musl-x86_64.path",
    "locale.alias",
    "locale.conf",
    "default/locale",
    "localtime",
    "timezone",
    "gai.conf",
    "host.conf",
    "services",
    "protocols",
    "rpc",
    "ethertypes",
    "networks",
    // Certificates, without private keys.
    "ssl/certs",
    "ssl/openssl.cnf",
    "ssl/cert.pem",
    "ssl/ca-bundle.pem",
    "ca-certificates",
    "ca-certificates.conf",
    "pki/ca-trust",
    "pki/tls/certs",
    "pki/tls/cert.pem",
    "pki/tls/openssl.cnf",
    "pki/java",
    "crypto-policies",
    // Shells and terminals.
    "profile",
    "profile.d",
    "bash.bashrc",
    "bashrc",
    "bash_completion",
    "bash_completion.d",
    "inputrc",
    "shells",
    "terminfo",
    "termcap",
    "zsh",
    "zshrc",
    "zshenv",
    "zprofile",
    "fish",
    "vim",
    "nanorc",
    "lesskey",
    // What the system is.
    "os-release",
    "lsb-release",
    "debian_version",
    "redhat-release",
    "fedora-release",
    "system-release",
    "centos-release",
    "alpine-release",
    "arch-release",
    "SuSE-release",
    "gentoo-release",
    "NIXOS",
    "static",
    // Tools.
    "alternatives",
    "mime.types",
    "magic",
    "magic.mime",
    "fonts",
    "papersize",
    "manpath.config",
    "man_db.conf",
    "perl",
    "groff",
    "rmt",
    // What an administrator demands of agents.
    "claude-code",
    "codex",
];
/// Directories of language runtimes, whose names carry versions.
const ALLOWED_PREFIXES: &[&str] = &["java", "python", "nodejs"];
/// Larger files are bound instead of copied, in bytes.
const COPY_MAX: u64 = 512 * 1024;

/// One entry of `/etc` as the view gets it.
#[derive(Debug, PartialEq, Eq)]
enum Entry {
    Link(PathBuf),
    Copy(Vec<u8>),
    Bind,
    Nothing,
}

/// What of `/etc` is shown, if it is there.
fn names() -> Vec<PathBuf> {
    let mut names: Vec<PathBuf> = ALLOWED.iter().map(PathBuf::from).collect();
    for entry in fs::read_dir("/etc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let versioned = |prefix: &&str| name.as_bytes().starts_with(prefix.as_bytes());
        if ALLOWED_PREFIXES.iter().any(versioned) && entry.file_type().is_ok_and(|t| t.is_dir()) {
            names.push(name.into());
        }
    }
    names
}

/// What a session may read of the host's own `/etc`, where nothing can be mounted over it: the same.
pub(crate) fn readable() -> Vec<PathBuf> {
    let paths = names().into_iter().map(|name| Path::new("/etc").join(name));
    paths.filter(|path| entry(path) != Entry::Nothing).collect()
}

/// Files that a view has in place of the host's, by their absolute paths, with their content: for a session that sees the host's
/// own `/etc`, and that is given these when it opens them. `home` is the person's own.
pub fn replaced(identity: &Identity, home: &Path, host_name: &str) -> Vec<(PathBuf, String)> {
    let etc = Path::new("/etc");
    let mut files: Vec<(PathBuf, String)> = synthetic(identity, host_name)
        .into_iter()
        .map(|(name, content)| (etc.join(name), content))
        .collect();
    // Present even if it is empty: the host's own may hold addresses with passwords in them.
    files.push((etc.join("gitconfig"), settings_of_git(home)));
    // `stat` goes on telling the size of the host's file, and some readers (libgit2) insist on as many bytes: blank lines make them up.
    for (path, content) in &mut files {
        let size = fs::metadata(path).map_or(0, |meta| meta.len());
        let missing = usize::try_from(size)
            .unwrap_or(0)
            .min(PAD_MAX)
            .saturating_sub(content.len());
        content.extend(std::iter::repeat_n('\n', missing));
    }
    files
}

/// The most blank lines that a replaced file is filled up with.
const PAD_MAX: usize = 1 << 20;

/// The person's settings of git that name no program, host or credential. `home` is the person's own.
fn settings_of_git(home: &Path) -> String {
    let places = [
        Path::new("/etc/gitconfig").to_path_buf(),
        home.join(".config/git/config"),
        home.join(".gitconfig"),
    ];
    let texts = places.iter().filter_map(|path| fs::read_to_string(path).ok());
    texts.filter_map(|text| git_settings(&text)).collect()
}

/// Fills `/etc` of the view.
pub(crate) fn fill(tree: &Tree, identity: &Identity) -> Result<(), Error> {
    let etc = Path::new("/etc");
    for name in names() {
        let path = etc.join(&name);
        match entry(&path) {
            Entry::Link(target) => tree.link(&path, target.as_os_str())?,
            Entry::Copy(content) => tree.file(&path, &content, 0o644)?,
            Entry::Bind => tree.bind_system(&path, &path)?,
            Entry::Nothing => {}
        }
    }
    for (name, content) in synthetic(identity, HOST_NAME) {
        tree.file(&etc.join(name), content.as_bytes(), 0o644)?;
    }
    tree.link(&etc.join("mtab"), OsStr::new("/proc/self/mounts"))?;
    // The person's own name and address are in one of the two later ones, which do not exist inside.
    let settings = settings_of_git(&identity.home);
    if !settings.is_empty() {
        tree.file(&etc.join("gitconfig"), settings.as_bytes(), 0o644)?;
    }
    Ok(())
}

/// Decides what becomes of one path. What is absent, unreadable for everybody, or neither file nor directory is left out.
fn entry(path: &Path) -> Entry {
    let Ok(link) = fs::symlink_metadata(path) else {
        return Entry::Nothing;
    };
    if link.is_symlink() {
        let target = fs::read_link(path).unwrap_or_default();
        if let Some(resolved) = textual(path, &target)
            && (resolved.starts_with("/usr") || resolved.starts_with("/nix/store"))
        {
            return Entry::Link(target);
        }
    }
    let Ok(meta) = (if link.is_symlink() {
        fs::metadata(path)
    } else {
        Ok(link)
    }) else {
        return Entry::Nothing;
    };
    let mode = meta.permissions().mode();
    if meta.is_dir() && mode & 0o005 == 0o005 {
        return Entry::Bind;
    }
    if !meta.is_file() || mode & 0o004 == 0 {
        return Entry::Nothing;
    }
    if meta.len() > COPY_MAX {
        return Entry::Bind;
    }
    // One byte of room more than the file has tells its end in one read.
    let mut content = vec![0; usize::try_from(meta.len()).unwrap_or(0) + 1];
    let read = fs::File::open(path).and_then(|mut file| file.read(&mut content));
    match read {
        Ok(length) if length < content.len() => {
            content.truncate(length);
            Entry::Copy(content)
        }
        // It grew meanwhile.
        Ok(_) => fs::read(path).map_or(Entry::Nothing, Entry::Copy),
        Err(_) => Entry::Nothing,
    }
}

/// Where a link points, by its text alone. `None` if that climbs above `/`.
fn textual(link: &Path, target: &Path) -> Option<PathBuf> {
    let mut result = PathBuf::from("/");
    for part in link.parent()?.join(target).components() {
        match part {
            Component::Normal(name) => result.push(name),
            Component::ParentDir if !result.pop() => return None,
            _ => {}
        }
    }
    Some(result)
}

/// Files that are made anew: they name the user and nobody else, and no host but this one.
fn synthetic(who: &Identity, host_name: &str) -> Vec<(&'static str, String)> {
    // A line break or colon would start another field or entry.
    let clean = |text: &str| {
        text.chars()
            .filter(|c| !c.is_control() && *c != ':')
            .collect::<String>()
    };
    let (user, group) = (clean(&who.user), clean(&who.group));
    let (home, shell) = (clean(&who.home.to_string_lossy()), clean(&who.shell.to_string_lossy()));
    let mut passwd = String::new();
    let mut groups = String::new();
    if who.uid != 0 {
        passwd += "root:x:0:0:root:/root:/bin/sh\n";
    }
    passwd += &format!("{user}:x:{}:{}::{home}:{shell}\n", who.uid, who.gid);
    passwd += "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
    if who.gid != 0 {
        groups += "root:x:0:\n";
    }
    groups += &format!("{group}:x:{}:{user}\nnogroup:x:65534:\n", who.gid);
    vec![
        ("passwd", passwd),
        ("group", groups),
        ("hostname", format!("{host_name}\n")),
        ("hosts", format!("127.0.0.1 localhost {host_name}\n::1 localhost ip6-localhost ip6-loopback\n")),
        ("resolv.conf", String::new()),
        ("nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files\nnetworks: files\nprotocols: files\nservices: files\n".into()),
    ]
}

/// Settings of git that name no program, key, host or credential.
const GIT_SETTINGS: &[&str] = &[
    "user.name",
    "user.email",
    "init.defaultbranch",
    "safe.directory",
    "core.autocrlf",
    "core.eol",
    "core.quotepath",
    "core.filemode",
    "core.symlinks",
    "core.precomposeunicode",
    "pull.rebase",
    "pull.ff",
    "push.default",
    "push.autosetupremote",
    "color.ui",
    "advice.detachedhead",
    "gc.auto",
    "http.sslcainfo",
    "http.sslverify",
];

/// Our own spelling of what a git configuration says, with the settings of [`GIT_SETTINGS`] only. `None` if nothing is left.
fn git_settings(text: &str) -> Option<String> {
    let (mut section, mut out) = (String::new(), String::new());
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix('[') {
            // Sections with a subsection (`[url "…"]`) match nothing on the list.
            section = rest.strip_suffix(']').unwrap_or_default().to_lowercase();
        } else if let Some((key, value)) = line.split_once('=') {
            let (key, value) = (key.trim().to_lowercase(), value.trim());
            let value = value
                .strip_prefix('"')
                .and_then(|v| v.strip_suffix('"'))
                .unwrap_or(value);
            let known = GIT_SETTINGS.contains(&format!("{section}.{key}").as_str());
            // What would need an escape, or could be a comment, is left out.
            let plain = !value.is_empty() && value.len() <= 256 && !value.contains(['"', '\\', '#', ';', '$', '`']);
            if known && plain && !value.contains(char::is_control) {
                out += &format!("[{section}]\n\t{key} = \"{value}\"\n");
            }
        }
    }
    (!out.is_empty()).then_some(out)
}

/// Whether a path of the host can be shown at all: for the optional parts of the system.
pub(crate) fn present(path: &Path) -> Result<bool, Error> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(Error::Source(
            path.into(),
            Errno::from_raw(e.raw_os_error().unwrap_or(0)),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_is_on_the_list() {
        for secret in [
            "shadow",
            "gshadow",
            "sudoers",
            "ssh",
            "ssl",
            "ssl/private",
            "pki",
            "pki/tls",
            "machine-id",
            "npmrc",
            "pip.conf",
            "fstab",
            "environment",
            "wireguard",
            "NetworkManager",
            "krb5.keytab",
        ] {
            assert!(!ALLOWED.contains(&secret), "{secret}");
            assert!(!ALLOWED_PREFIXES.iter().any(|p| secret.starts_with(p)), "{secret}");
        }
    }

    #[test]
    fn links_resolve_by_text() {
        let t = |link: &str, target: &str| textual(Path::new(link), Path::new(target));
        assert_eq!(
            t("/etc/os-release", "../usr/lib/os-release"),
            Some("/usr/lib/os-release".into())
        );
        assert_eq!(t("/etc/x", "/usr/../root/x"), Some("/root/x".into()));
        assert_eq!(t("/etc/x", "../../x"), None);
    }

    #[test]
    fn files_that_are_not_for_everybody_are_left_out_even_for_root() {
        let dir = std::env::temp_dir().join(format!("picktwo-etc-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (open, closed) = (dir.join("open"), dir.join("closed"));
        for (path, mode) in [(&open, 0o644), (&closed, 0o640)] {
            fs::write(path, "x").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        assert_eq!(entry(&open), Entry::Copy(b"x".to_vec()));
        assert_eq!(entry(&closed), Entry::Nothing);
        std::os::unix::fs::symlink(&closed, dir.join("link")).unwrap();
        assert_eq!(entry(&dir.join("link")), Entry::Nothing);
        std::os::unix::fs::symlink("/usr/share/zoneinfo/UTC", dir.join("zone")).unwrap();
        assert_eq!(entry(&dir.join("zone")), Entry::Link("/usr/share/zoneinfo/UTC".into()));
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn git_settings_name_no_program() {
        let text = "[core]\n\tpager = less\n\tautocrlf = input\n[credential]\n\thelper = store\n[safe]\ndirectory = *\n\
            [url \"https://t@h/\"]\ninsteadOf = git:\n[alias]\nx = !sh\n[user]\nname = \"Jos\u{e9} O'Neil\"\nsigningkey = k\n";
        assert_eq!(
            git_settings(text).unwrap(),
            "[core]\n\tautocrlf = \"input\"\n[safe]\n\tdirectory = \"*\"\n[user]\n\tname = \"Jos\u{e9} O'Neil\"\n"
        );
        for none in [
            "[core]\nsshCommand = ssh\n",
            "[core]\nautocrlf = $(x)\n",
            "[user]\nname = a\\\n",
            "[user] name = x\n",
        ] {
            assert_eq!(git_settings(none), None, "{none}");
        }
    }
}
