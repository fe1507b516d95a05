packages=bash
needs=bash
maps=bash

measure() {
    bash -c '
        declare -A count
        for ((i = 0; i < 200000; i++)); do
            key="key$((i * 7919 % 1009))"
            count[$key]=$(( ${count[$key]:-0} + i ))
        done
        for key in "${!count[@]}"; do echo "$key ${count[$key]}"; done
        text=$(for ((i = 0; i < 3000; i++)); do echo "line $i of a here document"; done)
        text=${text//line/zeile}
        while read -r word number rest; do [[ $number == *99 ]] && echo "$word $number ${rest^^}"; done <<<"$text"
        fib() { if (($1 < 2)); then echo "$1"; else echo $(($(fib $(($1 - 1))) + $(fib $(($1 - 2))))); fi; }
        fib 11
        for ((i = 0; i < 50; i++)); do (list=({1..500}); echo "${#list[@]} ${list[@]: -1}") & done
        wait
        printf -v padded "%01000000d" 7
        echo "${#padded}"
        exit 3' || echo "exit $?"
}
