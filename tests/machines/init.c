// The first process of an emulated machine: runs each program in /tests, in turn, prints how it
// ended, and switches the machine off. Each line of /settings is a name below /proc/sys and a
// number: all programs run again with each alone. Without any lines they run once, as they are.
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

static void run_all(void) {
    struct dirent **all;
    int count = scandir("/tests", &all, is_program, alphasort);
    for (int i = 0; i < count; i++) run(all[i]->d_name);
}

// The kernel's setting; -1 if there is none.
static long read_setting(const char *path) {
    long value = -1;
    FILE *file = fopen(path, "r");
    if (file == NULL) return -1;
    if (fscanf(file, "%ld", &value) != 1) value = -1;
    fclose(file);
    return value;
}

static void write_setting(const char *path, long value) {
    FILE *file = fopen(path, "w");
    if (file == NULL || fprintf(file, "%ld\n", value) < 0 || fclose(file) != 0) perror(path);
}

// Prints the kernel's value of the setting, so that a refused one is noticed.
static void run_all_with(const char *name, long value) {
    char path[300];
    snprintf(path, sizeof path, "/proc/sys/%s", name);
    long before = read_setting(path);
    write_setting(path, value);
    printf("== %s %ld\n", name, read_setting(path));
    run_all();
    write_setting(path, before);
}

int main(void) {
    mkdir("/proc", 0755), mkdir("/sys", 0755), mkdir("/dev", 0755), mkdir("/tmp", 01777);
    mount("proc", "/proc", "proc", 0, NULL);
    mount("sysfs", "/sys", "sysfs", 0, NULL);
    mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
    mount("tmpfs", "/tmp", "tmpfs", 0, NULL);
    setvbuf(stdout, NULL, _IONBF, 0);
    // The firmware's last line has no end.
    printf("\n== pages of %ld bytes\n", sysconf(_SC_PAGESIZE));
    char name[200];
    long value;
    int lines = 0;
    FILE *settings = fopen("/settings", "r");
    for (; settings != NULL && fscanf(settings, "%199s %ld", name, &value) == 2; lines++) run_all_with(name, value);
    if (lines == 0) run_all();
    printf("== done\n");
    sync();
    reboot(RB_POWER_OFF);
    return 1;
}
