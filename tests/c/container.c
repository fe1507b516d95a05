/* container RULES PROGRAM ARGUMENT…: executes the program under a container's seccomp filter, loaded by libseccomp as a
 * container's runtime loads it. A line of the file is one of
 *
 *   default ACTION        what becomes of all other calls; the first line
 *   arch NAME             an architecture beside this one, as x86
 *   rule ACTION CALL [ARGUMENT OPERATOR VALUE VALUE]…
 *
 * where an action is `allow`, `kill`, or an error's number. */
#include <errno.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS = 64 };

static void failed(const char *what, int error) {
    fprintf(stderr, "container: %s: %s\n", what, strerror(error));
    exit(3);
}

static uint32_t action(const char *name) {
    if (strcmp(name, "allow") == 0) return SCMP_ACT_ALLOW;
    if (strcmp(name, "kill") == 0) return SCMP_ACT_KILL_PROCESS;
    return SCMP_ACT_ERRNO(strtoul(name, NULL, 10));
}

static enum scmp_compare operator(const char *name) {
    static const char *const names[] = {"", "NE", "LT", "LE", "EQ", "GE", "GT", "MASKED_EQ"};
    for (int i = 1; i < 8; i++) {
        if (strcmp(name, names[i]) == 0) return (enum scmp_compare)i;
    }
    failed(name, EINVAL);
    return 0;
}

static void rule(scmp_filter_ctx filter, char **words, int count) {
    int call = seccomp_syscall_resolve_name(words[1]);
    // A name that this libseccomp does not know, as newer ones would: runtimes leave it out.
    if (call == __NR_SCMP_ERROR) return;
    struct scmp_arg_cmp arguments[6];
    unsigned used = 0;
    for (int i = 2; i + 3 < count && used < 6; i += 4) {
        arguments[used++] = (struct scmp_arg_cmp){
            strtoul(words[i], NULL, 10), operator(words[i + 1]), strtoull(words[i + 2], NULL, 10), strtoull(words[i + 3], NULL, 10)};
    }
    int error = seccomp_rule_add_array(filter, action(words[0]), call, used, arguments);
    // Where the default does the same.
    if (error != 0 && error != -EACCES) failed(words[1], -error);
}

int main(int argc, char **argv) {
    FILE *rules = argc > 2 ? fopen(argv[1], "re") : NULL;
    if (rules == NULL) failed("its rules", errno);
    scmp_filter_ctx filter = NULL;
    char line[1024];
    while (fgets(line, sizeof line, rules) != NULL) {
        char *words[WORDS] = {NULL};
        int count = 0;
        for (char *word = strtok(line, " \n"); word != NULL && count < WORDS; word = strtok(NULL, " \n")) words[count++] = word;
        if (count >= 3 && strcmp(words[0], "rule") == 0) {
            rule(filter, words + 1, count - 1);
        } else if (count == 2 && strcmp(words[0], "arch") == 0) {
            int error = seccomp_arch_add(filter, seccomp_arch_resolve_name(words[1]));
            if (error != 0) failed(words[1], -error);
        } else if (count == 2 && strcmp(words[0], "default") == 0) {
            filter = seccomp_init(action(words[1]));
            if (filter == NULL) failed("seccomp_init", EINVAL);
        } else {
            failed(words[0] == NULL ? "an empty line" : words[0], EINVAL);
        }
    }
    fclose(rules);
    // As root a container has no such bit, and programs in it may gain privileges.
    int error = seccomp_attr_set(filter, SCMP_FLTATR_CTL_NNP, geteuid() != 0);
    if (error == 0) error = seccomp_load(filter);
    if (error != 0) failed("its filter", -error);
    seccomp_release(filter);
    execvp(argv[2], argv + 2);
    failed(argv[2], errno);
}
