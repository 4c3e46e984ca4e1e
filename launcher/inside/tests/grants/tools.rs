//! Ordinary tools in edit mode, with protected paths on: the same result as without a supervisor.

use super::harness::Scene;
use picktwo_inside::mode::Mode;
use std::process::Command;

const ENVIRONMENT: &str = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b.c GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b.c \
    GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'; set -e; ";

/// Runs a script with and without supervisor; the exit codes and the trees must be the same.
fn same(script: &str) {
    let scene = Scene::new(Mode::Edit);
    let bare = scene.out.join("w");
    std::fs::create_dir(&bare).unwrap();
    let script = format!("{ENVIRONMENT}{script}");
    let done = Command::new("/bin/sh")
        .arg("-c")
        .arg(&script)
        .current_dir(&bare)
        .env("HOME", &scene.out)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "without a supervisor: {}",
        String::from_utf8_lossy(&done.stderr)
    );
    scene.run(|s| drop(s.works(&script)));
    let listing = |dir: &std::path::Path| {
        let find = "find . -path ./.git/index -prune -o -path '*/index' -prune -o -path '*/logs/*' -prune -o -printf '%y %m %p %l\\n' | sort; \
            find . -type f ! -name index ! -path '*/logs/*' ! -name '*.pack' ! -name '*.idx' ! -name '*.rev' ! -name '*.mtimes' ! -name config ! -name gitdir ! -name .git -exec sha256sum {} + | sort -k2";
        let out = Command::new("/bin/sh")
            .arg("-c")
            .arg(find)
            .current_dir(dir)
            .output()
            .unwrap();
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    let (got, wanted) = (listing(&scene.w), listing(&bare));
    let differences: Vec<_> = got
        .lines()
        .filter(|l| !wanted.lines().any(|w| w == *l))
        .chain(wanted.lines().filter(|w| !got.lines().any(|l| l == *w)))
        .collect();
    assert!(differences.is_empty(), "{differences:#?}\n{:?}", scene.rules());
}

#[test]
fn git() {
    same(
        "git init -q -b main r; cd r; git config user.email x@y.z; for i in $(seq 1 50); do mkdir -p d$((i % 7)); echo $i > d$((i % 7))/f$i; done; \
         git add .; git commit -qm one; git checkout -q -b topic; echo t > t; ln -s t l; chmod +x d1/f1; git add .; git commit -qm two; \
         git checkout -q main; echo m > m; git add m; git commit -qm three; git checkout -q topic; git rebase -q main; \
         echo s >> t; git stash -q; git stash pop -q; git checkout -q .; git tag v1; git branch -q -m topic topic2; \
         git clone -q . ../c; cd ../c; git checkout -q -b x; git branch --set-upstream-to=origin/main -q; git pull -q || true; cd ..; rm -rf c; \
         cd r; git worktree add -q ../wt main; cd ../wt; git status --porcelain; echo w > w; git add w; git commit -qm wt; cd ../r; git worktree remove ../wt; \
         git merge -q main; git gc -q; git fsck",
    );
}

#[test]
fn git_bare_and_interactive_rebase() {
    same(
        "git init -q --bare -b main b.git; git init -q -b main r; cd r; echo 1 > f; git add f; git commit -qm 1; echo 2 > f; git commit -qam 2; echo 3 > f; git commit -qam 3; \
         git remote add origin ../b.git; git push -q origin main; GIT_SEQUENCE_EDITOR='sed -i 2s/pick/squash/' GIT_EDITOR=true git rebase -q -i HEAD~2; \
         git revert --no-edit HEAD; git fetch -q origin; git clone -q --bare . ../c.git; rm -rf ../c.git",
    );
}

#[test]
fn archives_copies_and_editors() {
    same(
        "mkdir -p s/d; for i in $(seq 1 200); do echo $i > s/d/f$i; done; ln -s f1 s/d/l; ln s/d/f1 s/d/h; chmod 700 s/d/f3; \
         tar cf a.tar s; mkdir x; tar xf a.tar -C x; cp -a s c; cp -al s cl; install -m 755 s/d/f1 i; sed -i s/1/one/ s/d/f1; \
         perl -pi -e 's/2/two/' s/d/f2; mv s/d/f4 s/moved; rm -rf c/d; touch -d '2001-01-01' t; chmod -R g-w x; mkfifo p; rm p; \
         (umask 077; echo u > u); set -o noclobber; echo a > n; (echo b > n) 2>/dev/null || echo refused > n2; set +o noclobber; echo o > /dev/stdout; \
         diff -u --label a --label b s/d/f1 s/d/f5 > patch.txt || true; mkdir q; cd q; echo deep > '../x/ü'; cd ..; rmdir q; dd if=/dev/zero of=z bs=1k count=3 2>/dev/null; truncate -s 10 z; \
         test -w z; ls > listing; rm a.tar",
    );
}

#[test]
fn databases_and_interpreters() {
    same(
        "python3 - <<'E'\nimport sqlite3, os, tempfile, shutil\nc = sqlite3.connect('db'); c.execute('pragma journal_mode=wal'); c.execute('create table t(a)')\n\
         for i in range(100): c.execute('insert into t values(?)', (i,)); c.commit()\nc.close()\n\
         os.makedirs('p/q'); open('p/q/m.py', 'w').write('x = 1\\n'); import compileall; os.replace('p/q/m.py', 'p/m.py')\n\
         d = tempfile.mkdtemp(dir='.'); shutil.copytree('p', d + '/copy'); shutil.rmtree(d)\nos.remove('db')\nE\n\
         ls p",
    );
}

#[test]
fn git_sequences() {
    same(
        "git init -q -b main r; cd r; for i in 1 2 3 4; do echo $i > f$i; git add .; git commit -qm $i; done; git checkout -q -b old main~3; \
         git cherry-pick main~2..main >/dev/null; git revert --no-edit HEAD~2..HEAD >/dev/null; git rebase -q --onto main HEAD~2; \
         echo x > f1; git add .; git commit -qm x; git checkout -q main; echo y > f1; git add .; git commit -qm y; git checkout -q old; \
         git rebase main >/dev/null 2>&1 || { echo z > f1; git add f1; GIT_EDITOR=true git rebase --continue >/dev/null 2>&1; }; \
         git am --abort 2>/dev/null || true; git format-patch -q -1 --stdout > p.patch; git reset -q --hard HEAD~1; git am -q p.patch; \
         git bisect start HEAD HEAD~3 >/dev/null 2>&1; git bisect reset >/dev/null 2>&1; git notes add -m n; git reflog expire --all --expire=now; git prune; rm p.patch",
    );
}

#[test]
fn a_todo_list_that_runs_something_is_refused() {
    let scene = Scene::new(Mode::Edit);
    scene.run(|s| {
        s.works(&format!(
            "{ENVIRONMENT} git init -q -b main .; for i in 1 2 3; do echo $i > f; git add f; git commit -qm $i; done"
        ));
        let (code, text) = s.program(&format!("{ENVIRONMENT} git rebase -q -i -x 'touch ran' HEAD~2"));
        s.equal(&text, code != 0, true);
        s.equal("did not run", std::fs::metadata("ran").is_err(), true);
        s.works("git rebase --abort || git rebase --quit");
        // The control.
        s.works(&format!(
            "{ENVIRONMENT} GIT_SEQUENCE_EDITOR=true git rebase -q -i HEAD~2"
        ));
    });
    assert!(
        scene.rules().iter().any(|rule| rule.contains("git-todo")),
        "{:?}",
        scene.rules()
    );
}

#[test]
fn rebases_keep_their_strategies_and_options() {
    same(
        "git init -q -b main r; cd r; for i in 1 2 3; do echo $i > f; git add f; git commit -qm $i; done; git checkout -q -b t HEAD~1; \
         echo z > f; git commit -qam z; echo y > g; git add g; git commit -qm y; export GIT_EDITOR=true; \
         git rebase -s resolve main > /dev/null 2>&1 || { cat .git/rebase-merge/strategy >> ../state; git rebase --abort; }; \
         git rebase -Xpatience -Xrename-threshold=50% main > /dev/null 2>&1 || { cat .git/rebase-merge/strategy* >> ../state; git rebase --abort; }; \
         git rebase --apply --whitespace=fix -C3 main > /dev/null 2>&1 || { cat .git/rebase-apply/apply-opt >> ../state; git rebase --abort; }; \
         git cherry-pick -x -Xpatience --strategy=recursive --allow-empty main~1 main > /dev/null 2>&1 || { cat .git/sequencer/opts >> ../state; git cherry-pick --abort; }; \
         echo dirty > h; git add h; git rebase --autostash main > /dev/null 2>&1 || { cat .git/rebase-merge/author-script >> ../state; echo x > f; git add f; git rebase --continue > /dev/null; }; \
         git stash -q; git rebase -q -s ort -X theirs HEAD~1; git stash pop -q; git bisect start HEAD HEAD~2 -- f \"a'b\" > /dev/null 2>&1; cat .git/BISECT_NAMES >> ../state; \
         git bisect reset > /dev/null 2>&1; git log --format=%s",
    );
}

#[test]
fn a_strategy_of_anothers_is_refused() {
    let scene = Scene::new(Mode::Edit);
    scene.run(|s| {
        s.works(&format!(
            "{ENVIRONMENT} git init -q -b main .; for i in 1 2 3; do echo $i > f; git add f; git commit -qm $i; done; \
             GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -q -i HEAD~2; test -d .git/rebase-merge; mkdir .git/sequencer"
        ));
        for (file, content) in [
            (".git/rebase-merge/strategy", "x/evil"),
            (".git/rebase-merge/strategy_opts", "$(evil)"),
            (".git/sequencer/opts", "[options]\n\tstrategy = x/evil"),
        ] {
            s.works(&format!("printf '{content}\\n' > {file}; touch settle"));
            s.equal(file, std::fs::read_to_string(file).ok().as_deref(), Some(""));
            let (code, text) = s.program(&format!("printf '{content}\\n' > .git/x; mv .git/x {file}"));
            s.equal(&text, code != 0, true);
        }
        // The control.
        s.works("echo ours > .git/rebase-merge/strategy; touch settle; grep -q ours .git/rebase-merge/strategy");
    });
    assert!(
        scene.rules().iter().any(|rule| rule.contains("git-state")),
        "{:?}",
        scene.rules()
    );
}

#[test]
fn submodules_come_move_and_go() {
    same(
        "export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=protocol.file.allow GIT_CONFIG_VALUE_0=always; \
         git init -q -b main src; git -C src commit -q --allow-empty -m s; git init -q -b main r; cd r; git commit -q --allow-empty -m r; \
         git submodule --quiet add ../src lib/x; git submodule --quiet add --name n/m ../src y; git commit -qm subs; \
         git mv lib/x z; git commit -qm moved; git -C z config user.name b; git config -f .git/modules/lib/x/config core.worktree; \
         git submodule --quiet deinit -f y; git submodule --quiet update --init; cd ..; git clone -q --recursive r c; mv r r2; \
         git -C r2 submodule status > status",
    );
}

#[test]
fn a_submodules_files_lie_where_its_gitfile_does() {
    let scene = Scene::new(Mode::Edit);
    scene.run(|s| {
        s.works(&format!(
            "{ENVIRONMENT} git init -q -b main src; git -C src commit -q --allow-empty -m s; git init -q -b main .; \
             git -c protocol.file.allow=always submodule --quiet add ./src sub; mkdir other free; ln -s other link; ln -s /tmp out; \
             printf 'gitdir: ../.git/modules/other\\n' > other/.git || :; touch settle"
        ));
        let config = ".git/modules/sub/config";
        let before = std::fs::read_to_string(config).unwrap();
        for elsewhere in ["link", "out", "free", "other", "src", ".claude", ".vscode", "absent"] {
            let (code, text) = s.program(&format!("git config -f {config} core.worktree ../../../{elsewhere}"));
            s.equal(&format!("{elsewhere}: {text}"), code != 0, true);
            let written = before.replace("../../../sub", &format!("../../../{elsewhere}"));
            s.works(&format!("printf '{}' > {config}; touch settle", written.replace('\n', "\\n")));
            s.equal(elsewhere, std::fs::read_to_string(config).ok(), Some(before.clone()));
        }
        // The controls: the same again, and where the gitfile went.
        s.works("git -C sub config core.worktree ../../../sub; git mv sub new; git -C new config user.name b");
        s.equal(
            "moved",
            std::fs::read_to_string(config).is_ok_and(|text| text.contains("worktree = ../../../new\n")),
            true,
        );
    });
}
