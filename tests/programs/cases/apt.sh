# apt with separate directories and a repository on disk: nothing of the system is touched.
packages='apt dpkg'
needs='apt-get apt-cache dpkg dpkg-deb dpkg-query'
maps='apt-get apt-cache file dpkg dpkg-deb'

prepare() {
    mkdir -p repository build/DEBIAN build/usr/share/doc/made-up
    local i
    for i in $(seq 300); do
        printf 'Package: made-up%d\nVersion: 1.%d\nArchitecture: all\nMaintainer: A <a@example.org>\nInstalled-Size: 1\nDepends: made-up%d\nFilename: ./made-up%d.deb\nSize: 1\nSHA256: %064d\nDescription: package number %d\n %s\n\n' \
            "$i" "$i" $((i > 1 ? i / 2 : 300)) "$i" "$i" "$i" 'which exists only here'
    done >repository/Packages
    xz -k repository/Packages
    seq 20000 >build/usr/share/doc/made-up/numbers
    printf 'Package: made-up\nVersion: 1\nArchitecture: all\nMaintainer: A <a@example.org>\nDescription: made up\n' >build/DEBIAN/control
}

measure() {
    mkdir -p etc/apt/sources.list.d etc/apt/preferences.d state/lists/partial cache/archives/partial log
    touch status
    echo "deb [trusted=yes] file:$shared/repository ./" >etc/apt/sources.list
    local options="-o Dir::Etc=$PWD/etc/apt -o Dir::State=$PWD/state -o Dir::State::status=$PWD/status
        -o Dir::Cache=$PWD/cache -o Dir::Log=$PWD/log -o APT::Sandbox::User=root -o APT::Update::Post-Invoke::=
        -o Debug::NoLocking=1 -o APT::Install-Recommends=0"
    # shellcheck disable=SC2086 # a list of words on purpose
    {
        apt-get $options -q update | sed -E 's/in [0-9]+s.*//; s/Get:[0-9]+ //' | sort
        apt-cache $options stats | sed -E '/(space|[Ss]lack|globbed)/d'
        apt-cache $options search 'number 2.7'
        apt-get $options -q --simulate install made-up300 made-up299
        apt-cache $options --recurse depends made-up77 | md5sum
        apt-get $options -q --simulate install no-such-package || echo "exit $?"
    }
    dpkg-deb --root-owner-group -Zxz -b "$shared/build" made-up.deb
    dpkg-deb -c made-up.deb | awk '{ print $1, $2, $3, $6 }'
    dpkg-query -W -f '${Package}\n' | sort | md5sum
    mkdir -p root/var/lib/dpkg/info root/var/lib/dpkg/updates
    touch root/var/lib/dpkg/status
    local dpkg=(dpkg --root="$PWD/root" --log="$PWD/dpkg.log" --force-not-root)
    "${dpkg[@]}" -i made-up.deb
    "${dpkg[@]}" -l | tail -n 1
    "${dpkg[@]}" -L made-up
    cmp root/usr/share/doc/made-up/numbers "$shared/build/usr/share/doc/made-up/numbers"
    "${dpkg[@]}" -P made-up
    find root -type f -name numbers
}
