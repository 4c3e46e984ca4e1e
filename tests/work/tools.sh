# Shell tools that change files in their own ways. Files get old times, so that what a tool keeps can be compared.
set -e
step() { echo "== $*"; }
mkdir tree && cd tree
for d in a b c; do
    mkdir -p $d/sub
    for f in 1 2 3 4 5 6 7 8; do echo "$d $f" > $d/sub/$f.txt; done
    ln -s sub/1.txt $d/link
    ln $d/sub/2.txt $d/hard
done
chmod 640 a/sub/3.txt; chmod 755 b/sub/4.txt; chmod 2750 c
touch -d '2019-05-06 07:08:09.123456789 UTC' a/sub/*.txt b
touch -h -d '2018-01-01 UTC' a/link
cd ..
step sed
sed -i 's/a/A/' tree/a/sub/*.txt
sed -i.orig 's/b/B/' tree/b/sub/1.txt
step cp
cp -a tree copy
cp -r tree copy2
cp -al tree linked
cp --sparse=always tree/a/sub/1.txt sparse
install -D -m 751 tree/a/sub/1.txt installed/deep/file
step tar
tar -c -f all.tar --sort=name --mtime='2020-01-01 UTC' tree
sha1sum all.tar
mkdir out && tar -x -p -f all.tar -C out
tar -x -f all.tar -C out --overwrite
step mv
mv copy2 moved
mv -T moved/a moved/z
mv linked/a/sub/1.txt linked/b/sub/1.txt
step rm
rm -r linked/c
find out -name '*5.txt' -delete
step redirections
echo one > r; echo two >> r; (echo three; echo four) 1<> r; : > empty; cat r
set -C; (echo x > r) 2>/dev/null || echo refused by noclobber; set +C
umask 077; echo private > private; mkdir private.d; umask 022
{ echo to stdout > /dev/stdout; echo null > /dev/null; echo tty > /dev/fd/1; } | cat
step diff and patch
cp r r2; sed -i s/three/3/ r2; diff -u r r2 > p || true
if command -v patch >/dev/null; then patch -s r < p; else cp r2 r; fi
rm p
cat r
step rest
mkfifo pipe; (cat pipe > from-pipe &) ; echo through > pipe; while [ ! -s from-pipe ]; do :; done
truncate -s 12345 sized; dd if=/dev/zero of=sized bs=1 seek=20 count=5 conv=notrunc 2>/dev/null
ln -sfn tree/a current; ln -sfn tree/b current; readlink current
chmod -R go-w tree; chmod u=rwx,g=rx,o= tree
touch -d '2001-02-03 UTC' sized; touch -r sized sized2
cp -p sized sized3
find . | LC_ALL=C sort
