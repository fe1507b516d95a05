// Which routine copies what realloc moves: the program's own memmove replaces the C library's.
#include <stdlib.h>

// Volatile: the compiler assumes that realloc calls nothing in this file.
static volatile size_t copied;

void *memmove(void *to, const void *from, size_t n) {
    copied += n;
    char *d = to;
    const char *s = from;
    if (d < s)
        for (size_t i = 0; i < n; i++) d[i] = s[i];
    else
        while (n-- != 0) d[n] = s[n];
    return to;
}

// Small and medium blocks; each has another block after it, so it has to move.
int main(void) {
    const size_t sizes[] = {1000, 20000, 300000};
    for (int i = 0; i < 3; i++) {
        size_t n = sizes[i], before = copied;
        char *p = malloc(n), *behind = malloc(n);
        for (size_t at = 0; at < n; at++) p[at] = (char)(at * 7);
        char *moved = realloc(p, 3 * n);
        if (moved == NULL || behind == NULL) return 2;
        for (size_t at = 0; at < n; at++)
            if (moved[at] != (char)(at * 7)) return 3;
        if (moved != p && copied - before < n) return 1;
        free(moved), free(behind);
    }
    return copied != 0 ? 0 : 4;
}
