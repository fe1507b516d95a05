// Mistakes in a read, a write or a call of code: by a pointer that is no longer valid, beyond a block, or before it.
#include "mistakes.h"

static void flip(void *p, size_t unused) { *(volatile char *)p ^= 1; }
static void fill(void *p, size_t n) { memset(p, 'z', n); }
static void clear(void *p, size_t n) { memset(p, 0, n); }
static void peek(void *p, size_t unused) { hide((void *)(uintptr_t) * (volatile char *)p); }
static void jump(void *p, size_t unused) { (*(void (*volatile *)(void))p)(); }

static void write_after_free(void) {
    char *p = block_of(size);
    release(p);
    use(flip, p, 0);
}
static void write_after_free_all(void) {
    char *p = block_of(size);
    release(p);
    use(fill, p, size);
    go_on();
}
static void write_after_free_zero(void) {
    char *p = block_of(size);
    release(p);
    use(clear, p, size < 64 ? size : 64);
    go_on();
}
static void read_after_free(void) {
    char *p = block_of(size);
    release(p);
    use(peek, p, 0);
}
static void harm(void) { }
static void call_after_free(void) {
    void (**p)(void) = (void *)block_of(size);
    p[0] = harm;
    release(p);
    use(jump, p, 0);
}

static void overflow_by(size_t n) {
    char *p = block_of(size);
    use(fill, p + malloc_usable_size(p), n);
    release(p);
    go_on();
}
static void overflow_1(void) { overflow_by(1); }
static void overflow_8(void) { overflow_by(8); }
static void overflow_32(void) { overflow_by(32); }
static void overflow_1_mib(void) { overflow_by(1 << 20); }
static void overflow_in_slack(void) {
    char *p = block_of(size);
    use(flip, p + size, 0);
    release(p);
}
static void overflow_into_free(void) {
    // Free neighbours, as far as there are any.
    for (int i = 0; i < AROUND; i++) release(around[i]), around[i] = NULL;
    char *p = block_of(size);
    use(fill, p + malloc_usable_size(p), 16);
    go_on();
}
static void underflow(void) {
    char *p = block_of(size);
    use(flip, p - 1, 0);
    release(p);
    go_on();
}
static void underflow_by(size_t n) {
    char *p = block_of(size);
    use(fill, p - n, n);
    release(p);
    go_on();
}
static void underflow_8(void) { underflow_by(8); }
static void underflow_32(void) { underflow_by(32); }
static void underflow_1_mib(void) { underflow_by(1 << 20); }

static void read_empty(void) { use(peek, malloc(0), 0); }
static void write_empty(void) {
    char *p = hide(malloc(0));
    use(flip, p, 0);
    release(p);
}

static void same_again(void) {
    char *p = block_of(size);
    free(p);
    if (malloc(size) != p) _exit(4);
}
// Ends with 4 if nothing is left of what the heap's blocks had in them.
static void look(void *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (((volatile char *)p)[i] == 'x') return;
    _exit(4);
}
static void not_zeroed(void) {
    release(block_of(size));
    use(look, malloc(size), size);
}
static void run_heap(void) {
    char *p = block_of(size);
    p[0] = (char)0xc3;
    ((void (*)(void))hide(p))();
}
static void too_large(void) {
    if (!hide(malloc((size_t)-2))) _exit(4);
}

const struct mistake accesses[] = {
    CASE(write_after_free, HARD_LARGE | FREED | USED),
    CASE(write_after_free_all, SOME | HARD_LARGE | FREED | USED),
    CASE(write_after_free_zero, SOME | HARD_LARGE | FREED | USED),
    CASE(read_after_free, HARD_LARGE | FREED | USED),
    CASE(call_after_free, SOME | HARD | FREED | USED),
    CASE(overflow_in_slack, HARD | FREED | USED),
    CASE(overflow_1, HARD | FREED | USED),
    CASE(overflow_8, HARD | FREED | USED),
    CASE(overflow_32, HARD | FREED | USED),
    CASE(overflow_1_mib, HARD | FREED | USED),
    CASE(overflow_into_free, FREED | USED),
    CASE(underflow, HARD | FREED | USED),
    CASE(underflow_8, HARD | FREED | USED),
    CASE(underflow_32, HARD | FREED | USED),
    CASE(underflow_1_mib, HARD | FREED | USED),
    CASE(read_empty, HARD | USED),
    CASE(write_empty, HARD | FREED | USED),
    CASE(same_again, HARD),
    CASE(not_zeroed, HARD | FREED | USED),
    CASE(run_heap, HARD),
    CASE(too_large, HARD),
    {0},
};
