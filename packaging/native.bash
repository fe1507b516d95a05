# What the gem, the npm package and the tarball share: the command and the library, for each machine that is given.
# shellcheck shell=bash

# needs_static TARGET: ends with what to do if Rust cannot build the static command, before anything is built.
needs_static() {
    [ -d "$(rustc --print sysroot)/lib/rustlib/$1" ] && return
    echo "${0##*/}: the command is linked statically: rustup target add $1" >&2
    exit 1
}

# native_options "$@": reads --out DIR, --machine NAME LIBRARY COMMAND… into `out` and `given`.
native_options() {
    out=$root/target/packages given=()
    while [ $# -gt 0 ]; do
        case $1 in
            --out)
                [ $# -gt 1 ] || { echo "${0##*/}: --out DIR" >&2; exit 2; }
                out=$2; shift ;;
            --machine)
                [ $# -gt 3 ] || { echo "${0##*/}: --machine NAME LIBRARY COMMAND" >&2; exit 2; }
                given+=("$2" "$(realpath -e "$3")" "$(realpath -e "$4")")
                shift 3 ;;
            -h | --help) sed -n '/^set -e/q;2,$s/^# \{0,1\}//p' "$0"; exit ;;
            *) echo "${0##*/}: unknown option $1; --help lists them" >&2; exit 2 ;;
        esac
        shift
    done
    if [ ${#given[@]} = 0 ]; then
        local machine static target
        machine=$(uname -m) target=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")
        static=$machine-unknown-linux-musl
        needs_static "$static"
        export CARGO_TARGET_DIR="$target"
        (cd "$root" && cargo build --release --package libmasu &&
            cargo build --release --package masu-cli --target "$static")
        given=("$machine" "$target/release/libmasu.so" "$target/$static/release/masu")
    fi
    mkdir -p "$out"
    out=$(realpath "$out")
    version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
}

# native_files DIR: DIR/MACHINE/bin/masu and DIR/MACHINE/lib/libmasu.so.0 of each, stripped.
native_files() {
    local at strip i
    for ((i = 0; i < ${#given[@]}; i += 3)); do
        at=$1/${given[i]} strip=strip
        [ "${given[i]}" = "$(uname -m)" ] || strip=${given[i]}-linux-gnu-strip
        mkdir -p "$at/bin" "$at/lib"
        "$strip" -o "$at/lib/libmasu.so.0" "${given[i + 1]}"
        "$strip" -o "$at/bin/masu" "${given[i + 2]}"
        chmod 755 "$at/bin/masu"
        chmod 644 "$at/lib/libmasu.so.0"
    done
}
