// The first and only process of a machine of a kernel's own: runs each program in /tests, in turn, and says how it ended;
// then the machine is switched off.
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_S = 900 };

static void run(const char *name) {
    char path[300];
    snprintf(path, sizeof path, "/tests/%s", name);
    char *arguments[] = {path, NULL};
    char *environment[] = {"PATH=/tests", "TMPDIR=/tmp", "HOME=/tmp", "MASU_TEST_PATIENCE=10",
                           "LD_PRELOAD=/lib/libmasu.so", NULL};
    printf("== %s\n", name);
    pid_t child = fork();
    if (child == 0) {
        alarm(LIMIT_S);
        execve(path, arguments, environment);
        perror(path);
        _exit(127);
    }
    int status = -1;
    waitpid(child, &status, 0);
    if (WIFEXITED(status)) printf("== %s ended with %d\n", name, WEXITSTATUS(status));
    else printf("== %s ended by signal %d\n", name, WTERMSIG(status));
}

static int is_program(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

int main(void) {
    mkdir("/proc", 0755), mkdir("/sys", 0755), mkdir("/dev", 0755), mkdir("/tmp", 01777);
    mount("proc", "/proc", "proc", 0, NULL);
    mount("sysfs", "/sys", "sysfs", 0, NULL);
    mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
    mount("tmpfs", "/tmp", "tmpfs", 0, NULL);
    setvbuf(stdout, NULL, _IONBF, 0);
    printf("== pages of %ld bytes\n", sysconf(_SC_PAGESIZE));
    struct dirent **all;
    int count = scandir("/tests", &all, is_program, alphasort);
    for (int i = 0; i < count; i++) run(all[i]->d_name);
    printf("== done\n");
    sync();
    reboot(RB_POWER_OFF);
    return 1;
}
