/* What an allocator takes besides memory, and how small it can be. */
#include "pains.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static double mappings(void) {
    enum { BLOCKS = 3000 };
    static void *blocks[BLOCKS];
    uint32_t seed = 9;
    for (int round = 0; round < 20; round++)
        for (int i = 0; i < BLOCKS; i += 1 + next(&seed) % 4) {
            free(blocks[i]);
            blocks[i] = malloc(1000 + (next(&seed) % 64 ? next(&seed) % 60000 : next(&seed) % 2000000));
            if (!blocks[i]) failed("no memory");
            *(char *)blocks[i] = 1;
        }
    char text[4096];
    double lines = 0;
    int maps = open("/proc/self/maps", O_RDONLY);
    for (ssize_t had; (had = read(maps, text, sizeof text)) > 0;)
        for (ssize_t i = 0; i < had; i++) lines += text[i] == '\n';
    return lines;
}

static double reserved(void) {
    uint32_t seed = 3;
    for (int i = 0; i < 30000; i++) block(some_size(&seed));
    return kib_of("/proc/self/status", "\nVmSize:") / 1024.0;
}

/* Half a gibibyte of address space, used up: by how many percent of it can the program not be served? */
static double limited(void) {
    struct rlimit limit = {512 << 20, 512 << 20};
    size_t had = 0;
    setrlimit(RLIMIT_AS, &limit);
    for (void *more; had < limit.rlim_cur && (more = malloc(100000)); had += 100000)
        memset(more, 1, 100000);
    return 100 - 100.0 * had / limit.rlim_cur;
}

static double small_program(void) {
    uint32_t seed = 2;
    for (int i = 0; i < 200; i++) block(16 + next(&seed) % 300);
    return anonymous_mib() * 1024;
}

const struct pain address_space[] = {
    {"issue_mimalloc_1309_mappings", "a process runs into the limit of 65,530 mappings", "mappings", 400,
     mappings},
    {"issue_mimalloc_1021_reserved", "address space and core files are a multiple of what is used", "MiB", 1024,
     reserved},
    {"issue_jemalloc_2289_limited", "crashes, or serves little, under ulimit -v", "% unusable", 25, limited},
    {"issue_mimalloc_593_small_program", "a program that needs 2 MB takes 22 MB", "KiB", 600, small_program},
    {0},
};
