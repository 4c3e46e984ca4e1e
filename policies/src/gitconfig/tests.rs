use super::*;

const CLONE: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n\
[remote \"origin\"]\n\turl = https://github.com/BurntSushi/ripgrep\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
[branch \"master\"]\n\tremote = origin\n\tmerge = refs/heads/master\n";

fn key(content: &str) -> String {
    vet(content.as_bytes()).expect_err(content).key
}

#[test]
fn what_git_writes_passes_byte_for_byte() {
    for content in [
        CLONE,
        "",
        "[user]\n\temail = a@example.org\n\tname = A \\\"B\\\" C\n",
        "[user]\n\tname = \"A; B\"\n",
        "[user]\n\tname = \" lead\"\n",
        "[remote \"o\"]\n\turl = git@github.com:a/b.git\n\turl = ssh://git@host.example:2222/x.git\n",
        "[remote \"o\"]\n\turl = /srv/a.git\n\turl = ../a\n\turl = file:///srv/a.git\n",
        "# a note\n[gc]\n\tauto = 0\n",
        "[extensions]\n\tworktreeConfig = true\n",
        "[branch \"a \\\"b\\\" \\\\c\"]\n\tremote = .\n",
        "[submodule \"lib/x\"]\n\turl = https://example.org/x\n\tactive = true\n",
        "[commit]\n\tgpgsign = false\n",
        "[advice]\n\tdetachedHead = false\n",
    ] {
        let out = vet(content.as_bytes()).unwrap_or_else(|e| panic!("{content}: {e}"));
        assert_eq!(String::from_utf8_lossy(&out), content);
    }
}

#[test]
fn other_layouts_mean_the_same() {
    let out =
        vet(b"\xef\xbb\xbf[Core]filemode=true ; note\r\n [user] name = A\\\n B  # c\n[core]\n bare\n").expect("valid");
    assert_eq!(
        String::from_utf8_lossy(&out),
        "[core]\n\tfilemode = true\n[user]\n\tname = A B\n[core]\n\tbare\n"
    );
}

#[test]
fn keys_that_name_programs_or_places_are_refused() {
    for (content, want) in [
        ("[core]\n\tfsmonitor = /tmp/x\n", "core.fsmonitor"),
        ("[core]\n\tfsmonitor\n", "core.fsmonitor"),
        ("[core]\n\tfsmonitor = true\n", "core.fsmonitor"),
        ("[CORE]\n\tFsMonitor = x\n", "core.fsmonitor"),
        ("[core] hooksPath = x\n", "core.hookspath"),
        ("[core]\n\tsshCommand = x\n", "core.sshcommand"),
        ("[core]\n\teditor = x\n", "core.editor"),
        ("[core]\n\tpager = x\n", "core.pager"),
        ("[core]\n\tworktree = /\n", "core.worktree"),
        ("[core]\n\tattributesFile = x\n", "core.attributesfile"),
        ("[core]\n\tgitProxy = x\n", "core.gitproxy"),
        ("[core \"x\"]\n\tbare = true\n", "core.x.bare"),
        ("[diff]\n\texternal = x\n", "diff.external"),
        ("[diff \"a\"]\n\ttextconv = x\n", "diff.a.textconv"),
        ("[filter \"a\"]\n\tclean = x\n", "filter.a.clean"),
        ("[merge \"a\"]\n\tdriver = x\n", "merge.a.driver"),
        ("[credential]\n\thelper = !x\n", "credential.helper"),
        ("[alias]\n\tst = !x\n", "alias.st"),
        ("[include]\n\tpath = x\n", "include.path"),
        ("[includeIf \"gitdir:/\"]\n\tpath = x\n", "includeif.gitdir:/.path"),
        ("[url \"ext::sh\"]\n\tinsteadOf = https://\n", "url.ext::sh.insteadof"),
        ("[remote \"o\"]\n\tuploadpack = x\n", "remote.o.uploadpack"),
        ("[remote \"o\"]\n\treceivepack = x\n", "remote.o.receivepack"),
        ("[remote \"o\"]\n\tvcs = ext\n", "remote.o.vcs"),
        ("[remote \"o\"]\n\tproxy = x\n", "remote.o.proxy"),
        ("[remote \"o\"]\n\turl = ext::sh -c x\n", "remote.o.url"),
        ("[remote \"o\"]\n\turl = http://example.org/\n", "remote.o.url"),
        ("[remote \"o\"]\n\turl = git://example.org/\n", "remote.o.url"),
        ("[remote \"o\"]\n\turl = ssh://-oProxyCommand=x/y\n", "remote.o.url"),
        ("[remote \"o\"]\n\turl = -oProxyCommand=x:y\n", "remote.o.url"),
        ("[remote \"o\"]\n\turl = u@-oProxyCommand=x:y\n", "remote.o.url"),
        ("[remote \"o\"]\n\turl = fd::3\n", "remote.o.url"),
        ("[remote \"o\"]\n\turl = https://a:b@example.org/\n", "remote.o.url"),
        (
            "[remote \"--upload-pack=x\"]\n\turl = https://example.org/\n",
            "remote.--upload-pack=x.url",
        ),
        ("[branch \"a\"]\n\tremote = ext::sh\n", "branch.a.remote"),
        ("[submodule \"a\"]\n\tupdate = !x\n", "submodule.a.update"),
        (
            "[submodule \"../x\"]\n\turl = https://example.org/\n",
            "submodule.../x.url",
        ),
        ("[gc]\n\trecentObjectsHook = x\n", "gc.recentobjectshook"),
        ("[protocol]\n\tallow = always\n", "protocol.allow"),
        ("[protocol \"ext\"]\n\tallow = always\n", "protocol.ext.allow"),
        ("[uploadpack]\n\tpackObjectsHook = x\n", "uploadpack.packobjectshook"),
        ("[sequence]\n\teditor = x\n", "sequence.editor"),
        ("[gpg]\n\tprogram = x\n", "gpg.program"),
        ("[commit]\n\tgpgsign = true\n", "commit.gpgsign"),
        ("[commit]\n\ttemplate = x\n", "commit.template"),
        ("[pager]\n\tlog = x\n", "pager.log"),
        ("[core.x]\n\tbare = 1\n", "section"),
        ("[a \"b\"c]\n", "a"),
        ("[core\n]\n", "section"),
        ("x = 1\n", "configuration"),
        ("[user]\n\tname = \"open\n", "name"),
        ("[user]\n\tname = a\\x\n", "name"),
        ("[user]\n\tname = a\rb\n", "configuration"),
        ("[user]\n\tname = a\0b\n", "configuration"),
        ("[user]\n\tna_me = a\n", "na"),
        ("[core]\n\tbare = maybe\n", "core.bare"),
        (
            "[core]\n\trepositoryformatversion = 2\n",
            "core.repositoryformatversion",
        ),
    ] {
        assert_eq!(key(content), want, "{content}");
    }
}

#[test]
fn a_key_hidden_behind_a_comment_or_continuation_is_still_read() {
    assert_eq!(key("[user]\n\tname = a\\\n[core]\n\tfsmonitor = x\n"), "user.fsmonitor");
    assert_eq!(
        vet(b"[user]\n\tname = a # \\\n[core]\n\tfsmonitor = x\n")
            .expect_err("read")
            .line,
        4
    );
    assert_eq!(key("# note \\\n[core]\n\tfsmonitor = x\n"), "core.fsmonitor");
    assert_eq!(
        key("[user]\n\tname = \"a # \\\"\"\n[core] fsmonitor = x"),
        "core.fsmonitor"
    );
}

#[test]
fn what_the_user_had_set_stays_and_only_that() {
    let old = b"[core]\n\teditor = vim\n\tbare = false\n[credential]\n\thelper = store\n";
    let new = b"[core]\n\teditor = vim\n\tbare = true\n[credential]\n\thelper = store\n[user]\n\tname = a\n";
    assert_eq!(vet_change(old, new).expect("kept"), new);
    let changed = b"[core]\n\teditor = evil\n[credential]\n\thelper = store\n";
    assert_eq!(vet_change(old, changed).expect_err("changed").key, "core.editor");
    let dropped = b"[core]\n\teditor = vim\n";
    assert_eq!(vet_change(old, dropped).expect_err("dropped").key, "credential.helper");
    let doubled = b"[core]\n\teditor = vim\n\teditor = vim\n[credential]\n\thelper = store\n";
    assert_eq!(vet_change(old, doubled).expect_err("doubled").line, 3);
    assert!(vet_change(b"[broken", b"[core]\n\tbare = true\n").is_ok());
}

#[test]
fn the_last_value_counts() {
    assert_eq!(
        value(b"[core]\n\thooksPath = a\n\thookspath = b c\n", "core", "hookspath"),
        Some(b"b c".to_vec())
    );
    assert_eq!(value(b"[core]\n", "core", "hookspath"), None);
}

#[test]
fn gitfiles_stay_in_the_workspace() {
    let ws = b"/home/u/ws";
    for ok in [
        "gitdir: /home/u/ws/.git/worktrees/x\n",
        "gitdir: ../.git/modules/lib/x\n",
        "gitdir: ../r/.git/worktrees/x",
    ] {
        let out = vet_gitfile(ok.as_bytes(), ws, &[b"wt"]).unwrap_or_else(|e| panic!("{ok}: {e}"));
        assert_eq!(String::from_utf8_lossy(&out).trim_end(), ok.trim_end());
    }
    for bad in [
        "gitdir: /home/u/ws2/.git/worktrees/x\n",
        "gitdir: /tmp/x\n",
        "gitdir: ../../.git/worktrees/x\n",
        "gitdir: ../.git\n",
        "gitdir: ../.git/hooks/x\n",
        "gitdir: ../.git/worktrees/x/y\n",
        "gitdir: ../.git/worktrees/../../evil\n",
        "gitdir: d/../../.git/modules/sub\n",
        "gitdir: ../d/../.git/worktrees/x\n",
        "gitdir: /home/u/ws/d/../.git/worktrees/x\n",
        "gitdir: ../../ws/.git/worktrees/x\n",
        "gitdir: ../r/.git/modules/x\n",
        "gitdir: /home/u/ws/r/.git/modules/x\n",
        "gitdir: evil\n",
        "gitdir:\n",
        "x",
        "",
        "gitdir: a\ngitdir: b\n",
        "gitdir: ../.git/worktrees/x\n\n",
    ] {
        assert!(vet_gitfile(bad.as_bytes(), ws, &[b"wt"]).is_err(), "{bad:?}");
    }
    let dir: [&[u8]; 3] = [b".git", b"worktrees", b"x"];
    assert!(vet_worktree_gitdir(b"/home/u/ws/wt/.git\n", ws, &dir).is_ok());
    assert!(vet_worktree_gitdir(b"/home/u/other/.git\n", ws, &dir).is_err());
    assert!(vet_worktree_gitdir(b"/home/u/ws/wt\n", ws, &dir).is_err());
    assert!(vet_worktree_gitdir(b"../../../wt/.git\n", ws, &dir).is_ok());
    assert!(vet_worktree_gitdir(b"../../../d/../wt/.git\n", ws, &dir).is_err());
    assert!(vet_commondir(b"../..\n", &dir).is_ok());
    assert!(vet_commondir(b"../../evil\n", &dir).is_err());
    assert!(vet_commondir(b"../..\n", &[b".git"]).is_err());
    for elsewhere in [
        &[&b"a"[..], b"worktrees", b"x"][..],
        &[b".git", b"a", b"worktrees", b"x"],
        &[b".git", b"modules", b"worktrees", b"x"],
    ] {
        assert!(vet_commondir(b"../..\n", elsewhere).is_err(), "{elsewhere:?}");
    }
    for submodule in [
        &[&b".git"[..], b"modules", b"a", b"worktrees", b"x"][..],
        &[b".git", b"modules", b"a", b"b", b"worktrees", b"x"],
    ] {
        assert!(vet_commondir(b"../..\n", submodule).is_ok(), "{submodule:?}");
    }
}

#[test]
fn todo_lists_run_nothing() {
    let ok = b"pick 1234 subject\nreword 1 x\n# exec in a comment\n\nlabel onto\nmerge -C 1 x\nupdate-ref refs/heads/a\nbreak\n\tfixup -C 1\n";
    assert_eq!(vet_todo(ok).expect("accepted"), ok);
    assert_eq!(vet_todo(b"").expect("empty"), b"");
    assert_eq!(vet_todo(b"noop").expect("no newline"), b"noop\n");
    for bad in [
        "exec sh\n",
        "pick 1\nx sh\n",
        "  exec sh\n",
        "pick 1\r\nexec x\r\n",
        "pick 1\x0bexec x\n",
        "!sh\n",
        "EXEC x\n",
        "execute\n",
    ] {
        assert!(vet_todo(bad.as_bytes()).is_err(), "{bad:?}");
    }
}

#[test]
fn the_state_of_git_names_only_its_own() {
    for (name, content) in [
        ("strategy", "ort\n"),
        ("strategy", "recursive"),
        ("strategy", ""),
        (
            "strategy_opts",
            "\"diff-algorithm=histogram\" \"ignore-all-space\" \"rename-threshold=50%\" \"subtree=a b\"\n",
        ),
        ("strategy_opts", " --theirs"),
        ("strategy_opts", " '--ours' '--find-renames=5'\n"),
        ("gpg_sign_opt", "-S\n"),
        ("gpg_sign_opt", "-S0xABCD!\n"),
        ("gpg_sign_opt", "-SA B <a.b+c@example.org>\n"),
        ("allow_rerere_autoupdate", "--no-rerere-autoupdate\n"),
        ("autostash", "3f786850e387550fdab836ed7e6dc881de23001b\n"),
        (
            "author-script",
            "GIT_AUTHOR_NAME='O'\\''Neil `x` $(y)'\nGIT_AUTHOR_EMAIL='x@x'\nGIT_AUTHOR_DATE='@1796030932 +0000'\n",
        ),
        (
            "apply-opt",
            " '--whitespace=fix' '-C3' '-p1' '--directory=a b' '--reject'\n",
        ),
        ("apply-opt", "\n"),
        ("BISECT_NAMES", " '--' 'f' 'a'\\''b $(x)'\n"),
        (
            "opts",
            "[options]\n\tallow-empty = true\n\tmainline = 1\n\tstrategy = ort\n\tgpg-sign = \n\tstrategy-option = theirs\n\tstrategy-option = rename-threshold=5%\n",
        ),
    ] {
        let out = vet_state(content.as_bytes(), name.as_bytes()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(String::from_utf8_lossy(&out), content);
    }
    for (name, content) in [
        ("strategy", "x/evil\n"),
        ("STRATEGY", "../evil"),
        ("strategy", "evil\n"),
        ("strategy", "ort\n\n"),
        ("strategy", "ort\0/x"),
        ("strategy_opts", "$(evil)"),
        ("strategy_opts", "\"$(evil)\""),
        ("strategy_opts", "\"`evil`\""),
        ("strategy_opts", "--ours; evil"),
        ("strategy_opts", "'--ours"),
        ("strategy_opts", "--output=x"),
        ("strategy_opts", "--theirs\tx"),
        ("gpg_sign_opt", "--directory=x\n"),
        ("gpg_sign_opt", "-S/etc/passwd\n"),
        ("gpg_sign_opt", "-S--output=x\n"),
        ("allow_rerere_autoupdate", "--exec=x\n"),
        ("autostash", "--index\n"),
        ("author-script", "GIT_AUTHOR_NAME=$(evil)\n"),
        ("author-script", "PATH='.'\n"),
        ("author-script", "evil\n"),
        ("apply-opt", "'--build-fake-ancestor=x'\n"),
        ("apply-opt", "'--unsafe-paths'\n"),
        ("BISECT_NAMES", "'--' 'f'; evil\n"),
        ("BISECT_NAMES", "'f' | evil\n"),
        ("opts", "[options]\n\tstrategy = x/evil\n"),
        ("opts", "[Options]strategy=\"x/evil\"\n"),
        ("opts", "[options]\n\tstrategy\n"),
        ("opts", "[options]\n\tstrategy-option = output=x\n"),
        ("opts", "[options]\n\tgpg-sign = -x\n"),
        ("opts", "[options]\n\tunknown = true\n"),
        ("opts", "[include]\n\tpath = x\n"),
        ("another", "x"),
    ] {
        assert!(
            vet_state(content.as_bytes(), name.as_bytes()).is_err(),
            "{name}: {content:?}"
        );
    }
}

#[test]
fn a_submodule_lies_in_the_workspace() {
    let dir: [&[u8]; 4] = [b".git", b"modules", b"lib", b"x"];
    let config = |path: &str| format!("[core]\n\tworktree = {path}\n");
    assert!(vet_change_at(b"", config("../../../../lib/x").as_bytes(), &dir).is_ok());
    for bad in [
        "../../../../../outside",
        "/",
        "../../../../",
        "../../hooks",
        "../../../../a/.git/hooks",
        "../../../../a/../lib/x",
        "lib/x",
        "",
    ] {
        assert!(vet_change_at(b"", config(bad).as_bytes(), &dir).is_err(), "{bad}");
    }
    assert!(vet_change_at(b"", config("../lib").as_bytes(), &[b".git"]).is_err());
    assert!(vet_change(b"", config("../../../../lib/x").as_bytes()).is_err());
}
