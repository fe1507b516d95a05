// Threads that load and unload libraries, throw, fork, exit and take signals, while nearly all allocations are sampled.
// It ends, or it hangs or crashes.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

static std::atomic<bool> stop{false};
static std::atomic<unsigned> signals{0};

static void handler(int) { signals.fetch_add(1); }

__attribute__((noinline)) static int thrown(int depth) {
    std::string text(100 + depth, 'x');
    if (depth == 0) throw std::runtime_error(text);
    return thrown(depth - 1) + (int)text.size();
}

static void throwing() {
    while (!stop) {
        try {
            thrown(20);
        } catch (const std::exception &e) {
            if (strlen(e.what()) != 100) abort();
        }
    }
}

static void loading() {
    const char *names[] = {"libm.so.6", "libcrypto.so.3", "libz.so.1", "libbz2.so.1.0", "liblzma.so.5", "libexpat.so.1"};
    for (unsigned i = 0; !stop; i++) {
        void *library = dlopen(names[i % 6], RTLD_NOW | RTLD_LOCAL);
        if (library) {
            free(malloc(700 + i % 100));
            dlclose(library);
        }
    }
}

static void forking() {
    while (!stop) {
        pid_t child = fork();
        if (child == 0) {
            std::vector<std::string> some;
            for (int i = 0; i < 50; i++) some.push_back(std::string(i * 40, 'c'));
            _exit(some.size() == 50 ? 0 : 1);
        }
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) abort();
    }
}

static void ending() {
    while (!stop) {
        std::thread([] {
            thread_local std::map<int, std::string> kept;
            for (int i = 0; i < 30; i++) kept[i] = std::string(i * 30, 't');
        }).join();
    }
}

static void working() {
    std::map<unsigned, std::vector<char>> blocks;
    for (unsigned i = 1; !stop; i++) {
        unsigned at = i * 2654435761u % 500;
        blocks[at].resize(i * 40503u % 20000);
        if (i % 3 == 0) blocks.erase(at / 2);
    }
}

int main(int argc, char **argv) {
    int milliseconds = argc > 1 ? atoi(argv[1]) : 1000;
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, nullptr);
    std::thread threads[] = {std::thread(throwing), std::thread(throwing), std::thread(loading), std::thread(forking),
                             std::thread(ending), std::thread(working), std::thread(working)};
    for (int i = 0; i < milliseconds; i++) {
        usleep(1000);
        for (auto &t : threads) pthread_kill(t.native_handle(), SIGUSR1);
    }
    stop = true;
    for (auto &t : threads) t.join();
    puts(signals > 0 ? "ended" : "no signals");
    return signals == 0;
}
