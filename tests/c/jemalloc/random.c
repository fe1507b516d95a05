// Any sequence of the *allocx functions keeps sizes, alignments, contents, zeroes and distance.
#include "door.h"

enum { SLOTS = 96 };

struct slot {
    unsigned char *block;
    size_t size, align, seed;
    // From here to the usable end all bytes are zero; SIZE_MAX: not known.
    size_t zero_from;
};

static struct slot slots[SLOTS];
// Requests that could not be met.
static long refused;
static uint64_t state = 1;

static size_t below(size_t n) { return random_next(&state) % n; }

static size_t any_size(void) {
    switch (below(8)) {
    case 0: return 1 + below(64);
    case 1: case 2: case 3: return 1 + below(9000);
    case 4: case 5: return 1 + below(200000);
    case 6: return 1 + below(1200000);
    default: return 1 + below(6000000);
    }
}

static void verify(const struct slot *s, size_t bytes) {
    CHECK((uintptr_t)s->block % s->align == 0, "%p at %zu", (void *)s->block, s->align);
    size_t same = first_difference(s->block, bytes, s->seed);
    CHECK(same == bytes, "byte %zu of %zu", same, bytes);
}

static void refill(struct slot *s, size_t size) {
    s->size = size;
    s->seed = random_next(&state);
    fill(s->block, size, s->seed);
}

static void take(struct slot *s) {
    size_t size = any_size();
    s->align = (size_t)1 << below(below(4) ? 9 : 22);
    int zero = below(2), flags = MALLOCX_ALIGN(s->align) | (zero ? MALLOCX_ZERO : 0);
    s->block = mallocx(size, flags);
    if (!s->block) {
        refused++;
        return;
    }
    size_t real = sallocx(s->block, 0);
    CHECK(real == nallocx(size, flags), "%zu, said %zu", real, nallocx(size, flags));
    if (zero) CHECK(first_nonzero(s->block, real) == real, "%zu not zero", size);
    refill(s, size);
}

static void resize(struct slot *s) {
    size_t size = any_size(), old = sallocx(s->block, 0), kept = s->size;
    int zero = below(2), flags = MALLOCX_ALIGN(s->align) | (zero ? MALLOCX_ZERO : 0);
    unsigned char *to = rallocx(s->block, size, flags);
    if (!to) {
        refused++;
        verify(s, kept);
        return;
    }
    s->block = to;
    size_t real = sallocx(to, 0);
    CHECK(real >= size, "%zu for %zu", real, size);
    verify(s, kept < size ? kept : size);
    if (zero && real > old)
        CHECK(first_nonzero(to + old, real - old) == real - old, "%zu to %zu", old, real);
    refill(s, size);
}

static void resize_in_place(struct slot *s) {
    size_t size = any_size(), extra = below(2) ? any_size() : 0, old = sallocx(s->block, 0);
    int zero = below(2);
    size_t got = xallocx(s->block, size, extra, zero ? MALLOCX_ZERO : 0);
    CHECK(got == sallocx(s->block, 0), "%zu", got);
    verify(s, s->size < got ? s->size : got);
    if (zero && got > old)
        CHECK(first_nonzero(s->block + old, got - old) == got - old, "%zu to %zu", old, got);
    refill(s, got < size ? got : size);
}

static void churn(long operations) {
    for (long i = 0; i < operations; i++) {
        struct slot *s = &slots[below(SLOTS)];
        if (!s->block) take(s);
        else switch (below(4)) {
        case 0: resize(s); break;
        case 1: resize_in_place(s); break;
        default:
            verify(s, s->size);
            if (below(2)) sdallocx(s->block, s->size, MALLOCX_ALIGN(s->align));
            else dallocx(s->block, 0);
            s->block = NULL;
        }
    }
    for (int i = 0; i < SLOTS; i++) {
        if (!slots[i].block) continue;
        verify(&slots[i], slots[i].size);
        dallocx(slots[i].block, 0);
        slots[i].block = NULL;
    }
}

static long operations(void) {
    const char *wanted = getenv("OPERATIONS");
    return wanted ? atol(wanted) : 4000;
}

CASE(any_sequence_keeps_what_was_promised) {
    const char *seed = getenv("SEED");
    state = seed ? strtoull(seed, NULL, 10) : 1;
    churn(operations());
    printf("refused %ld\n", refused);
    fflush(stdout);
}

// Mappings of this process.
static long mappings(void) {
    FILE *file = fopen("/proc/self/maps", "r");
    long lines = 0;
    for (int c; (c = fgetc(file)) != EOF;) lines += c == '\n';
    fclose(file);
    return lines;
}

CASE(mappings_stay_few_however_blocks_grow_and_shrink) {
    enum { BLOCKS = 64 };
    static void *blocks[BLOCKS];
    long most = 0;
    for (long i = 0; i < operations(); i++) {
        size_t n = below(BLOCKS);
        size_t size = (size_t)1 << (20 + below(6));
        blocks[n] = blocks[n] ? rallocx(blocks[n], size + below(size), MALLOCX_ALIGN(64))
                              : mallocx(size, MALLOCX_ALIGN(64));
        CHECK(blocks[n], "%zu", size);
        memset(blocks[n], 1, 4096);
        if (below(4) == 0) {
            dallocx(blocks[n], 0);
            blocks[n] = NULL;
        }
        if (i % 64 == 0) {
            long now = mappings();
            if (now > most) most = now;
        }
    }
    CHECK(most < 1000, "%ld mappings", most);
    printf("most %ld mappings\n", most);
}
