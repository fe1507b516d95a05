# Sixty files, jobs in parallel, a pattern rule, sub-makes, and an error.
packages='make gcc libc6-dev'
needs='make gcc'
maps='make gcc cc1 as ld'

prepare() {
    mkdir tree
    local i
    for i in $(seq 60); do
        printf 'int f%d(int x) { return x + %d; }\n' "$i" "$i" >"tree/f$i.c"
    done
    {
        echo '#include <stdio.h>'
        seq 60 | sed 's/.*/int f&(int);/'
        echo 'int main(void) { int x = 0;'
        seq 60 | sed 's/.*/x = f&(x);/'
        printf '%s\n' 'printf("%d\n", x); return 0; }'
    } >tree/main.c
    cat >tree/Makefile <<'MAKE'
OBJECTS := $(patsubst %.c,%.o,$(sort $(wildcard *.c)))
program: $(OBJECTS)
	@gcc -o $@ $^ && ./$@
%.o: %.c
	@gcc -c -o $@ $<
numbers := $(shell seq 2000)
.PHONY: text deep fail
text: ; @echo $(words $(foreach n,$(numbers),$(subst 1,one,$(n)))) $(lastword $(sort $(numbers)))
deep: ; @test $(DEPTH) = 0 || $(MAKE) --no-print-directory deep DEPTH=$$(($(DEPTH) - 1)); echo depth $(DEPTH)
fail: ; @exit 3
MAKE
}

measure() {
    cp -r "$shared/tree" .
    cd tree
    make -j4 program
    make program
    make text
    make deep DEPTH=12
    make -n -B program | sort | md5sum
    make fail || echo "exit $?"
}
