# A database in WAL mode with several writers at once. Its pages depend on who came first, its content does not.
set -e
sqlite3 db 'pragma journal_mode=wal; create table t(w, n); create index i on t(n);'
for w in 1 2 3 4; do
    { echo '.timeout 30000'; n=0; while [ $n -lt 40 ]; do echo "insert into t values($w, $n);"; n=$((n + 1)); done; } | sqlite3 db >/dev/null &
    pids="$pids $!"
done
for p in $pids; do wait $p; done
sqlite3 db 'select w, count(*), sum(n) from t group by w; pragma integrity_check;'
sqlite3 db 'pragma wal_checkpoint(truncate); pragma journal_mode=delete;'
ls
sqlite3 rollback 'create table t(n); begin; insert into t values(1); commit; delete from t; vacuum;'
rm db
