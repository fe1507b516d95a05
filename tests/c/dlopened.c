// The library under test, opened by dlopen as any plug-in: its own functions work beside the malloc
// that the program goes on using. MASU_TEST_LIBRARIES has paths, separated by colons; to the loader
// each is a separate library.
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>

struct library {
    void *handle;
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void (*free)(void *);
    size_t (*malloc_usable_size)(void *);
    int (*malloc_trim)(size_t);
};

static void *symbol(void *handle, const char *name) {
    void *found = dlsym(handle, name);
    CHECK(found != NULL, "%s", dlerror());
    return found;
}

static struct library open_library(const char *path, int mode) {
    struct library it = {.handle = dlopen(path, mode)};
    CHECK(it.handle != NULL, "%s", dlerror());
    *(void **)&it.malloc = symbol(it.handle, "malloc");
    *(void **)&it.calloc = symbol(it.handle, "calloc");
    *(void **)&it.realloc = symbol(it.handle, "realloc");
    *(void **)&it.free = symbol(it.handle, "free");
    *(void **)&it.malloc_usable_size = symbol(it.handle, "malloc_usable_size");
    *(void **)&it.malloc_trim = symbol(it.handle, "malloc_trim");
    CHECK((void *)it.malloc != (void *)malloc, "the library's malloc is the program's own");
    return it;
}

static void *use(void *argument) {
    struct library *it = argument;
    static const size_t sizes[] = {1, 16, 100, 1000, 8192, 30000, 300000, 3 << 20};
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 8; i++) {
            char *block = it->malloc(sizes[i]), *zeroes = it->calloc(1, sizes[i]);
            CHECK(block != NULL && zeroes != NULL, "%zu bytes", sizes[i]);
            CHECK(it->malloc_usable_size(block) >= sizes[i], "usable size of %zu", sizes[i]);
            fill(block, sizes[i], i);
            CHECK(first_nonzero(zeroes, sizes[i]) == sizes[i], "calloc(%zu)", sizes[i]);
            block = it->realloc(block, sizes[i] * 2);
            CHECK(first_difference(block, sizes[i], i) == sizes[i], "realloc of %zu", sizes[i]);
            free(malloc(sizes[i])); // the program's own, in between
            it->free(block);
            it->free(zeroes);
        }
    return NULL;
}

static void use_in_threads(struct library *it) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, use, it) == 0, "thread");
    use(it);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}

static int each_path(char paths[][512]) {
    const char *list = getenv("MASU_TEST_LIBRARIES");
    CHECK(list != NULL, "MASU_TEST_LIBRARIES is not set");
    int count = 0;
    while (*list != 0) {
        size_t length = strcspn(list, ":");
        CHECK(length < 512 && count < 64, "path %d is too much", count);
        memcpy(paths[count], list, length);
        paths[count++][length] = 0;
        list += length + (list[length] == ':');
    }
    return count;
}

CASE(all_open_at_once) {
    static char paths[64][512];
    static struct library libraries[64];
    int count = each_path(paths);
    for (int i = 0; i < count; i++) {
        libraries[i] = open_library(paths[i], RTLD_NOW | RTLD_LOCAL);
        use_in_threads(&libraries[i]);
    }
    for (int i = 0; i < count; i++) {
        use_in_threads(&libraries[i]);
        libraries[i].malloc_trim(0);
        dlclose(libraries[i].handle);
    }
    dprintf(1, "%d libraries\n", count);
}

static void *use_and_close(void *argument) {
    struct library *it = argument;
    use(it);
    dlclose(it->handle);
    return NULL; // the thread ends after the library was closed
}

CASE(each_opened_and_closed_again_and_again) {
    static char paths[64][512];
    int count = each_path(paths);
    for (int round = 0; round < 100; round++) {
        struct library it = open_library(paths[round % count], round % 2 ? RTLD_NOW : RTLD_LAZY);
        use(&it);
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, use_and_close, &it) == 0, "thread");
        pthread_join(thread, NULL);
    }
}

// Opened globally, it still must not mix with blocks of the program's malloc.
CASE(opened_globally) {
    static char paths[64][512];
    each_path(paths);
    char *before = malloc(100);
    struct library it = open_library(paths[0], RTLD_NOW | RTLD_GLOBAL);
    use_in_threads(&it);
    free(before);
    free(strdup("a word"));
    it.free(it.malloc(10));
}
