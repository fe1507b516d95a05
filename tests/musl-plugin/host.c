// Loads the plug-in into a running process; threads from before and after that use it.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static size_t (*work)(unsigned);
static pthread_barrier_t loaded;

static void *before(void *seed) {
    pthread_barrier_wait(&loaded);
    return (void *)work((unsigned)(size_t)seed);
}

static void *after(void *seed) {
    return (void *)work((unsigned)(size_t)seed);
}

int main(int argc, char **argv) {
    pthread_t threads[8];
    size_t sum = 0;
    (void)argc;
    pthread_barrier_init(&loaded, 0, 5);
    for (size_t i = 0; i < 4; i++) pthread_create(&threads[i], 0, before, (void *)i);
    void *plugin = dlopen(argv[1], RTLD_NOW);
    if (!plugin) {
        printf("refused: %s\n", dlerror());
        return 2;
    }
    work = (size_t (*)(unsigned))dlsym(plugin, "work");
    pthread_barrier_wait(&loaded);
    for (size_t i = 4; i < 8; i++) pthread_create(&threads[i], 0, after, (void *)i);
    for (size_t i = 0; i < 8; i++) {
        void *n;
        pthread_join(threads[i], &n);
        sum += (size_t)n;
    }
    printf("%zu\n", sum + work(9));
    return 0;
}
