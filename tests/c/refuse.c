// Runs a program as on an older kernel or under a container's filter: one system call, or one use of it, fails.
//
//   refuse CALL ARGUMENT MASK VALUE ERROR PROGRAM ARGUMENTS…
//
// All but the program are numbers. The call fails if (argument & mask) == value; with a mask of 0, always. The filter
// applies from the program's first instruction on.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 7) return 2;
    uint32_t call = strtoul(argv[1], NULL, 0), argument = strtoul(argv[2], NULL, 0), mask = strtoul(argv[3], NULL, 0),
             value = strtoul(argv[4], NULL, 0), error = strtoul(argv[5], NULL, 0);
    // Little-endian: the lower half of an argument comes first.
    uint32_t at = offsetof(struct seccomp_data, args) + 8 * argument;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
        perror("refuse");
        return 3;
    }
    execvp(argv[6], argv + 6);
    perror(argv[6]);
    return 3;
}
