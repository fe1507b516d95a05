#!/bin/sh
# The first process of tests/machines/apparmor: under each profile of /policy it runs the programs of /tests and the command.
export PATH=/bin HOME=/tmp
busybox mount -t proc proc /proc
busybox mount -t sysfs sysfs /sys
busybox mount -t devtmpfs devtmpfs /dev
busybox mount -t tmpfs tmpfs /tmp
busybox mount -t securityfs securityfs /sys/kernel/security
busybox mkfifo /tmp/wait
exec 9<>/tmp/wait
# The firmware's last line has no end.
echo

# confined PROFILE COMMAND… becomes the command.
busybox cat >/bin/confined <<'END'
#!/bin/sh
printf 'exec %s' "$1" >/proc/self/attr/apparmor/exec
shift
exec "$@"
END
busybox chmod +x /bin/confined

# says PATTERN STATUS COMMAND…: it ends with this status, after a line with the pattern.
says() {
    pattern=$1 expected=$2 status=0
    shift 2
    "$@" >/tmp/said 2>&1 || status=$?
    [ $status = "$expected" ] && busybox grep -q -- "$pattern" /tmp/said && return
    echo "FAILED $profile: $*: ended with $status, not with $expected, or said nothing of '$pattern'"
    busybox head -n 12 /tmp/said
}

# waits COMMAND… and works COMMAND…: a program on masu that waits, and one that allocates for a minute, as $pid.
waits() {
    "$@" masu run -- /tests/program waits </tmp/wait >/tmp/ready &
    pid=$!
    until busybox grep -q ready /tmp/ready; do busybox usleep 100000; done
}
works() {
    "$@" masu run -- /tests/program works &
    pid=$!
    busybox sleep 2
}

# looks COMMAND…: at the one that waits.
looks() {
    says 'allocated' 0 "$@" masu stats -p $pid
    says 'blocks that the program holds' 0 "$@" masu explain $pid
    says 'masu serves process' 0 "$@" masu doctor -p $pid
}

for profile in $(busybox ls /policy); do
    busybox dd if="/policy/$profile" of=/sys/kernel/security/apparmor/.load bs=16M 2>/dev/null
    says "^$profile (enforce)" 0 confined "$profile" busybox cat /proc/self/attr/apparmor/current
    says 'Permission denied' 1 confined "$profile" sh -c 'echo 1 >/proc/sysrq-trigger'
    says '^ok ' 0 confined "$profile" masu run -- /tests/core
    says '^on masu' 0 confined "$profile" masu run -- /tests/maps
    says 'masu: statistics' 0 confined "$profile" masu run --stats -- /tests/program
    says 'churn' 0 confined "$profile" masu prof --allocated --rate 16KiB -- /tests/program
    waits confined "$profile"
    looks confined "$profile"
    looks
    kill $pid
    works confined "$profile"
    says 'churn' 0 confined "$profile" masu prof -p $pid --for 2s --allocated --rate 16KiB
    says 'churn' 0 masu prof -p $pid --for 2s --allocated --rate 16KiB
    kill $pid
    # What runs beside the container is closed to it.
    waits
    for look in 'stats -p' explain 'doctor -p' 'prof --for 1s -p'; do
        # shellcheck disable=SC2086 # words
        says "AppArmor's profile $profile may forbid it" 2 confined "$profile" masu $look $pid
    done
    kill $pid
    echo "== $profile"
done
echo '== done'
busybox poweroff -f
