// dlopen and dlclose: libraries that allocate when they come and when they go, and blocks
// that outlive them. MASU_TEST_PLUGINS is a directory with plugin-0.so, plugin-1.so, ...
#include "check.h"
#include "doors.h"

#include <dlfcn.h>
#include <pthread.h>

enum { copies = 64 };

static void *open_plugin(int number) {
    char path[4096];
    const char *directory = getenv("MASU_TEST_PLUGINS");
    CHECK(directory != NULL, "MASU_TEST_PLUGINS is not set");
    snprintf(path, sizeof path, "%s/plugin-%d.so", directory, number);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(handle != NULL, "%s", dlerror());
    return handle;
}

static void *call(void *handle, size_t size) {
    void *(*make)(size_t);
    *(void **)&make = dlsym(handle, "plugin_make");
    CHECK(make != NULL, "%s", dlerror());
    return make(size);
}

CASE(sixty_four_plugins_at_once) {
    static void *handles[copies], *blocks[copies];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < copies; i++) {
            handles[i] = open_plugin(i);
            blocks[i] = call(handles[i], 100 * i + 1);
        }
        for (int i = 0; i < copies; i++) {
            CHECK(first_difference(blocks[i], 100 * i + 1, 100 * i + 1) == 100u * i + 1, "plugin %d", i);
            dlclose(handles[i]);
            free(blocks[i]); // after its library was closed
        }
    }
}

CASE(one_plugin_comes_and_goes_a_thousand_times) {
    long before = 0;
    for (int i = 0; i < 1000; i++) {
        void *handle = open_plugin(0);
        char *block = call(handle, 5000);
        dlclose(handle);
        CHECK(first_difference(block, 5000, 5000) == 5000, "round %d", i);
        free(block);
        if (i == 200) before = resident_kib();
    }
    CHECK(resident_kib() < before + 1024, "%ld -> %ld KiB", before, resident_kib());
}

// A block that a plugin made and filled, checked and freed.
static void check_and_free(void *block, size_t size) {
    CHECK(first_difference(block, size, size) == size, "the plugin's %zu bytes changed", size);
    free(block);
}

static void *open_and_close(void *number) {
    for (int i = 0; i < 100; i++) {
        void *handle = open_plugin((uintptr_t)number);
        void *block = call(handle, 300);
        dlclose(handle);
        check_and_free(block, 300);
    }
    return NULL;
}

CASE(plugins_come_and_go_in_many_threads) {
    pthread_t threads[8];
    for (uintptr_t i = 0; i < 8; i++)
        CHECK(pthread_create(&threads[i], NULL, open_and_close, (void *)i) == 0, "thread");
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
}

static void *use_plugin(void *handle) {
    check_and_free(call(handle, 700), 700);
    return NULL;
}

// Threads that used a plugin's thread-local memory end after the plugin was closed.
CASE(threads_that_used_a_plugin_end_after_it) {
    for (int i = 0; i < 50; i++) {
        void *handle = open_plugin(1);
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, use_plugin, handle) == 0, "thread");
        if (i % 2) pthread_join(thread, NULL);
        void *block = call(handle, 10);
        if (i % 2 == 0) pthread_join(thread, NULL);
        dlclose(handle);
        check_and_free(block, 10);
    }
}

CASE(failing_to_open_allocates_and_frees) {
    for (int i = 0; i < 300; i++) {
        CHECK(dlopen("/no/such/library.so", RTLD_NOW) == NULL, "opened");
        CHECK(dlerror() != NULL, "no message");
        CHECK(dlsym(RTLD_DEFAULT, "no_such_symbol_anywhere") == NULL, "found");
    }
}
