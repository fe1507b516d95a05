#!/usr/bin/env bash
# Words, arrays and here-strings: thousands of short strings.
declare -A count
for ((i = 0; i < 75000; i++)); do
    key="key$((i * 7919 % 1009))"
    count[$key]=$((${count[$key]:-0} + i))
done
for key in "${!count[@]}"; do echo "$key ${count[$key]}"; done | sort
text=$(for ((i = 0; i < 3000; i++)); do echo "line $i of a text"; done)
text=${text//line/row}
while read -r word number rest; do
    [[ $number == *99 ]] && echo "$word $number ${rest^^}"
done <<<"$text"
