// A large heap whose huge pages are split: blocks that were allocated together are freed, their memory goes back, and
// others take their place. Then its chunks are in full use, and the allocator may have the kernel make their pages whole.
#include "check.h"

enum { BYTES = 192 << 20, COUNT = BYTES / 2048, GROUP = 3000 };

static struct {
    char *block;
    size_t size;
} all[COUNT];

static void take(int i, uint64_t *random) {
    all[i].size = 16 + random_next(random) % 4000;
    all[i].block = malloc(all[i].size);
    CHECK(all[i].block != NULL, "block %d", i);
    fill(all[i].block, all[i].size, i);
}

static void give(int i) {
    size_t same = first_difference(all[i].block, all[i].size, i);
    CHECK(same == all[i].size, "block %d of %zu bytes differs at %zu", i, all[i].size, same);
    free(all[i].block);
    all[i].block = NULL;
}

CASE(blocks_keep_what_is_in_them) {
    uint64_t random = 1;
    for (int i = 0; i < COUNT; i++) take(i, &random);
    // Two groups in five, and one block in twenty of the others.
    for (int i = 0; i < COUNT; i++)
        if (i / GROUP % 5 < 2 || i % 20 == 0) give(i);
    sleep_ms(2000);
    for (int i = 0; i < COUNT; i++)
        if (all[i].block == NULL) take(i, &random);
    // The background thread looks at all chunks twice before it asks for anything.
    sleep_ms(4000);
    for (int i = 0; i < COUNT; i++) give(i);
}
