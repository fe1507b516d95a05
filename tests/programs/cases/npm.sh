# A package with dependencies in the tree: packed, installed, run, listed. No registry is used.
packages='nodejs npm'
needs='node npm'
maps=node
limit=240

prepare() {
    mkdir -p app/libs
    local i
    for i in $(seq 12); do
        mkdir "app/libs/lib$i"
        printf '{ "name": "lib%d", "version": "1.0.%d", "main": "index.js" }\n' "$i" "$i" >"app/libs/lib$i/package.json"
        printf 'module.exports = (x) => x * %d + 1;\n' "$i" >"app/libs/lib$i/index.js"
    done
    {
        printf '{ "name": "app", "version": "2.1.0", "private": true,\n "scripts": { "start": "node index.js", "fail": "exit 4" },\n "dependencies": {'
        seq 12 | sed 's|.*|"lib&": "file:libs/lib&"|' | paste -sd,
        printf '} }\n'
    } >app/package.json
    cat >app/index.js <<'JS'
let x = 1;
for (let i = 1; i <= 12; i++) x = require('lib' + i)(x) % 100003;
console.log(x);
JS
}

measure() {
    export npm_config_cache=$PWD/cache npm_config_update_notifier=false npm_config_offline=true
    export npm_config_audit=false npm_config_fund=false npm_config_loglevel=error npm_config_progress=false
    cp -r "$shared/app" .
    cd app
    npm install --silent
    npm ls --all | sed 's|@\(.*\) .*|@\1|' | sort
    npm run --silent start
    npm pack --silent ./libs/lib3
    tar -tzf lib3-1.0.3.tgz | sort
    md5sum <package-lock.json
    node -p 'JSON.stringify(require("./package-lock.json").lockfileVersion)'
    npm run --silent fail || echo "exit $?"
    rm -rf ../cache
}
