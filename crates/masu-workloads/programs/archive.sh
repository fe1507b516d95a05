#!/bin/sh
# A tree of files packed and unpacked again, with two compressors on two threads each.
pack() { tar -C "$1" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -c tree; }
pack "$1" | xz -T2 -2 --block-size=512KiB | xz -T2 -dc | tar -xO | md5sum
pack "$1" | zstd -q -T2 -12 | zstd -q -dc | tar -xO | md5sum
