// A hostile environment for the cases that follow, by MASU_TEST_GROUND:
//
//   locked        all memory is locked, present and future: madvise cannot drop pages
//   seccomp       only the documented system calls; any other kills the process
//   seccomp-bare  as above, and the optional ones among them fail with ENOSYS
//   few-mappings  the process may make few more mappings before it meets vm.max_map_count
#include "check.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

// Newer machines have no call of this name, and their C library pauses by another.
#ifndef SYS_pause
#define SYS_pause SYS_ppoll
#endif

static void lock_all_memory(void) {
    CHECK(mlockall(MCL_CURRENT | MCL_FUTURE) == 0, "mlockall: %s", strerror(errno));
}

// What a program with threads and standard output itself needs. Its exit code 0 also proves that
// the program break was never used: the allocator under test does without. The libc's own malloc
// needs it, and random bytes (MASU_TEST_LIBC).
static const int of_libc[] = {SYS_write,         SYS_exit,           SYS_exit_group, SYS_rt_sigprocmask,
                              SYS_rt_sigreturn,  SYS_clock_nanosleep, SYS_nanosleep, SYS_sched_yield,
                              SYS_set_robust_list, SYS_rseq,         SYS_clone,      SYS_clone3,
                              SYS_futex,         SYS_mmap,           SYS_munmap,     SYS_mprotect,
                              SYS_rt_sigaction,  SYS_tgkill,         SYS_pause};
// What the allocator may also use, and must do without if it is refused.
static const int optional[] = {SYS_madvise,    SYS_mremap, SYS_clock_gettime,     SYS_getpid,
                               SYS_gettid,     SYS_prctl,  SYS_sched_getaffinity, SYS_membarrier,
                               SYS_openat,     SYS_read,   SYS_close,             SYS_mincore,
                               SYS_prlimit64};

static void filter_system_calls(unsigned optional_answer) {
    enum { most = 100 };
    static struct sock_filter code[most];
    int at = 0;
    code[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < sizeof of_libc / sizeof *of_libc; i++) {
        code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, of_libc[i], 0, 1);
        code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    if (getenv("MASU_TEST_LIBC") != NULL) {
        code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_brk, 1, 0);
        code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getrandom, 0, 1);
        code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++) {
        code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, optional[i], 0, 1);
        code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, optional_answer);
    }
    code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = {at, code};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs: %s", strerror(errno));
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "seccomp: %s", strerror(errno));
}

// Uses up all mappings, then gives back a few: pages of one large mapping with alternating
// protections, each of which counts as one.
static void use_up_mappings(int left) {
    enum { pages = 300000 };
    size_t page = sysconf(_SC_PAGESIZE);
    char *area = mmap(NULL, pages * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(area != MAP_FAILED, "mmap: %s", strerror(errno));
    int i = 0;
    while (i < pages && mprotect(area + i * page, page, PROT_READ) == 0) i += 2;
    CHECK(i < pages, "the limit is beyond %d mappings", pages);
    CHECK(errno == ENOMEM, "mprotect: %s", strerror(errno));
    for (int j = 0; j < left / 2; j++) {
        i -= 2;
        CHECK(mprotect(area + i * page, page, PROT_NONE) == 0, "mprotect: %s", strerror(errno));
    }
}

void prepare_ground(void);
void prepare_ground(void) {
    const char *ground = getenv("MASU_TEST_GROUND");
    if (ground == NULL) return;
    if (strcmp(ground, "locked") == 0) lock_all_memory();
    else if (strcmp(ground, "seccomp") == 0) filter_system_calls(SECCOMP_RET_ALLOW);
    else if (strcmp(ground, "seccomp-bare") == 0) filter_system_calls(SECCOMP_RET_ERRNO | ENOSYS);
    else if (strcmp(ground, "few-mappings") == 0) use_up_mappings(120);
    else CHECK(0, "no such ground: %s", ground);
}
