/* confined FILE PROGRAM ARGUMENT…: executes the program under the seccomp filter in the file, as systemd starts a service. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv) {
    static struct sock_filter filter[4096];
    FILE *file = argc > 2 ? fopen(argv[1], "r") : NULL;
    if (file == NULL) {
        perror("confined");
        return 2;
    }
    struct sock_fprog program = {(unsigned short)fread(filter, sizeof *filter, 4096, file), filter};
    fclose(file);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("confined: seccomp");
        return 2;
    }
    execv(argv[2], argv + 2);
    perror(argv[2]);
    return 2;
}
