# rustc has its own malloc (jemalloc), so its allocations and the library's live side by side; the
# linker, cargo and the built programs use the library alone.
packages='gcc'
needs='cargo rustc'
maps='cargo rustc'
stderr=varies
limit=180

prepare() {
    local names='lexer parser types eval report' types
    types=$(amount 40 150)
    mkdir -p app/src
    for name in $names; do
        mkdir -p "$name/src"
        printf '[package]\nname = "%s"\nversion = "0.1.0"\nedition = "2021"\n' "$name" >"$name/Cargo.toml"
        {
            echo 'use std::collections::{BTreeMap, HashMap};'
            for i in $(seq "$types"); do
                echo "#[derive(Debug, Clone, PartialEq, Default)] pub struct T$i { pub name: String, pub list: Vec<u$((8 << i % 4))>, pub map: BTreeMap<String, Vec<String>> }"
                echo "impl T$i { pub fn work(&self, n: usize) -> usize { let mut seen: HashMap<String, usize> = HashMap::new(); for k in 0..n { *seen.entry(format!(\"{}{k}\", self.name)).or_default() += self.list.len() + k; } seen.values().sum::<usize>() + self.map.len() } }"
            done
            echo 'pub fn total(n: usize) -> usize { '
            for i in $(seq "$types"); do echo "T$i::default().work(n) + "; done
            echo '0 }'
        } >"$name/src/lib.rs"
    done
    {
        printf '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\n'
        for name in $names; do echo "$name = { path = \"../$name\" }"; done
    } >app/Cargo.toml
    {
        echo 'fn main() { println!("{}", 0'
        for name in $names; do echo "+ $name::total(7)"; done
        echo '); }'
    } >app/src/main.rs
    printf '[workspace]\nresolver = "2"\nmembers = ["app"]\n' >Cargo.toml
}

measure() {
    export CARGO_TARGET_DIR=$PWD/target CARGO_INCREMENTAL=1
    unset RUSTFLAGS
    cp -r "$shared" project
    cd project
    cargo build --offline --color never
    ../target/debug/app
    echo 'pub fn one_more() {}' >>lexer/src/lib.rs
    cargo build --offline --color never
    cargo run --offline --quiet
    echo 'fn broken( {' >>report/src/lib.rs
    cargo check --offline --quiet || echo "exit $?"
}
