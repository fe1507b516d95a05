packages=jq
needs=jq
maps=jq

prepare() {
    awk -v "users=$(amount 8000 20000)" 'BEGIN {
        srand(3)
        print "["
        for (i = 0; i < users; i++)
            printf "%s{\"id\":%d,\"name\":\"user%d\",\"tags\":[\"a%d\",\"b%d\"],\"score\":%.3f,\"nested\":{\"deep\":[%d,{\"x\":\"%d\"}]}}\n",
                (i ? "," : ""), i, i * 7919 % 60013, i % 7, i % 11, rand() * 100, i % 13, i
        print "]"
    }' >data.json
}

measure() {
    jq -c 'group_by(.tags[0]) | map({tag: .[0].tags[0], n: length, mean: (map(.score) | add / length)})' "$shared/data.json"
    jq -r 'map(select(.nested.deep[0] == 3)) | sort_by(.name) | .[] | [.id, .name, .score] | @csv' "$shared/data.json" | md5sum
    jq 'walk(if type == "object" then with_entries(.key |= ascii_upcase) else . end)' "$shared/data.json" | md5sum
    jq --stream -c 'select(length == 2) | .[1]' "$shared/data.json" | md5sum
    jq '.[].name | test("r9.*1$")' "$shared/data.json" | sort | uniq -c
    echo '{"broken":' | jq . || echo "exit $?"
}
