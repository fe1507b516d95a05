packages='tar gzip bzip2 xz-utils zstd openssl'
needs='tar gzip bzip2 xz zstd openssl'
maps='tar gzip bzip2 xz zstd openssl'

prepare() {
    mkdir tree
    for i in $(seq "$(amount 200 300)"); do
        mkdir -p "tree/$((i % 17))"
        seq "$i" $((i * 40)) >"tree/$((i % 17))/$i"
    done
}

measure() {
    tar -C "$shared" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf tree.tar tree
    md5sum tree.tar
    gzip -9n <tree.tar | tee tree.tar.gz | md5sum
    bzip2 <tree.tar | tee tree.tar.bz2 | md5sum
    xz -T2 -6 --block-size=1MiB <tree.tar | tee tree.tar.xz | md5sum
    zstd -q -T2 -15 <tree.tar | tee tree.tar.zst | md5sum
    gzip -dc tree.tar.gz | cmp - tree.tar
    bzip2 -dc tree.tar.bz2 | cmp - tree.tar
    xz -T2 -dc tree.tar.xz | cmp - tree.tar
    zstd -dc -q tree.tar.zst | cmp - tree.tar
    mkdir out && tar -C out -xJf tree.tar.xz && diff -r out/tree "$shared/tree" && echo 'the same tree'
    openssl enc -aes-256-ctr -pbkdf2 -pass pass:x -S 0011223344556677 -in tree.tar | openssl dgst -sha256
}
