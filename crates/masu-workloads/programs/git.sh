#!/usr/bin/env bash
# History with patches, renames sought, one file line by line, all objects.
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
cd "$1/repository" || exit
git log -p --stat --no-color main | md5sum
git log --format='%H %s' --name-status -M main | md5sum
git blame --porcelain main -- dir0/file0.txt | md5sum
git rev-list --all --objects | md5sum
git archive main | md5sum
