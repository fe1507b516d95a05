packages='coreutils findutils grep sed gawk diffutils'
needs='sort ls wc md5sum join cut tr od split find grep sed awk diff'
maps='sort ls wc md5sum join cut tr od split find grep sed awk diff'

prepare() {
    awk -v "lines=$(amount 100000 300000)" 'BEGIN { srand(42); for (i = 0; i < lines; i++)
        printf "%d %s%06d %.6f\n", rand() * 1e9, substr("abcdefghijklmnopqrstuvwxyz", 1 + rand() * 20, 5), i % 4999, rand() }' >data
    awk '{ print $2, NR }' data | sort -k1,1 -u >keys
    mkdir tree
    for i in $(seq 400); do mkdir -p "tree/$((i % 20))"; echo "$i" >"tree/$((i % 20))/$i"; done
    find tree -exec touch -d 2020-02-02 {} +
}

measure() {
    sort -n "$shared/data" | md5sum
    sort --parallel=4 -S 8M -k2,2 -k3,3g -T . "$shared/data" | md5sum
    sort -u -k2,2 "$shared/data" | wc
    sort -k2,2 "$shared/data" | join -1 2 -2 1 - "$shared/keys" | md5sum
    cut -d' ' -f2 "$shared/data" | sort | uniq -c | sort -rn | md5sum
    tr '[:lower:]' '[:upper:]' <"$shared/data" | od -c | md5sum
    split -l 10000 "$shared/data" part. && md5sum part.*
    cat part.* | tac | tac | diff -q - "$shared/data"
    diff part.aa part.ab | md5sum
    grep -cE '^[0-9]+5 .*(abcde|efghi)' "$shared/data"
    sed -E 's/([a-z]+)0+/<\1>/' "$shared/data" | md5sum
    awk '{ sum[$2] += $3 } END { for (k in sum) printf "%s %.3f\n", k, sum[k] }' "$shared/data" | sort | md5sum
    (cd "$shared" && ls -lR --time-style=+%F tree | sed 's/^total.*//' | md5sum && find tree -type f -printf '%p %s\n' | sort | md5sum)
    factor 18446744073709551557 340282366920938463463374607431768211297
    seq 100000 | shuf --random-source="$shared/data" | md5sum
    ls /no/such/file || echo "exit $?"
}
