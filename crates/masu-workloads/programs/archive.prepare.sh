#!/bin/sh
# Four hundred files of numbers.
for i in $(seq 400); do
    mkdir -p "tree/$((i % 17))"
    seq "$i" $((i * 40)) >"tree/$((i % 17))/$i"
done
