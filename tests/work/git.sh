# Everyday git on a generated repository of $1 files. Names and dates are fixed, so that commits have the same ids.
set -e
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_AUTHOR_DATE='1700000000 +0000'
export GIT_COMMITTER_NAME=c GIT_COMMITTER_EMAIL=c@example.org GIT_COMMITTER_DATE='1700000100 +0000'
export GIT_CONFIG_NOSYSTEM=1 GIT_PAGER=cat GIT_EDITOR=true
export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=pack.threads GIT_CONFIG_VALUE_0=1 GIT_CONFIG_KEY_1=gc.auto GIT_CONFIG_VALUE_1=0
step() { echo "== $*"; }

step init
git init -q -b main repo
cd repo
i=0
while [ $i -lt "$1" ]; do
    d=src/d$((i / 50))
    [ -d $d ] || mkdir -p $d
    echo "file $i" > $d/f$i.txt
    i=$((i + 1))
done
printf '#!/bin/sh\necho run\n' > run.sh
chmod 755 run.sh
ln -s src/d0/f0.txt link
step commit
git add -A
git commit -q -m 'first'
git rev-parse HEAD
step config
git config user.name somebody
git config user.email somebody@example.org
step branches
git checkout -q -b topic
for k in 1 2 3 4; do
    for f in src/d*/f*$k.txt; do echo "topic $k" >> $f; done
    git commit -q -a -m "topic $k"
done
git checkout -q main
git mv run.sh start.sh
git rm -q src/d0/f5.txt
echo more > src/new.txt
git add -A
git commit -q -m 'on main'
git checkout -q topic
step stash
echo dirty >> src/d0/f0.txt
echo untracked > untracked.txt
git stash push -q -u
git status --porcelain
git stash pop -q
git status --porcelain
git checkout -q -- .
rm untracked.txt
step interactive rebase
cat > ../editor <<'S'
#!/bin/sh
sed -n -e 2p "$1" > "$1.new"
sed -n -e 1p "$1" >> "$1.new"
sed -n -e 3p -e 4s/^pick/squash/p "$1" >> "$1.new"
cat "$1.new" > "$1"
rm "$1.new"
S
chmod +x ../editor
GIT_SEQUENCE_EDITOR=../editor git rebase -q -i HEAD~4
git log --format='%H %s'
step rebase
git rebase -q main
git log --format='%H %s'
step merge, tag, cherry-pick, revert, reset
git checkout -q main
git merge -q --no-ff -m merged topic
git tag -a -m tagged v1
git checkout -q -b other HEAD~1
git cherry-pick topic >/dev/null
git revert --no-edit HEAD >/dev/null
git reset -q --hard main
git log --format='%H %s' -3
step worktree
git worktree add -q ../second topic
git -C ../second rev-parse HEAD
echo x > ../second/x
git -C ../second add x
git -C ../second commit -q -m 'in the second'
git worktree list --porcelain | grep -c '^worktree'
step clone
git clone -q --no-checkout . ../copy
git -C ../copy checkout -q main
git -C ../copy rev-parse HEAD
git clone -q --bare . ../bare.git
step gc
git gc -q --prune=now
git fsck --strict 2>&1 | sed 's/^dangling.*//'
git ls-files -s | sha1sum
git status --porcelain
git worktree remove ../second
git checkout -q main
git branch -q -D other
git for-each-ref
