# A virtual environment, made with option $1, and compiled modules.
set -e
/usr/bin/python3 -m venv "$1" env
mkdir -p pkg/sub
for m in a b c d; do
    printf 'def f(x):\n    return "%s", x\n' $m > pkg/$m.py
    cp pkg/$m.py pkg/sub/$m.py
done
: > pkg/__init__.py; : > pkg/sub/__init__.py
env/bin/python -m compileall -q -j 2 --invalidation-mode unchecked-hash pkg
env/bin/python -c 'import sys, pkg.sub.d; print(pkg.sub.d.f(1), sys.prefix)'
find . | LC_ALL=C sort
