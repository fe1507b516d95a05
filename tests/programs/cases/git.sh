packages=git
needs=git
maps=git

prepare() {
    # 400 commits over 60 files, the same each time.
    awk 'BEGIN {
        srand(7)
        for (c = 1; c <= 400; c++) {
            printf "commit refs/heads/main\nmark :%d\ncommitter A U Thor <a@example.org> %d +0000\n", c, 1600000000 + c * 60
            message = "change " c
            printf "data %d\n%s\n", length(message), message
            if (c > 1) printf "from :%d\n", c - 1
            for (f = 0; f < 3; f++) {
                text = ""
                for (l = 0; l < 80; l++) text = text "line " l " of revision " (c - int(rand() * 4)) "\n"
                printf "M 100644 inline dir%d/file%d.txt\ndata %d\n%s\n", (c + f) % 7, (c * 3 + f) % 60, length(text), text
            }
        }
    }' >stream
}

measure() {
    export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
    git init -q -b main one
    git -C one fast-import --quiet <"$shared/stream"
    git -C one reset -q --hard main
    git -C one log -p --stat | md5sum
    git -C one gc --quiet --aggressive
    git -C one fsck --full
    git clone -q --no-local one two
    git -C two log --format='%H %an %s' --name-status | md5sum
    git -C two blame "$(git -C two ls-files | head -n 1)" | md5sum
    git -C two grep -c 'revision 39' | md5sum
    git -C two diff HEAD~200 --stat | tail -n 1
    git -C two archive HEAD | md5sum
    git -C two rev-list --all --objects | md5sum
    git -C two checkout -q no-such-branch || echo "exit $?"
}
