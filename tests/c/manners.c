// A process that was single-threaded stays so, or becomes so again: this decides what it may do
// afterwards.
#include "check.h"
#include "doors.h"

#include <dirent.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static int tasks(void) { return (int)status_field("Threads:"); }

// Allocates and frees this much, in blocks of all kinds.
static void burst(size_t total) {
    enum { most = 200000 };
    static void *blocks[most];
    static const size_t sizes[] = {200, 3000, 40000, 3 << 20};
    int count = 0;
    for (int kind = 0; kind < 4; kind++)
        for (size_t sum = 0; sum + sizes[kind] <= total / 4 && count < most; sum += sizes[kind]) {
            blocks[count] = malloc(sizes[kind]);
            CHECK(blocks[count] != NULL, "malloc(%zu)", sizes[kind]);
            memset(blocks[count++], 1, sizes[kind]);
        }
    for (int i = 0; i < count; i++) free(blocks[i]);
}

static void expect_single(void) {
    CHECK(tasks() == 1, "%d threads", tasks());
    CHECK(__libc_single_threaded, "the C library takes the process for a threaded one");
}

CASE(small_bursts_start_no_thread) {
    for (int i = 0; i < 10; i++) {
        burst(40 << 20);
        expect_single();
        sleep_ms(60);
        expect_single();
    }
    sleep_ms(700);
    expect_single();
}

// Run where no thread can be made, by a tracer that counts the attempts.
CASE(three_seconds_of_bursts) {
    for (long end = now_ms() + 3000; now_ms() < end;) {
        burst(60 << 20);
        sleep_ms(10);
    }
    expect_single();
}

// Run with background_thread:off.
CASE(no_burst_starts_a_thread_when_told_so) {
    for (int i = 0; i < 3; i++) {
        burst(300 << 20);
        expect_single();
        sleep_ms(300);
        expect_single();
    }
    free(malloc(100));
    expect_single();
}

static void burst_and_rest(void) {
    burst(200 << 20);
    sleep_ms(2000);
    // On a busy machine the helper is late.
    for (long end = now_ms() + patience(8) * 1000; tasks() != 1 && now_ms() < end;) sleep_ms(10);
    CHECK(tasks() == 1, "%d threads", tasks());
}

CASE(single_again_two_seconds_after_a_large_burst) { burst_and_rest(); }

CASE(single_again_two_seconds_after_a_large_burst_beside_a_large_heap) {
    enum { size = 2000 };
    static void **volatile last;
    for (size_t sum = 0; sum < 100 << 20; sum += size) {
        void **block = malloc(size);
        CHECK(block != NULL, "malloc");
        memset(block, 1, size);
        *block = last;
        last = block;
    }
    burst_and_rest();
}

CASE(unshare_of_the_user_namespace_after_a_burst) {
    pid_t child = fork(); // tests whether the kernel allows it at all
    if (child == 0) _exit(unshare(CLONE_NEWUSER) == 0 ? 0 : 1);
    int status;
    CHECK(waitpid(child, &status, 0) == child, "waitpid");
    if (status != 0) not_offered("unshare(CLONE_NEWUSER)");
    burst_and_rest();
    CHECK(unshare(CLONE_NEWUSER) == 0, "unshare: %s", strerror(errno));
    burst(10 << 20);
}

CASE(setuid_after_a_burst) {
    if (getuid() != 0) not_offered("setuid without being root");
    burst_and_rest();
    CHECK(setgid(65534) == 0 && setuid(65534) == 0, "setuid: %s", strerror(errno));
    burst(10 << 20);
    CHECK(tasks() == 1, "%d threads", tasks());
}

// Run with a decay time of ten seconds. What a helper thread may do goes with what the program may do.
CASE(a_helper_thread_does_not_keep_what_the_program_gives_up) {
    burst(200 << 20);
    if (tasks() == 1) not_offered("a helper thread");
    if (getuid() == 0) CHECK(setgid(65534) == 0 && setuid(65534) == 0, "setuid: %s", strerror(errno));
    else CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs: %s", strerror(errno));
    long end = now_ms() + patience(2) * 1000;
    while (tasks() != 1 && now_ms() < end) sleep_ms(10);
    CHECK(tasks() == 1, "%d threads", tasks());
    // The next one has no more than the program.
    burst(200 << 20);
    sleep_ms(700);
    burst(10 << 20);
}

// Whether a helper thread is there, after a burst that calls for one.
static int gets_a_helper(void) {
    for (long end = now_ms() + patience(4) * 1000; now_ms() < end; sleep_ms(10)) {
        burst(200 << 20);
        if (tasks() != 1) return 1;
    }
    return 0;
}

// Run with a decay time of ten seconds. The helper thread that the child starts is one of the child's, and ends with it.
CASE(a_helper_thread_of_a_child_of_vfork_is_followed_by_another) {
    pid_t child = fork(); // tests whether there is one at all
    if (child == 0) _exit(gets_a_helper() ? 0 : 1);
    int status;
    CHECK(waitpid(child, &status, 0) == child, "waitpid");
    if (status != 0) not_offered("a helper thread");
    child = vfork();
    if (child == 0) {
        burst(200 << 20);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ended with %#x", status);
    CHECK(gets_a_helper(), "no helper thread");
}

// Allocates and frees this much in blocks of 3000 bytes.
static void burst_of_small(size_t total) {
    enum { size = 3000, most = (200 << 20) / size };
    static void *blocks[most];
    int count = (int)(total / size);
    for (int i = 0; i < count; i++) blocks[i] = memset(malloc(size), 1, size);
    for (int i = 0; i < count; i++) free(blocks[i]);
}

// No handler of a fork runs in such a child.
CASE(memory_goes_back_in_the_child_of_a_raw_clone) {
    if (sysconf(_SC_PAGESIZE) != 4096) not_offered("pages of 4 KiB");
    if (!gets_a_helper()) not_offered("a helper thread");
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        alarm(patience(20));
        burst_of_small(200 << 20);
        for (long end = now_ms() + patience(4) * 1000; resident_kib() > 50 << 10 && now_ms() < end;) {
            sleep_ms(50);
            burst_of_small(1 << 20);
        }
        CHECK(resident_kib() <= 50 << 10, "%ld KiB are resident", resident_kib());
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ended with %#x", status);
}

// A helper thread waits by futex, and a program with one thread does not.
CASE(memory_goes_back_although_a_filter_has_killed_a_helper_thread) {
    if (!gets_a_helper()) not_offered("a helper thread");
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_THREAD),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs: %s", strerror(errno));
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
        not_offered("a filter for all threads");
    for (long end = now_ms() + patience(4) * 1000; tasks() != 1 && now_ms() < end;) sleep_ms(10);
    CHECK(tasks() == 1, "the helper thread lives");
    enum { count = 2000, size = 100000 };
    static void *blocks[count];
    for (int i = 0; i < count; i++) blocks[i] = memset(malloc(size), 1, size);
    for (int i = 0; i < count; i++) free(blocks[i]);
    for (long end = now_ms() + patience(4) * 1000; resident_kib() > 50 << 10 && now_ms() < end;) {
        sleep_ms(50);
        burst(20 << 20);
    }
    CHECK(resident_kib() <= 50 << 10, "%ld KiB are resident", resident_kib());
}

static void kill_all_but_the_documented(void) {
    static const int allowed[] = {SYS_write,   SYS_exit_group, SYS_mmap,  SYS_munmap,        SYS_madvise,
                                  SYS_mremap,  SYS_mprotect,   SYS_futex, SYS_clock_gettime, SYS_getpid,
                                  SYS_gettid,  SYS_prctl,      SYS_sched_getaffinity, SYS_membarrier,
                                  SYS_clock_nanosleep,           SYS_mincore,
                                 SYS_prlimit64};
    struct sock_filter code[64];
    int at = 0;
    code[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
        code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = {at, code};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs: %s", strerror(errno));
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "seccomp: %s", strerror(errno));
}

// No thread can be started any more: clone is not on the list. A small burst needs none; neither
// does the work left by a large one before the filter.
CASE(seccomp_after_a_burst) {
    burst_and_rest();
    kill_all_but_the_documented();
    for (int i = 0; i < 5; i++) {
        burst(40 << 20);
        sleep_ms(150);
    }
}

CASE(landlock_after_a_burst) {
    struct landlock_ruleset_attr rules = {.handled_access_fs = LANDLOCK_ACCESS_FS_WRITE_FILE};
    int ruleset = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);
    if (ruleset < 0) not_offered("landlock");
    burst_and_rest();
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs: %s", strerror(errno));
    CHECK(syscall(SYS_landlock_restrict_self, ruleset, 0) == 0, "landlock: %s", strerror(errno));
    close(ruleset);
    burst(10 << 20);
}

static void *burst_in_thread(void *size) {
    for (int i = 0; i < 200; i++) {
        char *block = malloc((size_t)size);
        CHECK(block != NULL, "malloc");
        memset(block, 1, (size_t)size);
        free(block);
    }
    return NULL;
}

static volatile int stop;
static pid_t stayer;
static void *stay(void *unused) {
    stayer = (pid_t)syscall(SYS_gettid);
    while (!stop) sleep_ms(5);
    return unused;
}

// A threaded program may get one more thread, which takes none of its signals. With MASU_TEST_HELPER it must.
CASE(a_helper_thread_is_alone_and_takes_no_signals) {
    pthread_t idle, busy[4];
    CHECK(pthread_create(&idle, NULL, stay, NULL) == 0, "thread");
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&busy[i], NULL, burst_in_thread, (void *)(size_t)(4 << 20)) == 0, "thread");
    for (int i = 0; i < 4; i++) pthread_join(busy[i], NULL);
    burst(200 << 20);
    long end = now_ms() + 1000;
    int most = 0, helpers = 0;
    while (now_ms() < end) {
        int now = tasks();
        if (now > most) most = now;
        DIR *directory = opendir("/proc/self/task");
        for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
            char path[300], text[4096];
            if (entry->d_name[0] == '.') continue;
            snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
            FILE *file = fopen(path, "r");
            if (file == NULL) continue; // it ended meanwhile
            size_t length = fread(text, 1, sizeof text - 1, file);
            fclose(file);
            text[length] = 0;
            char *blocked = strstr(text, "SigBlk:");
            if (blocked == NULL) continue;
            unsigned long mask = strtoul(blocked + 7, NULL, 16);
            if (atoi(entry->d_name) == getpid() || atoi(entry->d_name) == stayer) continue;
            unsigned long wanted = (1ul << (SIGTERM - 1)) | (1ul << (SIGALRM - 1)) | (1ul << (SIGUSR1 - 1)) |
                                   (1ul << (SIGCHLD - 1)) | (1ul << (SIGPROF - 1)) | (1ul << (SIGHUP - 1));
            CHECK((mask & wanted) == wanted, "a helper thread blocks %#lx only", mask);
            helpers++;
        }
        closedir(directory);
        sleep_ms(10);
    }
    CHECK(most <= 3, "%d threads where the program has two", most);
    CHECK(helpers != 0 || getenv("MASU_TEST_HELPER") == NULL, "no helper thread");
    stop = 1;
    pthread_join(idle, NULL);
}

// Forked while a helper may be at work: the child has one thread, and its own bursts work.
CASE(the_child_of_a_fork_has_one_thread) {
    pthread_t idle;
    CHECK(pthread_create(&idle, NULL, stay, NULL) == 0, "thread");
    for (int i = 0; i < 10; i++) {
        burst(100 << 20);
        pid_t child = fork();
        if (child == 0) {
            alarm(patience(20));
            CHECK(tasks() == 1, "%d threads", tasks());
            burst(100 << 20);
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ended with %#x", status);
    }
    stop = 1;
    pthread_join(idle, NULL);
}
