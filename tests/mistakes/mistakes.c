// Programs with one mistake each, which show what an allocator stops.
//
//   mistakes --list              every case: name, size, thread, whether masu promises to stop or report it by default, and
//                                to stop it hardened
//   mistakes --all               every case in a child of its own, and how that ended: "on", "reported" (it went on after
//                                a line on stderr), an exit status that is not 0, or the signal
//   mistakes NAME SIZE THREAD    one case; THREAD is 0 if all of it happens on this thread, 1 if another one frees the
//                                block, and 2 if another one uses it wrongly
//
// A program that is not stopped says "went on" and exits with 0. Each mistake happens in a heap that is in
// use: blocks of the same size lie around it, some freed, and more of them follow.
#include "mistakes.h"
#include "patience.h"
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <sys/wait.h>

char *around[AROUND];
size_t size;
int elsewhere;

char *block_of(size_t n) {
    char *p = hide(malloc(n));
    if (!p) _exit(3);
    if (n) memset(p, 'x', n);
    return p;
}

void go_on(void) {
    char *taken[2 * AROUND];
    int rounds = size > 100000 ? 16 : 1024, many = rounds / 8;
    for (int i = 0; i < rounds; i++) {
        char *p = block_of(size), *q = block_of(size);
        free(p);
        free(q);
    }
    for (int i = 0; i < many; i++) taken[i] = block_of(size);
    for (int i = 0; i < many; i++) free(taken[i]);
}

// What another thread does, and whether it has.
static struct {
    void (*act)(void *, size_t);
    void *p;
    size_t n;
    sem_t asked, done;
} other;

static void *act_once(void *unused) {
    other.act(hide(other.p), other.n);
    return unused;
}

static void *act_when_asked(void *unused) {
    for (;;) {
        sem_wait(&other.asked);
        act_once(unused);
        sem_post(&other.done);
    }
}

static void start(void *(*run)(void *), pthread_t *thread) {
    if (pthread_create(thread, NULL, run, NULL) != 0) _exit(3);
}

static void free_it(void *p, size_t unused) { free(p); }

void release_by(void (*act)(void *, size_t), void *p, size_t n) {
    pthread_t thread;
    other.act = act, other.p = p, other.n = n;
    if (elsewhere != FREES) {
        act_once(NULL);
        return;
    }
    start(act_once, &thread);
    pthread_join(thread, NULL);
}

void release(void *p) { release_by(free_it, p, 0); }

void use(void (*act)(void *, size_t), void *p, size_t n) {
    other.act = act, other.p = p, other.n = n;
    if (elsewhere != USES) {
        act_once(NULL);
        return;
    }
    sem_post(&other.asked);
    sem_wait(&other.done);
}

static void use_heap(void) {
    pthread_t thread;
    if (elsewhere == USES) start(act_when_asked, &thread);
    for (int i = 0; i < AROUND; i++) around[i] = block_of(size);
    for (int i = 1; i < AROUND; i += 4) {
        free(around[i]);
        around[i] = NULL;
    }
}

// No mistake: must go on.
static void none(void) {
    char *p = block_of(size), *q = block_of(size);
    release(p);
    q = hide(realloc(q, size * 2));
    release(q);
    sized_delete(hide(cxx_new(size)), size);
    go_on();
}

static const struct mistake no_mistake[] = {CASE(none, FREED), {0}};
static const struct mistake *const kinds[] = {no_mistake, calls, accesses};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static const size_t sizes[] = {8, 24, 100, 1000, 4096, 5000, 20000, 262144, 3 << 20};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static int is(const struct mistake *m, const char *name) { return strcmp(m->name, name) == 0; }

// Whether masu promises to stop a case of this size.
static int promised(const struct mistake *m, size_t n, int thread) {
    if (!(m->flags & SOME)) return m->flags & SEEN;
    // A large block may have been given out again in part.
    if (is(m, "double_free_delayed")) return n <= 20000;
    // A free block's first words are a link and a mark, a medium one's while it waits in the cache of the thread that freed
    // it and has not ended; zeroes in the link end a small block's list.
    const int waits = n <= 16384 || (n <= 20000 && thread != FREES);
    if (is(m, "write_after_free_all")) return waits;
    if (is(m, "write_after_free_zero")) return n >= 16 && waits;
    // The first word of a freed block is a link or zero, unless its pages go back or are kept as a range of their own.
    if (is(m, "call_after_free")) return n <= 1 << 20;
    // 16 bytes past the start of a block of 8 bytes is the next block.
    return n > 32 && !(is(m, "delete_too_small") && n < 4096);
}

// Whether the kernel makes guards that need no mapping, as Linux does from 6.13 on. qemu reports success for advice that
// it does not know.
static int has_guards(void) {
    enum { GUARD_INSTALL = 102 };
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int has = madvise(page, 4096, GUARD_INSTALL) == 0 && access(page, F_OK) != 0 && errno == EFAULT;
    munmap(page, 4096);
    return has;
}

// Whether a hardened heap would promise it if this kernel had guards: a slot of this size has one in front of it only where
// that needs no mapping.
static int unguarded(const struct mistake *m, size_t n) {
    const int in_front = is(m, "underflow") || is(m, "underflow_8") || is(m, "underflow_32");
    return in_front && n > 8192 && n <= 128 << 10 && !has_guards();
}

// Whether a hardened heap promises it.
static int promised_hardened(const struct mistake *m, size_t n) {
    // In the middle of 24 bytes there is no multiple of 16.
    if (is(m, "free_in_middle")) return n > 32;
    // 16 bytes past the start of a block of 8 is the next block, if there is one.
    if (is(m, "free_by_16") || is(m, "realloc_inside") || is(m, "size_inside")) return n > 16;
    if (m->flags & HARD_LARGE) return n > 128 << 10;
    return (m->flags & (SEEN | SOME | HARD)) != 0;
}

static const char *promise(const struct mistake *m, size_t n, int thread) {
    return promised(m, n, thread) ? "promised" : "not";
}

static void list_one(const struct mistake *m, size_t n, int thread) {
    const int is_none = m == no_mistake;
    printf("%s %zu %d %s %s\n", m->name, n, thread, is_none ? "none" : promise(m, n, thread),
           is_none ? "none" : unguarded(m, n) ? "unguarded" : promised_hardened(m, n) ? "promised" : "not");
}

// Passes on what was said since the last call, and returns whether that was anything.
static int passed_on(int said) {
    char text[4096];
    int any = 0;
    lseek(said, 0, SEEK_SET);
    for (ssize_t n; (n = read(said, text, sizeof text)) > 0; any = 1)
        if (write(2, text, n) != n) exit(3);
    lseek(said, 0, SEEK_SET);
    if (ftruncate(said, 0) != 0) exit(3);
    return any;
}

// Prints how a case ended: by a signal or with a status, or whether it went on, having reported something or not.
static void run_one(const struct mistake *m, size_t n, int thread) {
    static int said = -1;
    int status;
    if (said < 0) {
        said = memfd_create("said", MFD_CLOEXEC);
        // A log, not a file of data that took standard error's place.
        if (said < 0 || fcntl(said, F_SETFL, O_APPEND) != 0) exit(3);
    }
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) exit(3);
    if (child == 0) {
        end_after(4);
        dup2(said, 2);
        size = n;
        elsewhere = thread;
        use_heap();
        m->run();
        _exit(0);
    }
    if (waitpid(child, &status, 0) != child) exit(3);
    const int reported = passed_on(said);
    printf("%s %zu %d ", m->name, n, thread);
    if (WIFSIGNALED(status)) printf("%s\n", strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status)) printf("%d\n", WEXITSTATUS(status));
    else printf("%s\n", reported ? "reported" : "on");
}

static int for_all(void (*each)(const struct mistake *, size_t, int)) {
    for (int k = 0; k < KINDS; k++)
        for (const struct mistake *m = kinds[k]; m->name; m++)
            for (int s = 0; s < SIZES; s++) {
                each(m, sizes[s], NOTHING);
                if (m->flags & FREED) each(m, sizes[s], FREES);
                if (m->flags & USED) each(m, sizes[s], USES);
            }
    return 0;
}

int main(int count, char **words) {
    sem_init(&other.asked, 0, 0);
    sem_init(&other.done, 0, 0);
    if (count == 2 && strcmp(words[1], "--list") == 0) return for_all(list_one);
    if (count == 2 && strcmp(words[1], "--all") == 0) return for_all(run_one);
    if (count != 4) {
        fprintf(stderr, "usage: mistakes --list | mistakes --all | mistakes NAME SIZE THREAD\n");
        return 2;
    }
    size = strtoull(words[2], NULL, 10);
    elsewhere = atoi(words[3]);
    for (int k = 0; k < KINDS; k++)
        for (const struct mistake *m = kinds[k]; m->name; m++)
            if (is(m, words[1])) {
                use_heap();
                m->run();
                if (write(1, "went on\n", 8) != 8) return 3;
                _exit(0);
            }
    fprintf(stderr, "mistakes: no case %s\n", words[1]);
    return 2;
}
