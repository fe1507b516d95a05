// The functions that report and tune: mallinfo, malloc_info, malloc_stats, mallopt, malloc_trim.
// And a check that nothing goes to the libc's own heap behind their back.
#include "check.h"
#include "doors.h"

#include <fcntl.h>
#include <sys/mman.h>

static size_t in_use(void) {
    struct door_mallinfo2 info = door_mallinfo2();
    return info.uordblks + info.hblkhd;
}

CASE(mallinfo2_counts_what_is_in_use) {
    if (door_mallinfo2 == NULL) not_offered("mallinfo2");
    static const size_t sizes[] = {100, 3000, 50000, 1 << 20, 8 << 20};
    for (int kind = 0; kind < 5; kind++) {
        static void *blocks[(20 << 20) / 100];
        size_t total = 20 << 20, count = total / sizes[kind];
        size_t before = in_use();
        for (size_t i = 0; i < count; i++) {
            blocks[i] = malloc(sizes[kind]);
            CHECK(blocks[i] != NULL, "malloc(%zu)", sizes[kind]);
        }
        size_t peak = in_use();
        CHECK(peak >= before + count * sizes[kind], "%zu: %zu -> %zu", sizes[kind], before, peak);
        CHECK(peak <= before + total * 3 / 2, "%zu: %zu -> %zu", sizes[kind], before, peak);
        for (size_t i = 0; i < count; i++) free(blocks[i]);
        size_t after = in_use();
        CHECK(after < before + (2 << 20), "%zu: %zu -> %zu", sizes[kind], before, after);
    }
}

CASE(mallinfo_agrees_with_mallinfo2) {
    if (door_mallinfo == NULL || door_mallinfo2 == NULL) not_offered("mallinfo");
    void *block = malloc(3 << 20);
    struct door_mallinfo small = door_mallinfo();
    struct door_mallinfo2 large = door_mallinfo2();
    CHECK((size_t)small.uordblks == large.uordblks, "%d, %zu", small.uordblks, large.uordblks);
    CHECK((size_t)small.hblkhd == large.hblkhd, "%d, %zu", small.hblkhd, large.hblkhd);
    CHECK((size_t)small.arena == large.arena, "%d, %zu", small.arena, large.arena);
    free(block);
}

CASE(malloc_info_writes_xml) {
    if (malloc_info == NULL) not_offered("malloc_info");
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    CHECK(malloc_info(0, stream) == 0, "malloc_info(0)");
    fclose(stream);
    CHECK(strncmp(text, "<malloc", 7) == 0, "starts with %.20s", text);
    CHECK(strstr(text, "</malloc>") != NULL, "does not close: %.200s", text);
    free(text);
    stream = fopen("/dev/null", "w");
    CHECK(malloc_info(1, stream) == EINVAL, "options other than 0 are EINVAL");
    fclose(stream);
}

CASE(malloc_stats_writes_to_stderr) {
    if (malloc_stats == NULL) not_offered("malloc_stats");
    // A pipe, which has room for the text, leaves no file behind.
    int ends[2], saved = dup(2);
    CHECK(pipe(ends) == 0, "pipe: %s", strerror(errno));
    dup2(ends[1], 2);
    malloc_stats();
    fflush(stderr);
    dup2(saved, 2);
    char text[65536];
    ssize_t length = read(ends[0], text, sizeof text);
    CHECK(length > 20, "%zd bytes", length);
    close(ends[0]);
    close(ends[1]);
    close(saved);
}

CASE(mallopt_answers_for_every_parameter) {
    if (mallopt == NULL) not_offered("mallopt");
    static const int parameters[] = {M_MXFAST,  M_TRIM_THRESHOLD, M_TOP_PAD,    M_MMAP_THRESHOLD,
                                     M_MMAP_MAX, M_CHECK_ACTION,  M_ARENA_TEST, M_ARENA_MAX};
    static const int values[] = {64, 128 << 10, 0, 128 << 10, 65536, 3, 8, 1};
    for (int i = 0; i < 8; i++) {
        int answer = mallopt(parameters[i], values[i]);
        CHECK(answer == 0 || answer == 1, "mallopt(%d) = %d", parameters[i], answer);
        free(malloc(1000));
    }
}

CASE(malloc_trim_gives_memory_back) {
    if (malloc_trim == NULL) not_offered("malloc_trim");
    enum { count = 20000, size = 4000 };
    static char *blocks[count];
    malloc_trim(0); // what earlier cases left
    long before = resident_kib();
    for (int i = 0; i < count; i++) {
        blocks[i] = malloc(size);
        fill(blocks[i], size, i);
    }
    long peak = resident_kib();
    CHECK(peak > before + 70000, "%ld -> %ld KiB", before, peak);
    // A few survive, so that nothing can be given back merely by shortening a heap.
    for (int i = 0; i < count; i++)
        if (i % 1000 != 999) free(blocks[i]);
    int answer = malloc_trim(0);
    long after = resident_kib();
    CHECK(after < before + (peak - before) / 10, "%ld -> %ld -> %ld KiB", before, peak, after);
    CHECK(answer == 1 || answer == 0, "malloc_trim = %d", answer);
    malloc_trim(1 << 20);
    malloc_trim(hidden(SIZE_MAX));
    for (int i = 999; i < count; i += 1000) {
        CHECK(first_difference(blocks[i], size, i) == size, "a survivor changed");
        free(blocks[i]);
    }
}

// Calls libc functions that allocate, and frees the result here.
static void visit_libc(void) {
    char *text = strdup("the quick brown fox");
    free(text);
    text = strndup("the quick brown fox", 5);
    free(text);
    CHECK(asprintf(&text, "%d %s", 42, "times") > 0, "asprintf");
    free(text);
    text = getcwd(NULL, 0);
    free(text);
    text = realpath("/proc/self", NULL);
    free(text);
    size_t length = 0;
    FILE *stream = fopen("/proc/self/status", "r");
    text = NULL;
    while (getline(&text, &length, stream) > 0) {
    }
    free(text);
    fclose(stream);
    stream = open_memstream(&text, &length);
    for (int i = 0; i < 5000; i++) fprintf(stream, "%d,", i);
    fclose(stream);
    CHECK(strlen(text) == length, "%zu", length);
    free(text);
    setenv("MASU_TEST_VARIABLE", "a value", 1);
    unsetenv("MASU_TEST_VARIABLE");
}

CASE(what_libc_allocates_is_freed_here) {
    for (int i = 0; i < 100; i++) visit_libc();
}

// For masu alone, since the libc's own malloc must fail this: after every function was used, the
// program break has not moved, so the libc's heap was never started.
CASE(the_heap_of_libc_stays_untouched) {
    char *start = sbrk(0);
    for (size_t size = 1; size < 4 << 20; size = size * 3 / 2 + 1) {
        free(malloc(size));
        free(calloc(3, size));
        free(realloc(malloc(8), size));
        free(memalign(128, size));
        free(valloc(size));
        if (pvalloc != NULL) free(pvalloc(size));
    }
    visit_libc();
    int saved = dup(2), quiet = open("/dev/null", O_WRONLY);
    dup2(quiet, 2);
    if (door_mallinfo != NULL) door_mallinfo();
    if (door_mallinfo2 != NULL) door_mallinfo2();
    if (malloc_stats != NULL) malloc_stats();
    if (mallopt != NULL) mallopt(M_MMAP_THRESHOLD, 1 << 20);
    if (malloc_trim != NULL) malloc_trim(0);
    dup2(saved, 2);
    close(saved);
    close(quiet);
    CHECK(sbrk(0) == start, "the break moved by %ld bytes", (long)((char *)sbrk(0) - start));
}
