/* The only thread of a process forks three times, and each child prints where its next blocks lie, as a sum. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    static void *volatile blocks[20000];
    for (int i = 0; i < 20000; i++) blocks[i] = malloc(48);
    for (int child = 0; child < 3; child++) {
        pid_t pid = fork();
        if (pid == 0) {
            uintptr_t sum = 0;
            for (int i = 0; i < 600; i++) {
                blocks[i] = malloc(48);
                sum = sum * 31 + (uintptr_t)blocks[i] / 16;
            }
            dprintf(1, "%zx\n", (size_t)sum);
            _exit(0);
        }
        int status = -1;
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) return 1;
    }
    return 0;
}
