//! What links and git's configuration of a tree lead to.

use super::*;
use picktwo_policies::protect::Kind;

#[test]
fn what_lies_in_a_protected_place_is_no_root() {
    let names = Protected::builtin();
    for bad in ["/home/u/p/.git", "/home/u/p/.git/modules/x", "/srv/x/.claude"] {
        assert!(protected_component(&names, Path::new(bad)).is_some(), "{bad}");
    }
    assert_eq!(protected_component(&names, Path::new("/home/u/project")), None);
}

#[test]
fn what_lies_in_a_bare_repository_is_no_root() {
    let base = std::env::temp_dir().join(format!("picktwo-bare-{}", std::process::id()));
    for dir in ["r/objects", "r/refs", "r/hooks"] {
        std::fs::create_dir_all(base.join(dir)).unwrap();
    }
    std::fs::write(base.join("r/HEAD"), "ref: refs/heads/main\n").unwrap();
    let of = |place: &str| protected_component(&Protected::builtin(), &base.join(place));
    let found = (of("r"), of("r/hooks"), of(""));
    std::fs::remove_dir_all(&base).unwrap();
    assert_eq!(found, (Some(base.join("r")), Some(base.join("r")), None));
}

fn all_of(root: &Path) -> Protected {
    let roots = [root.to_path_buf()];
    completed(&roots, of(&roots, &[]).unwrap()).unwrap()
}

fn tree(name: &str, files: &[&str], links: &[(&str, &str)]) -> PathBuf {
    let root = std::env::temp_dir().join(format!("picktwo-{name}-{}", std::process::id()));
    let parent = |path: &str| std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
    for file in files {
        parent(file);
        std::fs::write(root.join(file), "").unwrap();
    }
    for (link, target) in links {
        parent(link);
        std::os::unix::fs::symlink(target, root.join(link)).unwrap();
    }
    root.canonicalize().unwrap()
}

fn holds(protected: &Protected, path: &str) -> bool {
    let parts: Vec<&[u8]> = path.split('/').map(str::as_bytes).collect();
    protected.check(&parts).is_some()
}

#[test]
fn links_at_protected_places_protect_what_they_lead_to() {
    let root = tree(
        "links",
        &[
            "scripts/pre-commit",
            "scripts/v1/real",
            "tools/h",
            "skills/a.md",
            "sub/s/h",
            "docs/ai.md",
            "many*/[x]",
            "sub/.git/HEAD",
            "bare/HEAD",
            "bare/objects/x",
            "bare/refs/x",
        ],
        &[
            (".git/hooks/pre-commit", "../../scripts/pre-commit"),
            (".git/hooks/pre-push", "../../scripts/current"),
            ("scripts/current", "v1/real"),
            (".git/hooks/post-checkout", "../../scripts/absent"),
            (".git/hooks/post-merge", "../../toolslink/h"),
            (".git/hooks/update", "../../many*/[x]"),
            ("toolslink", "tools"),
            (".claude/skills", "../skills"),
            ("skills/b.md", "../docs/b.md"),
            ("sub/.git/hooks/pre-commit", "../../s/h"),
            ("pkg/a/CLAUDE.md", "../../docs/ai.md"),
            ("bare/hooks/post-receive", "../../bare-hook"),
        ],
    );
    for i in 0..5000 {
        std::fs::write(root.join(format!("docs/{i}")), "").unwrap();
    }
    let protected = all_of(&root);
    std::fs::remove_dir_all(&root).unwrap();
    for path in [
        "scripts/pre-commit",
        "scripts/current",
        "scripts/v1/real",
        "scripts/absent",
        "toolslink",
        "tools/h",
        "many*/[x]",
        "skills/b.md",
        "docs/b.md",
        "sub/s/h",
        "docs/ai.md",
        "bare-hook",
    ] {
        assert!(holds(&protected, path), "{path}");
    }
    for path in ["scripts/other", "tools/i", "docs/c.md", "sub/s/i", "many1/[x]"] {
        assert!(!holds(&protected, path), "{path}");
    }
    assert!(protected.moving(&[b"scripts", b"v1"], true).is_some());
}

#[test]
fn what_gits_configuration_names_is_protected() {
    let repository = ["HEAD", "objects/x", "refs/x"];
    let mut files = vec!["tools/clean.py".to_owned(), "tools/other.py".to_owned()];
    for at in [".git", "sub/.git"] {
        files.extend(repository.iter().map(|name| format!("{at}/{name}")));
    }
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let root = tree("configured", &files, &[("hk/pre-commit", "../linked")]);
    let config = "[core]\n\thooksPath = hk\n\tfsmonitor = ./watch -x\n[include]\n\tpath = ../shared.cfg\n\
        [includeIf \"onbranch:x\"]\n\tpath = ../absent.cfg\n[filter \"a\"]\n\tclean = python3 tools/clean.py %f\n";
    std::fs::write(root.join(".git/config"), config).unwrap();
    std::fs::write(root.join("shared.cfg"), "[core]\n\tattributesFile = attrs\n").unwrap();
    std::fs::write(root.join("sub/.git/config"), "[core]\n\thooksPath = my-hooks\n").unwrap();
    let protected = all_of(&root);
    std::fs::remove_dir_all(&root).unwrap();
    for path in [
        "hk/pre-push",
        "linked",
        "watch",
        "shared.cfg",
        "absent.cfg",
        "attrs",
        "tools/clean.py",
        "sub/my-hooks/pre-commit",
        // Worktrees and repositories that are made later.
        "wt/hk/pre-push",
        "a/b/watch",
        "wt/tools/clean.py",
        "new/my-hooks/pre-commit",
    ] {
        assert!(holds(&protected, path), "{path}");
    }
    for path in ["tools/other.py", "wt/tools/other.py", "wt/linked", "wt/shared.cfg"] {
        assert!(!holds(&protected, path), "{path}");
    }
    assert!(protected.moving(&[b"wt", b"tools"], true).is_some());
}

#[test]
fn a_target_has_a_name_from_every_root_that_holds_it() {
    let root = tree("within", &["in/s/h"], &[("in/.git/hooks/pre-commit", "../../s/h")]);
    let roots = [root.clone(), root.join("in")];
    let protected = completed(&roots, of(&roots, &[]).unwrap()).unwrap();
    std::fs::remove_dir_all(&root).unwrap();
    assert!(holds(&protected, "in/s/h") && holds(&protected, "s/h"));
}

#[test]
fn a_file_that_a_value_of_gits_configuration_names_is_protected_whatever_the_key() {
    let scripts = [
        "trailer", "alt", "sub", "gui", "lfs", "mail", "new", "ext", "top", "free", "url",
    ];
    let mut files: Vec<String> = scripts.iter().map(|name| format!("s/{name}.sh")).collect();
    files.extend(
        [
            ".git/HEAD",
            ".git/objects/x",
            ".git/refs/x",
            "bare.sh",
            "main",
            "arg.json",
        ]
        .map(str::to_owned),
    );
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let root = tree("keys", &files, &[]);
    let config = "[trailer \"sign\"]\n\tcommand = ./s/trailer.sh\n[core]\n\talternateRefsCommand = s/alt.sh\n\
        [submodule \"x\"]\n\tupdate = !./s/sub.sh\n[guitool \"x\"]\n\tcmd = sh ./s/gui.sh\n\
        [lfs \"customtransfer.x\"]\n\tpath = ./s/lfs.sh\n[sendemail]\n\tsmtpServer = ./s/mail.sh\n\
        [future]\n\tthing = python3 -u --run=s/new.sh\n\tother = sh bare.sh\n\
        [remote \"o\"]\n\turl = \"ext::sh s/ext.sh\"\n[remote \"p\"]\n\turl = ./s/url.sh\n\
        [alias]\n\tx = \"!$(git rev-parse --show-toplevel)/s/top.sh\"\n\ty = add arg.json\n\
        [gitflow \"branch\"]\n\tmaster = main\n[difftool \"absent\"]\n\tcmd = ./absent.sh\n";
    std::fs::write(root.join(".git/config"), config).unwrap();
    let protected = all_of(&root);
    std::fs::remove_dir_all(&root).unwrap();
    for name in &scripts[..9] {
        assert!(holds(&protected, &format!("s/{name}.sh")), "{name}");
    }
    assert!(holds(&protected, "bare.sh") && holds(&protected, "absent.sh"));
    for path in ["s/free.sh", "s/url.sh", "main", "arg.json"] {
        assert!(!holds(&protected, path), "{path}");
    }
}

#[test]
fn links_above_the_root_protect_what_they_lead_to() {
    let top = tree(
        "above",
        &[
            "app/scripts/pc.sh",
            "app/ai.md",
            "app/skill.md",
            "app/other",
            "app/rules",
            "shared/x",
            ".git/HEAD",
            ".git/objects/x",
            ".git/refs/x",
        ],
        &[
            (".git/hooks/pre-commit", "../../app/scripts/pc.sh"),
            ("CLAUDE.md", "app/ai.md"),
            (".claude/skills", "../shared"),
            ("shared/s.md", "../app/skill.md"),
            ("README.md", "app/other"),
            (".claude/plans/x", "../../app/other"),
        ],
    );
    let roots = [top.join("app")];
    let protected = completed(&roots, of(&roots, &[]).unwrap()).unwrap();
    std::fs::remove_dir_all(&top).unwrap();
    for path in ["scripts/pc.sh", "ai.md", "skill.md"] {
        assert!(holds(&protected, path), "{path}");
    }
    for path in ["other", "rules", "scripts/other"] {
        assert!(!holds(&protected, path), "{path}");
    }
}

#[test]
fn links_that_a_session_may_make_do_not_end_the_search() {
    let files = [
        "z/pc.sh",
        ".git/HEAD",
        ".git/objects/x",
        ".git/refs/x",
        "sub/.git/HEAD",
        ".claude/plans/x",
    ];
    let root = tree("probes", &files, &[("sub/.git/hooks/pre-commit", "../../../z/pc.sh")]);
    for i in 0..=MAX_PLACES {
        for dir in [".git", ".claude/plans"] {
            std::os::unix::fs::symlink(format!("../no/{i}"), root.join(format!("{dir}/t{i:06}"))).unwrap();
        }
    }
    let protected = all_of(&root);
    std::fs::remove_dir_all(&root).unwrap();
    assert!(holds(&protected, "z/pc.sh"));
    assert!(!holds(&protected, "z/other") && !holds(&protected, "no/1"));
}

#[test]
fn a_search_that_does_not_end_leaves_nothing_free() {
    let root = tree("endless", &["a/x/y/z", ".git/HEAD"], &[]);
    for i in 0..=MAX_PLACES {
        let link = root.join(format!("a/{i}/CLAUDE.md"));
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(format!("../../no/{i}"), link).unwrap();
    }
    let roots = [root.clone()];
    let names = of(&roots, &[]).unwrap();
    let refused = completed(&roots, names.clone());
    assert!(matches!(refused, Err(StartError::Unsearched(_))));
    let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let events = std::sync::Arc::clone(&told);
    let tell: files::Sink = Box::new(move |event| events.lock().unwrap().push(event));
    let all = finder(roots.to_vec(), beyond(&roots, &names), tell)(names);
    std::fs::remove_dir_all(&root).unwrap();
    for path in [
        "free",
        "x/y",
        ".git/index",
        ".git/config",
        "a long name ".repeat(9).as_str(),
    ] {
        assert_eq!(kind_of(&all, path), Some(Kind::Refuse), "{path}");
    }
    assert_eq!(told.lock().unwrap()[0].rule.as_deref(), Some(NOT_ENDED));
}

fn kind_of(protected: &Protected, path: &str) -> Option<Kind> {
    let parts: Vec<&[u8]> = path.split('/').map(str::as_bytes).collect();
    protected.check(&parts).map(|rule| rule.kind)
}

#[test]
fn a_directory_that_is_closed_to_the_search_leaves_nothing_free() {
    // Root looks into closed directories.
    if nix::unistd::geteuid().is_root() {
        return;
    }
    for mode in [0o000, 0o444] {
        let root = tree("closed", &["z/x"], &[("shut/CLAUDE.md", "../z/x")]);
        let set =
            |mode| std::fs::set_permissions(root.join("shut"), std::os::unix::fs::PermissionsExt::from_mode(mode));
        set(mode).unwrap();
        let roots = [root.clone()];
        let refused = completed(&roots, of(&roots, &[]).unwrap());
        set(0o755).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        assert!(matches!(refused, Err(StartError::Unsearched(_))), "{mode:o}");
    }
}

#[test]
fn a_search_that_takes_too_long_ends_where_it_is() {
    let root = tree("unseen", &["a/b"], &[]);
    let roots = [root.clone()];
    let names = Protected::builtin();
    let found = find(&roots, &beyond(&roots, &names), &names, Instant::now());
    std::fs::remove_dir_all(&root).unwrap();
    assert_eq!(found.ended_at, Some(root));
}
