// A program whose standard error nobody reads, or which has a file of its own in its place, goes on as it would without
// a message.
#include "check.h"
#include "doors.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

static volatile sig_atomic_t signals;

static void count(int signal) {
    (void)signal;
    signals++;
}

// Makes standard error a pipe without a reader.
static void lose_the_reader(void) {
    int ends[2];
    CHECK(pipe(ends) == 0 && dup2(ends[1], 2) == 2, "pipe: %s", strerror(errno));
    close(ends[0]);
    close(ends[1]);
}

// Has an allocation refused, for which the program is told why.
static void run_out(void) {
    struct rlimit limit = {(size_t)(status_field("VmSize:") << 10) + (50 << 20), RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit: %s", strerror(errno));
    CHECK(malloc(hidden((size_t)1 << 30)) == NULL && errno == ENOMEM, "errno %d", errno);
}

CASE(an_unread_message_ends_nothing) {
    lose_the_reader();
    run_out();
}

CASE(an_unread_message_is_no_signal) {
    signal(SIGPIPE, count);
    lose_the_reader();
    run_out();
    CHECK(signals == 0, "%d signals", signals);
    // The mask is as it was.
    raise(SIGPIPE);
    CHECK(signals == 1, "%d signals", signals);
}

CASE(a_signal_that_waited_before_a_message_still_waits) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGPIPE);
    lose_the_reader();
    run_out();
    sigpending(&set);
    CHECK(sigismember(&set, SIGPIPE) == 1, "it is lost");
}

// Standard error is a file that may grow no further.
CASE(a_message_too_many_for_its_file_is_no_signal) {
    signal(SIGXFSZ, count);
    char path[] = "/tmp/masu-stderr-XXXXXX";
    CHECK(dup2(mkstemp(path), 2) == 2, "dup2: %s", strerror(errno));
    unlink(path);
    CHECK(fcntl(2, F_SETFL, O_APPEND) == 0, "fcntl: %s", strerror(errno));
    struct rlimit none = {0, RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_FSIZE, &none) == 0, "setrlimit: %s", strerror(errno));
    run_out();
    CHECK(signals == 0, "%d signals", signals);
    CHECK(write(2, "x", 1) < 0 && errno == EFBIG && signals == 1, "the program's own is one");
}

// The program has an allocator of its own, so that masu leaves alone what may be a block of it.
void *own_new(size_t size) __asm__("_Znwm");
void *own_new(size_t size) { return malloc(size); }

// The C library ends a program for what masu survives.
CASE(an_unread_message_about_a_foreign_pointer_ends_nothing) {
    char *foreign = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    lose_the_reader();
    free(hide(foreign + 64));
}

CASE(a_message_at_start_or_exit_ends_nothing) {
    pid_t child = fork();
    if (child == 0) {
        lose_the_reader();
        setenv("MASU_DEKAY", "1s", 1);
        setenv("MASU_SHOW_STATS", "1", 1);
        setenv("MASU_PROF_FILE", "/nowhere/profile", 1);
        execl("/proc/self/exe", "stderr", "--list", NULL);
        _exit(1);
    }
    int status;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
}

// Whether a message comes between what the program writes to descriptor 2.
static void writes_data(int flags, char *found, size_t bytes) {
    char path[] = "/tmp/masu-stderr-XXXXXX";
    int file = mkstemp(path);
    CHECK(file >= 0, "mkstemp: %s", strerror(errno));
    close(2);
    CHECK(open(path, O_RDWR | flags) == 2, "it has not the number");
    unlink(path);
    CHECK(write(2, "before ", 7) == 7, "write: %s", strerror(errno));
    run_out();
    CHECK(write(2, "after", 5) == 5, "write: %s", strerror(errno));
    memset(found, 0, bytes);
    CHECK(pread(file, found, bytes - 1, 0) > 0, "read: %s", strerror(errno));
}

CASE(a_file_of_data_in_place_of_stderr_stays_as_it_is) {
    char found[600];
    writes_data(0, found, sizeof found);
    CHECK(strcmp(found, "before after") == 0, "%s", found);
}

CASE(a_log_in_place_of_stderr_is_told) {
    char found[600];
    writes_data(O_APPEND, found, sizeof found);
    if (strstr(found, "masu: out of memory: the limit on address space") == NULL) not_offered("messages");
    CHECK(strncmp(found, "before masu: ", 13) == 0, "%s", found);
}
