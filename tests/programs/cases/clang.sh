packages='clang libc6-dev'
needs='clang'
maps='clang'
long=yes

prepare() {
    local i
    {
        echo '#include <stdio.h>'
        for i in $(seq 300); do
            printf 'struct s%d { int a; const char *b; };\n' "$i"
            printf 'int f%d(struct s%d *p, int k) { int r = k; for (int j = 0; j < k; j++) r ^= p->a * j + %d;' "$i" "$i" "$i"
            printf ' switch (k & 7) { case 1: return r * 3; case 2: return r / 5; default: return r; } }\n'
        done
        echo 'int main(void) { struct s7 s = { 3, "seven" }; puts(s.b); return f7(&s, 41) & 15; }'
    } >many.c
    printf 'int main(void) { int *p = 3.5; return undeclared; }\n' >wrong.c
}

measure() {
    # The compiler in separate processes, as in builds.
    clang -fno-integrated-cc1 -O2 -S -o many.s "$shared/many.c"
    md5sum many.s
    clang -fno-integrated-cc1 -O1 -o many "$shared/many.c"
    ./many || echo "it says $?"
    clang -fno-integrated-cc1 -fsyntax-only -Xclang -ast-dump=json "$shared/many.c" | wc -l
    clang "$shared/wrong.c" 2>&1 || echo "refused: $?"
}
