//! Who is judged, and how each is started.

use picktwo_tests::{agents::Install, run, scene::Scene};
use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// What is installed.
pub(crate) struct Tools {
    /// Where programs are looked up.
    pub(crate) path: String,
    agents: Result<PathBuf, String>,
    peers: Result<PathBuf, String>,
    picktwo: PathBuf,
    /// `name version` of each.
    pub(crate) bwrap: Option<String>,
    codex: Option<String>,
    srt: Option<String>,
    landrun: Option<String>,
}

impl Tools {
    /// Looks for them as the scene's user would.
    pub(crate) fn find(scene: &Scene) -> Self {
        let agents = Install::find().map(|install| install.bin());
        let peers = peers_dir();
        let mut path = "/usr/local/bin:/usr/bin:/bin".to_owned();
        if let Ok(bin) = &agents {
            path = format!("{}:{path}", bin.display());
        }
        let version = |program: &str, args: &[&str]| {
            let mut command: Command = scene.command(program);
            command.args(args).env("PATH", &path);
            let finished = run::run(command, Duration::from_secs(30)).ok()?;
            let text = if finished.stdout.trim().is_empty() {
                finished.stderr
            } else {
                finished.stdout
            };
            (finished.status.success()).then(|| text.lines().next().unwrap_or_default().trim().to_owned())
        };
        let srt = peers.as_ref().ok().and_then(|dir| {
            let package = dir.join("srt/node_modules/@anthropic-ai/sandbox-runtime/package.json");
            let text = std::fs::read_to_string(package).ok()?;
            let package: serde_json::Value = serde_json::from_str(&text).ok()?;
            Some(format!("sandbox-runtime {}", package["version"].as_str()?))
        });
        Self {
            bwrap: version("bwrap", &["--version"]),
            codex: version("codex", &["--version"]),
            landrun: version("landrun", &["--version"]),
            srt,
            path,
            agents,
            peers,
            picktwo: scene.root().join("bin/picktwo"),
        }
    }
}

fn peers_dir() -> Result<PathBuf, String> {
    let var = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = var("XDG_CACHE_HOME").or_else(|| var("HOME").map(|home| home.join(".cache")));
    let places: Vec<PathBuf> = match var("PICKTWO_PEERS") {
        Some(dir) => vec![dir],
        None => cache
            .map(|cache| cache.join("picktwo-peers"))
            .into_iter()
            .chain([PathBuf::from("/var/cache/picktwo-peers")])
            .collect(),
    };
    let found = places.into_iter().find(|dir| dir.join("installed").is_file());
    found.ok_or_else(|| "not installed (run tests/peers/install)".to_owned())
}

/// One way to start one sandbox.
pub(crate) struct Peer {
    /// For people.
    pub(crate) name: &'static str,
    /// Name and version of its program.
    pub(crate) version: String,
    /// The mode that it is judged by.
    pub(crate) mode: &'static str,
    /// Its command without the program to run in it, or why there is none.
    pub(crate) wrapper: Result<Vec<String>, String>,
    /// The command, as a person would write it.
    pub(crate) shown: &'static str,
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

const BARE: &str = "env";
const PLAIN: &str = "bwrap --unshare-all --ro-bind / / --dev /dev --proc /proc";
const PLAIN_EDIT: &str = "bwrap --unshare-all --ro-bind / / --dev /dev --proc /proc --bind {workspace} {workspace}";
const HARDENED: &str = "bwrap --unshare-all --unshare-user --disable-userns --new-session --die-with-parent --cap-drop ALL \
    --clearenv --setenv PATH /usr/bin --ro-bind /usr /usr --symlink usr/lib /lib --symlink usr/lib64 /lib64 \
    --symlink usr/bin /bin --dev /dev --proc /proc --tmpfs /tmp --dir {home} --setenv HOME {home} \
    --ro-bind {workspace} {workspace}";
const HARDENED_EDIT: &str = "bwrap --unshare-all --unshare-user --disable-userns --new-session --die-with-parent --cap-drop ALL \
    --clearenv --setenv PATH /usr/bin --ro-bind /usr /usr --symlink usr/lib /lib --symlink usr/lib64 /lib64 \
    --symlink usr/bin /bin --dev /dev --proc /proc --tmpfs /tmp --dir {home} --setenv HOME {home} \
    --bind {workspace} {workspace} --ro-bind {workspace}/.git/hooks {workspace}/.git/hooks \
    --ro-bind {workspace}/.git/config {workspace}/.git/config --ro-bind {workspace}/.idea {workspace}/.idea";
const LANDRUN: &str = "landrun --best-effort --rox /usr --rox /lib --rox /lib64 --rwx {workspace}";

const OWN: &str = "picktwo run --profile generic --workspace {workspace} --ro {shared} --";
const OWN_EDIT: &str = "picktwo run --profile generic --workspace {workspace} --ro {shared} --edit --";
const CONTAINER: &str = "picktwo run --tier container --profile generic --workspace {workspace} --ro {shared} --";
const CONTAINER_EDIT: &str =
    "picktwo run --tier container --profile generic --workspace {workspace} --ro {shared} --edit --";

/// All of them.
pub(crate) fn peers(tools: &Tools) -> Vec<Peer> {
    let missing = || "not installed".to_owned();
    let bwrap = |text: &str| match &tools.bwrap {
        Some(_) => Ok(words(text)),
        None => Err(missing()),
    };
    let bwrap_version = tools.bwrap.clone().unwrap_or_else(missing);
    let codex = |args: &[&str]| match (&tools.codex, &tools.agents) {
        (Some(_), Ok(_)) => Ok(["codex", "sandbox"]
            .iter()
            .chain(args)
            .map(|w| (*w).to_owned())
            .collect()),
        (_, Err(why)) => Err(why.clone()),
        (None, _) => Err(missing()),
    };
    let codex_version = tools.codex.clone().unwrap_or_else(missing);
    let srt = |settings: Option<&str>| {
        let dir = tools.peers.as_ref().map_err(Clone::clone)?;
        let mut words = vec!["node".to_owned(), text(&dir.join("srt/node_modules/.bin/srt"))];
        if let Some(settings) = settings {
            words.extend(["--settings".to_owned(), text(&dir.join(settings))]);
        }
        Ok(words)
    };
    let srt_version = tools.srt.clone().unwrap_or_else(missing);
    let landrun = match &tools.landrun {
        Some(_) => Ok(words(LANDRUN)),
        None => Err(
            "not installed: it is distributed as a Go module and as binaries of its repository, in no package registry that the \
             tests use; with `landrun` on the PATH it is judged"
                .to_owned(),
        ),
    };
    let own = |shown: &str| {
        let options = words(shown).into_iter().skip(1);
        Ok(std::iter::once(text(&tools.picktwo)).chain(options).collect())
    };
    let own_version = format!("picktwo {}", env!("CARGO_PKG_VERSION"));
    let peer = |name, version: &str, mode, wrapper, shown| Peer {
        name,
        version: version.to_owned(),
        mode,
        wrapper,
        shown,
    };
    vec![
        peer("no sandbox", "-", "read-only", Ok(words(BARE)), BARE),
        peer("no sandbox", "-", "edit", Ok(words(BARE)), BARE),
        peer("bubblewrap", &bwrap_version, "read-only", bwrap(PLAIN), PLAIN),
        peer("bubblewrap", &bwrap_version, "edit", bwrap(PLAIN_EDIT), PLAIN_EDIT),
        peer(
            "bubblewrap, hardened",
            &bwrap_version,
            "read-only",
            bwrap(HARDENED),
            HARDENED,
        ),
        peer(
            "bubblewrap, hardened",
            &bwrap_version,
            "edit",
            bwrap(HARDENED_EDIT),
            HARDENED_EDIT,
        ),
        peer(
            "sandbox-runtime, no settings",
            &srt_version,
            "read-only",
            srt(None),
            "srt",
        ),
        peer(
            "sandbox-runtime, project writable",
            &srt_version,
            "edit",
            srt(Some("srt-workspace.json")),
            "srt --settings srt-workspace.json",
        ),
        peer(
            "sandbox-runtime, rest of HOME unreadable",
            &srt_version,
            "edit",
            srt(Some("srt-strict.json")),
            "srt --settings srt-strict.json",
        ),
        peer(
            "Codex sandbox",
            &codex_version,
            "read-only",
            codex(&["--"]),
            "codex sandbox --",
        ),
        peer(
            "Codex sandbox, workspace-write",
            &codex_version,
            "edit",
            codex(&["-c", "sandbox_mode=\"workspace-write\"", "--"]),
            "codex sandbox -c 'sandbox_mode=\"workspace-write\"' --",
        ),
        peer(
            "landrun",
            tools.landrun.as_deref().unwrap_or("-"),
            "edit",
            landrun,
            LANDRUN,
        ),
        peer("picktwo", &own_version, "read-only", own(OWN), OWN),
        peer("picktwo", &own_version, "edit", own(OWN_EDIT), OWN_EDIT),
        peer(
            "picktwo, container tier",
            &own_version,
            "read-only",
            own(CONTAINER),
            CONTAINER,
        ),
        peer(
            "picktwo, container tier",
            &own_version,
            "edit",
            own(CONTAINER_EDIT),
            CONTAINER_EDIT,
        ),
    ]
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
