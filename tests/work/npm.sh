# npm, offline: a packed local package, a linked folder, a script in a package.
set -e
export npm_config_offline=true npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false npm_config_cache=${TMPDIR:-/tmp}/npm-cache-$$
mkdir -p dep/lib linked app
cat > dep/package.json <<'J'
{"name":"dep","version":"1.2.3","main":"lib/index.js","bin":{"dep":"lib/bin.js"}}
J
echo 'module.exports = () => "dep works";' > dep/lib/index.js
printf '#!/usr/bin/env node\nconsole.log(require("./index.js")());\n' > dep/lib/bin.js
for i in 1 2 3 4 5 6 7 8 9 10; do echo "// $i" > dep/lib/part$i.js; done
echo '{"name":"linked","version":"0.0.1","main":"i.js"}' > linked/package.json
echo 'module.exports = "linked works";' > linked/i.js
(cd dep && npm pack --silent --pack-destination ..)
cd app
cat > package.json <<'J'
{"name":"app","version":"1.0.0","scripts":{"start":"node -e \"console.log(require('dep')(), require('linked'))\"","dep":"dep"}}
J
npm install --silent ../dep-1.2.3.tgz ../linked
npm run --silent start
npm run --silent dep
npm ls --all 2>/dev/null | sed 1d
rm -rf "$npm_config_cache"
find . | LC_ALL=C sort
