#!/bin/sh
# Thirty thousand objects with something nested in each.
awk 'BEGIN {
    srand(3)
    print "["
    for (i = 0; i < 30000; i++)
        printf "%s{\"id\":%d,\"name\":\"user%d\",\"tags\":[\"a%d\",\"b%d\"],\"score\":%.3f,\"nested\":{\"deep\":[%d,{\"x\":\"%d\"}]}}\n",
            (i ? "," : ""), i, i * 7919 % 60013, i % 7, i % 11, rand() * 100, i % 13, i
    print "]"
}' >data.json
