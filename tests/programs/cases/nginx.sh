packages='nginx-light curl'
needs='nginx curl'
maps='nginx curl'

prepare() {
    mkdir www
    for i in $(seq 40); do seq "$i" $((i * 500)) >"www/$i.txt"; done
    chmod -R a+rX .
}

measure() {
    local directory
    # Sockets need a short path.
    directory=$(mktemp -d "${TMPDIR:-/tmp}/nginx.XXXXXX")
    chmod 755 "$directory"
    cat >nginx.conf <<CONF
$([ "$(id -u)" = 0 ] && echo 'user www-data;')
worker_processes 2;
daemon off;
pid $directory/pid;
error_log $PWD/error.log warn;
events { worker_connections 256; }
http {
    access_log off;
    client_body_temp_path $directory/body; proxy_temp_path $directory/proxy; fastcgi_temp_path $directory/f;
    uwsgi_temp_path $directory/u; scgi_temp_path $directory/s;
    types { text/plain txt; }
    gzip on; gzip_types text/plain; gzip_min_length 100; gzip_comp_level 6;
    server { listen unix:$directory/back; root $shared/www; autoindex on; autoindex_exact_size on; }
    server { listen unix:$directory/front; location / { proxy_pass http://unix:$directory/back:; proxy_buffers 8 8k; } }
}
CONF
    nginx -c "$PWD/nginx.conf" -e "$PWD/error.log" &
    local server=$!
    # shellcheck disable=SC2064 # the values of now
    trap "kill -KILL $server 2>/dev/null || true; rm -rf $directory" EXIT
    trap 'exit 143' TERM INT
    for _ in $(seq 100); do [ -S "$directory/front" ] && break; sleep 0.1; done

    local i
    for i in $(seq 40); do
        echo "url = http://localhost/$i.txt"
        echo "output = got.$i"
    done >urls
    # With --parallel, curl always shows its progress.
    for i in 1 2 3 4 5; do
        curl -sS --parallel --parallel-max 8 --compressed --unix-socket "$directory/front" -K urls 2>curl.log
    done
    md5sum got.*
    curl -sS --unix-socket "$directory/front" -r 100-299 http://localhost/40.txt | md5sum
    curl -sS --unix-socket "$directory/front" -o /dev/null -w '%{http_code}\n' http://localhost/none
    # A reload starts new workers and ends the old ones.
    kill -HUP $server
    sleep 0.5
    curl -sS --unix-socket "$directory/front" http://localhost/7.txt | md5sum
    kill -QUIT $server
    wait $server
    echo "the server ended with $?"
    grep -vE '\[(notice|warn)\]' error.log | grep -v 'none" failed (2' || true
}
