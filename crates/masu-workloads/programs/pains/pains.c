/* pains --list        NAME, UNIT, LIMIT and what was reported, a line each, with tabs between
 * pains NAME          NAME VALUE UNIT LIMIT pass|fail
 */
#include "pains.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct pain *const groups[] = {going_back, threads_and_forks, address_space};

void failed(const char *what) {
    fprintf(stderr, "pains: %s\n", what);
    exit(2);
}

size_t kib_of(const char *file, const char *key) {
    static _Thread_local char text[8192];
    int in = open(file, O_RDONLY | O_CLOEXEC);
    if (in < 0) failed(file);
    size_t had = 0;
    for (ssize_t more; (more = read(in, text + had, sizeof text - 1 - had)) > 0;) had += more;
    close(in);
    text[had] = 0;
    const char *at = strstr(text, key);
    return at ? strtoul(at + strlen(key), NULL, 10) : 0;
}

double anonymous_mib(void) {
    return kib_of("/proc/self/smaps_rollup", "\nAnonymous:") / 1024.0;
}

double anonymous_after_rest(double mib) {
    struct timespec pause = {0, 100000000};
    double now = anonymous_mib();
    for (int i = 0; i < 50 && now > mib; i++) {
        nanosleep(&pause, NULL);
        now = anonymous_mib();
    }
    return now;
}

void *block(size_t size) {
    void *made = malloc(size);
    if (!made) failed("no memory");
    return memset(made, 0x5a, size);
}

size_t some_size(uint32_t *seed) {
    uint32_t kind = next(seed) % 100;
    if (kind < 80) return 16 + next(seed) % 500;
    if (kind < 99) return 512 + next(seed) % 15000;
    return 16384 + next(seed) % 300000;
}

int main(int count, char **words) {
    const char *wanted = count > 1 ? words[1] : "";
    for (size_t group = 0; group < sizeof groups / sizeof *groups; group++)
        for (const struct pain *pain = groups[group]; pain->name; pain++) {
            if (!strcmp(wanted, "--list"))
                printf("%s\t%s\t%g\t%s\n", pain->name, pain->unit, pain->limit, pain->report);
            if (strcmp(wanted, pain->name)) continue;
            double value = pain->measure();
            int holds = value <= pain->limit;
            printf("%s %.3f %s %g %s\n", pain->name, value, pain->unit, pain->limit, holds ? "pass" : "fail");
            fflush(stdout);
            _exit(!holds);
        }
    if (!strcmp(wanted, "--list")) return 0;
    failed("no pain of that name: --list");
}
