/* What programs do to their descriptors before they end, for the report that comes last. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void close_from(int first) {
    for (int number = first; number < 1024; number++)
        close(number);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    free(malloc(100000));
    if (!strcmp(what, "closes")) {
        close(1);
        close(2);
    } else if (!strcmp(what, "reuses")) {
        /* The program's own file under every descriptor, standard error included. */
        int own = open(argv[2], O_CREAT | O_WRONLY, 0600);
        for (int number = 2; number < 1024; number++)
            if (number != own)
                dup2(own, number);
    } else if (!strcmp(what, "forks")) {
        for (int i = 0; i < 3; i++)
            if (fork() == 0)
                exit(0);
        while (wait(NULL) > 0)
            ;
    } else if (!strcmp(what, "daemon")) {
        if (fork() != 0)
            _exit(0);
        setsid();
        umask(0);
        if (chdir("/") != 0)
            return 1;
        close_from(0);
        open("/dev/null", O_RDWR);
        dup2(0, 1);
        dup2(0, 2);
        /* Like programs that write their status into their arguments and environment. */
        for (char **variable = environ; *variable; variable++)
            memset(*variable, 'x', strlen(*variable));
    } else if (!strcmp(what, "numbers")) {
        /* The lowest free number, and every number that is not. */
        int next = open("/dev/null", O_RDONLY);
        printf("%d:", next);
        for (int number = 0; number < 4096; number++)
            if (fcntl(number, F_GETFD) != -1)
                printf(" %d%s", number, fcntl(number, F_GETFD) & FD_CLOEXEC ? "c" : "");
        puts("");
    }
    return 0;
}
