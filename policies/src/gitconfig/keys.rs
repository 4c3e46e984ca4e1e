//! The allow list of git configuration keys: none of them names a program, a file that git executes or obeys, or a place that git
//! writes to.

use super::syntax::Entry;
use url::Url;

/// What a key's value may be.
#[derive(Clone, Copy)]
enum Value {
    Bool,
    /// Only a value that means false.
    False,
    Number,
    /// A boolean or one of these words.
    Words(&'static [&'static str]),
    /// Text for people or for commit objects.
    Text,
    /// `now`, `2.weeks.ago`, `never` …
    Date,
    /// Name of a remote, branch or ref.
    Name,
    Refspec,
    Url,
    /// A submodule's pathspec.
    Pathspec,
}
use Value::{Bool, Date, False, Name, Number, Pathspec, Refspec, Text, Words};

/// Keys without a subsection, in lower case.
const PLAIN: &[(&str, Value)] = &[
    ("author.email", Text),
    ("author.name", Text),
    ("branch.autosetupmerge", Words(&["always", "inherit", "simple"])),
    ("branch.autosetuprebase", Words(&["never", "local", "remote", "always"])),
    ("checkout.defaultremote", Name),
    ("checkout.workers", Number),
    ("color.ui", Words(&["auto", "always", "never"])),
    ("commit.gpgsign", False),
    ("commit.verbose", Bool),
    ("committer.email", Text),
    ("committer.name", Text),
    (
        "core.abbrev",
        Words(&["auto", "no", "7", "8", "9", "10", "11", "12", "16", "40"]),
    ),
    ("core.autocrlf", Words(&["input"])),
    ("core.bare", Bool),
    ("core.checkstat", Words(&["default", "minimal"])),
    ("core.commitgraph", Bool),
    ("core.compression", Number),
    ("core.eol", Words(&["lf", "crlf", "native"])),
    ("core.filemode", Bool),
    ("core.fscache", Bool),
    ("core.fsmonitor", False),
    ("core.ignorecase", Bool),
    ("core.logallrefupdates", Words(&["always"])),
    ("core.longpaths", Bool),
    ("core.multipackindex", Bool),
    ("core.precomposeunicode", Bool),
    ("core.preloadindex", Bool),
    ("core.quotepath", Bool),
    ("core.repositoryformatversion", Words(&["0", "1"])),
    ("core.safecrlf", Words(&["warn"])),
    (
        "core.sharedrepository",
        Words(&[
            "group",
            "all",
            "world",
            "everybody",
            "umask",
            "0600",
            "0640",
            "0660",
            "0664",
            "0666",
        ]),
    ),
    ("core.sparsecheckout", Bool),
    ("core.sparsecheckoutcone", Bool),
    ("core.symlinks", Bool),
    ("core.trustctime", Bool),
    ("core.untrackedcache", Words(&["keep"])),
    ("extensions.compatobjectformat", Words(&["sha1", "sha256"])),
    ("extensions.noop", Bool),
    ("extensions.objectformat", Words(&["sha1", "sha256"])),
    ("extensions.partialclone", Name),
    ("extensions.preciousobjects", Bool),
    ("extensions.refstorage", Words(&["files", "reftable"])),
    ("extensions.relativeworktrees", Bool),
    ("extensions.worktreeconfig", Bool),
    ("feature.manyfiles", Bool),
    ("fetch.parallel", Number),
    ("fetch.prune", Bool),
    ("fetch.prunetags", Bool),
    ("fetch.recursesubmodules", Words(&["on-demand"])),
    ("fetch.writecommitgraph", Bool),
    ("gc.aggressivedepth", Number),
    ("gc.aggressivewindow", Number),
    ("gc.auto", Number),
    ("gc.autodetach", Bool),
    ("gc.autopacklimit", Number),
    ("gc.bigpackthreshold", Number),
    ("gc.cruftpacks", Bool),
    ("gc.logexpiry", Date),
    ("gc.packrefs", Words(&["notbare"])),
    ("gc.pruneexpire", Date),
    ("gc.reflogexpire", Date),
    ("gc.reflogexpireunreachable", Date),
    ("gc.rerereresolved", Date),
    ("gc.rerereunresolved", Date),
    ("gc.worktreepruneexpire", Date),
    ("gc.writecommitgraph", Bool),
    ("i18n.commitencoding", Name),
    ("index.skiphash", Bool),
    ("index.sparse", Bool),
    ("index.threads", Number),
    ("index.version", Words(&["2", "3", "4"])),
    ("init.defaultbranch", Name),
    ("lfs.repositoryformatversion", Words(&["0"])),
    (
        "log.date",
        Words(&[
            "relative",
            "local",
            "iso",
            "iso-strict",
            "rfc",
            "short",
            "raw",
            "human",
            "unix",
            "default",
        ]),
    ),
    ("log.decorate", Words(&["short", "full", "auto", "no"])),
    ("maintenance.auto", Bool),
    ("maintenance.autodetach", Bool),
    ("merge.conflictstyle", Words(&["merge", "diff3", "zdiff3"])),
    ("merge.ff", Words(&["only"])),
    ("merge.renamelimit", Number),
    ("merge.renames", Bool),
    ("pack.threads", Number),
    ("pack.writebitmaps", Bool),
    ("protocol.version", Words(&["0", "1", "2"])),
    ("pull.ff", Words(&["only"])),
    ("pull.rebase", Words(&["merges", "interactive", "preserve"])),
    ("push.autosetupremote", Bool),
    (
        "push.default",
        Words(&["nothing", "current", "upstream", "tracking", "simple", "matching"]),
    ),
    ("push.followtags", Bool),
    ("rebase.autosquash", Bool),
    ("rebase.autostash", Bool),
    ("rebase.missingcommitscheck", Words(&["ignore", "warn", "error"])),
    ("rebase.updaterefs", Bool),
    ("remote.pushdefault", Name),
    ("rerere.autoupdate", Bool),
    ("rerere.enabled", Bool),
    ("status.showuntrackedfiles", Words(&["no", "normal", "all"])),
    ("status.submodulesummary", Bool),
    ("submodule.active", Pathspec),
    ("submodule.alternateerrorstrategy", Words(&["die", "info"])),
    ("submodule.alternatelocation", Words(&["no", "superproject"])),
    ("submodule.fetchjobs", Number),
    ("submodule.recurse", Bool),
    ("tag.gpgsign", False),
    ("user.email", Text),
    ("user.name", Text),
    ("user.useconfigonly", Bool),
    ("worktree.guessremote", Bool),
    ("worktree.userelativepaths", Bool),
];

/// Keys with any subsection, as `section.key`.
const WITH_SUBSECTION: &[(&str, Value)] = &[
    ("branch.description", Text),
    ("branch.github-pr-owner-number", Text),
    ("branch.merge", Name),
    ("branch.pushremote", Name),
    ("branch.rebase", Words(&["merges", "interactive", "preserve"])),
    ("branch.remote", Name),
    ("branch.vscode-merge-base", Name),
    ("remote.fetch", Refspec),
    ("remote.followremotehead", Words(&["create", "always", "never", "warn"])),
    ("remote.gh-resolved", Name),
    ("remote.mirror", Words(&["fetch", "push"])),
    ("remote.partialclonefilter", Name),
    ("remote.promisor", Bool),
    ("remote.prune", Bool),
    ("remote.prunetags", Bool),
    ("remote.push", Refspec),
    ("remote.pushurl", Value::Url),
    ("remote.skipdefaultupdate", Bool),
    ("remote.skipfetchall", Bool),
    ("remote.tagopt", Words(&["--tags", "--no-tags"])),
    ("remote.url", Value::Url),
    ("submodule.active", Bool),
    ("submodule.branch", Name),
    ("submodule.fetchrecursesubmodules", Words(&["on-demand"])),
    ("submodule.ignore", Words(&["all", "dirty", "untracked", "none"])),
    ("submodule.shallow", Bool),
    ("submodule.update", Words(&["checkout", "rebase", "merge", "none"])),
    ("submodule.url", Value::Url),
];

/// Whether an assignment may be written.
///
/// # Errors
/// Why not, in a few words.
pub(super) fn allowed(e: &Entry) -> Result<(), &'static str> {
    let key = format!("{}.{}", e.section, e.key.to_ascii_lowercase());
    let list = if e.subsection.is_some() { WITH_SUBSECTION } else { PLAIN };
    if e.section == "advice" && e.subsection.is_none() {
        return check(Bool, e.value.as_deref());
    }
    if let Some(s) = &e.subsection
        && !subsection_name(s)
    {
        return Err("the subsection is no plain name");
    }
    let value = list
        .iter()
        .find(|(k, _)| *k == key)
        .map(|(_, v)| *v)
        .ok_or("is not a key that an agent may set")?;
    check(value, e.value.as_deref())
}

fn check(kind: Value, value: Option<&[u8]>) -> Result<(), &'static str> {
    let Some(bytes) = value else {
        return if matches!(kind, Bool | Words(_)) {
            Ok(())
        } else {
            Err("needs a value")
        };
    };
    let text = std::str::from_utf8(bytes);
    let lower = text.unwrap_or("").to_ascii_lowercase();
    let yes = match kind {
        Bool => boolean(&lower).is_some(),
        False => boolean(&lower) == Some(false),
        Number => number(&lower),
        Words(words) => boolean(&lower).is_some() || words.contains(&lower.as_str()),
        // Names and messages may be in an old encoding.
        Text => bytes.len() <= 1024 && !bytes.iter().any(|&b| b < 0x20 && b != b'\n' && b != b'\t'),
        Date => {
            !lower.is_empty()
                && lower.len() <= 40
                && lower
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b':' | b' '))
        }
        Name => text.is_ok_and(plain_name),
        Refspec => text.is_ok_and(refspec),
        Value::Url => text.is_ok_and(remote_url),
        Pathspec => text.is_ok_and(|t| !t.is_empty() && !t.starts_with('-') && !t.chars().any(char::is_control)),
    };
    if yes {
        Ok(())
    } else {
        Err("has a value that is not accepted")
    }
}

fn boolean(lower: &str) -> Option<bool> {
    match lower {
        "true" | "yes" | "on" | "1" => Some(true),
        "false" | "no" | "off" | "0" | "" => Some(false),
        _ => None,
    }
}

fn number(lower: &str) -> bool {
    let digits = lower.strip_suffix(['k', 'm', 'g']).unwrap_or(lower);
    let digits = digits.strip_prefix('-').unwrap_or(digits);
    (1..=12).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit())
}

/// A branch, remote or submodule name: no option, no URL, no path that leaves, nothing that is not printable.
fn subsection_name(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    !text.is_empty()
        && text.len() <= 512
        && !text.starts_with(['-', '/'])
        && !text.split('/').any(|p| p == "..")
        && !text.chars().any(char::is_control)
}

fn plain_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 512
        && !text.starts_with('-')
        && !text.contains("::")
        && !text.contains("://")
        && !text.split('/').any(|p| p == "..")
        && !text.starts_with(['/', '~'])
        && !text
            .chars()
            .any(|c| c.is_control() || matches!(c, ' ' | '\\' | '$' | '`' | '|' | ';' | '&' | '!'))
}

fn refspec(text: &str) -> bool {
    let text = text.strip_prefix(['+', '^']).unwrap_or(text);
    let mut sides = text.split(':');
    let side = |s: Option<&str>| {
        s.is_none_or(|s| s.is_empty() || (plain_name(&s.replace('*', "x")) && s.matches('*').count() <= 1))
    };
    !text.is_empty() && side(sides.next()) && side(sides.next()) && sides.next().is_none()
}

/// https and ssh URLs without a password, scp-like ssh, and local paths.
fn remote_url(text: &str) -> bool {
    if text.is_empty()
        || text.len() > 2048
        || text.starts_with('-')
        || text.contains('\\')
        || text.chars().any(|c| c.is_control() || c == ' ')
    {
        return false;
    }
    // `transport::address` runs git-remote-transport.
    if text.contains("::") {
        return false;
    }
    if text.starts_with('/') || text.starts_with("./") || text.starts_with("../") || matches!(text, "." | "..") {
        return true;
    }
    if let Some((scheme, _)) = text.split_once("://") {
        let Ok(url) = Url::parse(text) else { return false };
        let host = url.host_str().unwrap_or("");
        return match scheme {
            "https" => !host.is_empty() && url.password().is_none(),
            "ssh" => {
                ssh_host(host) && url.password().is_none() && ssh_user(url.username()) && !url.path().starts_with("/-")
            }
            "file" => host.is_empty(),
            _ => false,
        };
    }
    let Some((left, path)) = text.split_once(':') else {
        return false;
    };
    let (user, host) = left.split_once('@').unwrap_or(("", left));
    ssh_host(host) && ssh_user(user) && !path.is_empty() && !path.starts_with('-')
}

/// What is handed to ssh as a host may not look like an option.
fn ssh_host(host: &str) -> bool {
    !host.is_empty()
        && !host.starts_with('-')
        && host
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'[' | b']' | b':'))
}

fn ssh_user(user: &str) -> bool {
    !user.starts_with('-')
        && user
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
}
