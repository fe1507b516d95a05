#!/bin/sh
# Installs masu from this script's directory.
#
#   ./install.sh [--prefix DIR] [--destdir DIR]
#   ./install.sh --uninstall [--prefix DIR] [--destdir DIR]
#
#   --prefix DIR    default /usr/local
#   --destdir DIR   put in front of all paths, for packages and images
#   --uninstall     remove the files that an installation put there, and nothing else
#
# Needs a POSIX shell and the usual commands; busybox has them all.
set -eu
# For everybody, whoever installs.
umask 022
here=$(CDPATH="" cd "$(dirname "$0")" && pwd)
prefix=/usr/local destdir='' uninstall=''
while [ $# -gt 0 ]; do
    case $1 in
        --prefix | --destdir)
            [ $# -gt 1 ] || { echo "install.sh: $1 takes a directory" >&2; exit 2; }
            case $2 in
                /*) ;;
                *) echo "install.sh: $1 $2: give an absolute path, such as $PWD/$2" >&2; exit 2 ;;
            esac
            if [ "$1" = --prefix ]; then prefix=${2%/}; else destdir=${2%/}; fi
            shift ;;
        --uninstall) uninstall=1 ;;
        -h | --help) sed -n '/^set -e/q;2,$s/^# \{0,1\}//p' "$0"; exit ;;
        *) echo "install.sh: unknown option $1; --help lists them" >&2; exit 2 ;;
    esac
    shift
done
to=$destdir$prefix

# Whether a file belongs to a jemalloc that is installed there.
is_jemallocs() {
    [ "$1" = lib/pkgconfig/jemalloc.pc ] && [ -e "$to/$1" ] && ! grep -q 'masu behind' "$to/$1"
}

# Has the loader's cache brought up to date where this is the running system.
tell_loader() {
    [ -z "$destdir" ] && [ "$(id -u)" = 0 ] || return 0
    PATH=$PATH:/usr/sbin:/sbin
    ! command -v ldconfig >/dev/null || ldconfig 2>/dev/null || true
}

if [ -n "$uninstall" ]; then
    while IFS= read -r file; do
        is_jemallocs "$file" || rm -f "$to/$file"
        directory=$(dirname "$file")
        # masu's directories, once they are empty. Every prefix has bin, lib and share/man, for whatever comes next.
        while case $directory in *cmake* | *pkgconfig | *masu*) rmdir "$to/$directory" 2>/dev/null ;; *) false ;; esac; do
            directory=$(dirname "$directory")
        done
    done <"$here/.files"
    tell_loader
    exit
fi

mkdir -p "$to/" 2>/dev/null || true
if [ ! -w "$to/" ]; then
    echo "install.sh: $to cannot be written: run this as root, or choose another --prefix, such as \$HOME/.local" >&2
    exit 1
fi
while IFS= read -r file; do
    if is_jemallocs "$file"; then
        echo "install.sh: $to/$file is jemalloc's own: it stays" >&2
        continue
    fi
    mkdir -p "$to/$(dirname "$file")"
    # A new file takes the name, as a whole: programs that run on the old one keep it.
    rm -f "$to/$file.new"
    # The unpacked files may be their owner's alone; a link has no mode of its own.
    if ! { cp -P "$here/$file" "$to/$file.new" && { [ -L "$to/$file.new" ] || chmod a+rX "$to/$file.new"; } &&
        mv -f "$to/$file.new" "$to/$file"; }; then
        rm -f "$to/$file.new"
        exit 1
    fi
done <"$here/.files"
# As pkg-config takes a path, and then as sed does.
quoted=$(printf '%s\n' "$prefix" | sed -e "s/[][ \"#\$&'()*;<>?\\\\\`|~]/\\\\&/g" -e 's/[\\&|]/\\&/g')
for file in masu jemalloc; do
    is_jemallocs "lib/pkgconfig/$file.pc" ||
        sed "s|/@prefix@|$quoted|g" "$here/lib/pkgconfig/$file.pc" >"$to/lib/pkgconfig/$file.pc"
done
tell_loader
printf '%s\n' "masu is in $to: try $to/bin/masu run --stats -- ls"
