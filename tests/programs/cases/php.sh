packages='php-fpm php-cli libfcgi-bin'
needs='php cgi-fcgi /usr/sbin/php-fpm*'
maps='php'
limit=180

prepare() {
    cat >work.php <<'PHP'
<?php
mt_srand(7);
$kept = [];
for ($i = 0; $i < 60000; $i++) {
    $kept[] = str_repeat(chr(65 + $i % 26), mt_rand(0, 400)) . $i;
    if (count($kept) > 3000) array_splice($kept, mt_rand(0, 2999), 1);
}
sort($kept);
echo md5(implode(",", $kept)), "\n";
echo strlen(gzcompress(serialize($kept))), "\n";
echo md5(json_encode(array_map('strlen', $kept))), "\n";
echo md5(preg_replace('/([A-Z])\1+/', '$1', implode($kept))), "\n";
$document = new SplObjectStorage();
for ($i = 0; $i < 20000; $i++) $document->attach((object)['number' => $i]);
echo count($document), "\n";
PHP
    chmod -R a+rX .
}

# Without extensions (-n): PHP before 8.5 loads them with RTLD_DEEPBIND, so they see the C library's malloc and the
# program another one (docs/languages.md).
measure() {
    php -n "$shared/work.php"
    # With the engine's own allocator off, every block is malloc's.
    USE_ZEND_ALLOC=0 php -n "$shared/work.php"

    local directory server fpm user=''
    fpm=$(echo /usr/sbin/php-fpm*)
    # Sockets need a short path.
    directory=$(mktemp -d "${TMPDIR:-/tmp}/php.XXXXXX")
    chmod 755 "$directory"
    [ "$(id -u)" != 0 ] || user=$'user = www-data\ngroup = www-data\nlisten.owner = www-data\nlisten.mode = 0666'
    cat >fpm.conf <<CONF
[global]
error_log = $PWD/error.log
daemonize = no
[pool]
listen = $directory/s
$user
pm = static
pm.max_children = 3
pm.max_requests = $(amount 4 20)
CONF
    # shellcheck disable=SC2086 # one word
    $fpm -n -F -y "$PWD/fpm.conf" 2>/dev/null &
    server=$!
    # shellcheck disable=SC2064 # the values of now
    trap "kill -KILL $server 2>/dev/null || true; rm -rf $directory" EXIT
    trap 'exit 143' TERM INT
    for _ in $(seq 100); do [ -S "$directory/s" ] && break; sleep 0.1; done
    for _ in $(seq "$(amount 16 70)"); do
        REQUEST_METHOD=GET SCRIPT_FILENAME=$shared/work.php cgi-fcgi -bind -connect "$directory/s" | tail -n 5
    done | sort | uniq -c
    kill -QUIT $server
    wait $server
    echo "the server ended with $?"
}
