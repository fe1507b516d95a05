// The other ways to make a process, and handlers that allocate around a fork.
#include "check.h"
#include "doors.h"

#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;
static _Atomic int stop;

static void *allocate(void *unused) {
    uint64_t random = (uintptr_t)&random;
    while (!stop) free(malloc(random_next(&random) % 30000));
    return unused;
}
static pthread_t noise[4];
static void begin_noise(void) {
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&noise[i], NULL, allocate, NULL) == 0, "thread");
}
static void end_noise(void) {
    stop = 1;
    for (int i = 0; i < 4; i++) pthread_join(noise[i], NULL);
}

static void expect_exit(pid_t child, int code) {
    int status;
    CHECK(child > 0, "no child: %s", strerror(errno));
    CHECK(waitpid(child, &status, 0) == child, "waitpid: %s", strerror(errno));
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == code, "status %#x", status);
}

CASE(vfork_and_exec) {
    begin_noise();
    for (int i = 0; i < 100; i++) {
        char *name = strdup("/bin/true");
        pid_t child = vfork();
        if (child == 0) {
            execl(name, name, (char *)NULL);
            _exit(9);
        }
        free(name);
        expect_exit(child, 0);
    }
    end_noise();
}

// The child of vfork borrows the parent's memory and thread; what it allocates stays.
CASE(vfork_child_may_allocate) {
    begin_noise();
    static void *volatile left[100];
    for (int i = 0; i < 100; i++) {
        void *volatile mine = malloc(700);
        pid_t child = vfork();
        if (child == 0) {
            free(mine);
            left[i] = malloc(i * 300);
            _exit(7);
        }
        expect_exit(child, 7);
        CHECK(left[i] != NULL, "the child could not allocate");
        free(left[i]);
    }
    end_noise();
}

CASE(posix_spawn_from_a_threaded_program) {
    begin_noise();
    for (int i = 0; i < 100; i++) {
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", 1, 0);
        char *arguments[] = {"/bin/echo", "hello", NULL};
        pid_t child;
        int code = posix_spawn(&child, arguments[0], &actions, NULL, arguments, environ);
        CHECK(code == 0, "posix_spawn: %s", strerror(code));
        posix_spawn_file_actions_destroy(&actions);
        expect_exit(child, 0);
    }
    end_noise();
}

CASE(system_and_popen) {
    begin_noise();
    for (int i = 0; i < 30; i++) {
        CHECK(system("exit 3") == 3 << 8, "system");
        FILE *pipe = popen("echo a line", "r");
        char *line = NULL;
        size_t length = 0;
        CHECK(getline(&line, &length, pipe) == 7, "popen");
        free(line);
        CHECK(pclose(pipe) == 0, "pclose");
    }
    end_noise();
}

// clone with separate memory, beneath the libc: no atfork handler runs. Only a single-threaded
// program may do it, and there it must work.
static int allocate_in_clone(void *block) {
    free(block);
    for (size_t size = 1; size < 3 << 20; size = size * 2 + 1) {
        block = malloc(size);
        CHECK(block != NULL, "malloc(%zu) in the child", size);
        free(block);
    }
    _exit(5);
}
CASE(raw_clone_of_a_single_threaded_program) {
    static char stack[1 << 17] __attribute__((aligned(16)));
    for (int i = 0; i < 20; i++) {
        void *block = malloc(3000);
        pid_t child = clone(allocate_in_clone, stack + sizeof stack, SIGCHLD, block);
        expect_exit(child, 5);
        free(block);
    }
}

// The program's handlers, which allocate. .preinit_array runs before every library's constructor,
// so these are registered before the allocator can register its own: they run innermost, while it
// holds its locks.
static _Atomic int prepared, continued, born;
static void *around;
static void prepare(void) {
    free(around);
    around = malloc(2000);
    free(malloc(100000));
    free(malloc(3 << 20));
    prepared++;
}
static void in_parent(void) {
    around = realloc(around, 50000);
    free(malloc(100));
    continued++;
}
static void in_child(void) {
    around = realloc(around, 50000);
    free(malloc(100000));
    born++;
}
static void register_early(int argc, char **argv, char **environment) {
    (void)environment;
    if (argc > 1 && strcmp(argv[1], "early_atfork_handlers_allocate") == 0)
        pthread_atfork(prepare, in_parent, in_child);
}
__attribute__((section(".preinit_array"), used)) static void (*early)(int, char **, char **) = register_early;

static void fork_a_few(void) {
    begin_noise();
    for (int i = 1; i <= 50; i++) {
        alarm(patience(10)); // a deadlock ends here
        pid_t child = fork();
        if (child == 0) {
            alarm(patience(10));
            CHECK(born == 1, "the child's handler ran %d times", born);
            for (size_t size = 1; size < 3 << 20; size = size * 2 + 1) {
                void *block = malloc(size);
                CHECK(block != NULL, "malloc(%zu) in the child", size);
                free(block);
            }
            _exit(0);
        }
        expect_exit(child, 0);
        CHECK(prepared == i && continued == i, "handlers: %d, %d", prepared, continued);
    }
    end_noise();
}

CASE(early_atfork_handlers_allocate) { fork_a_few(); }

CASE(late_atfork_handlers_allocate) {
    pthread_atfork(prepare, in_parent, in_child);
    fork_a_few();
}
