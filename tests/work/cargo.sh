# A new crate, built, run, tested and changed, without dependencies or network.
set -e
export CARGO_NET_OFFLINE=true CARGO_TERM_COLOR=never CARGO_INCREMENTAL=1
cargo new -q hello --vcs none
cd hello
cargo build -q
./target/debug/hello
cat >> src/main.rs <<'R'
#[test]
fn holds() { assert_eq!(1 + 1, 2); }
R
cargo build -q
cargo test -q 2>&1 | grep -c 'test result: ok'
find target/debug -maxdepth 1 | LC_ALL=C sort
rm -r target
cd ..
cargo new -q with-git
cat with-git/.gitignore
