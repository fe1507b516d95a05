#!/bin/sh
# A repository of 1,500 commits over 60 files, the same each time.
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
awk 'BEGIN {
    srand(7)
    for (c = 1; c <= 1500; c++) {
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
git init -q -b main repository
git -C repository fast-import --quiet <stream
rm stream
