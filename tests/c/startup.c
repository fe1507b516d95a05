// What a program costs that does nothing: its resident set in bytes, as the kernel counts it page
// by page. Prints anonymous and file-backed memory separately. Uses no stdio, which would allocate.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void) {
    char text[4096];
    int file = open("/proc/self/smaps_rollup", O_RDONLY);
    ssize_t length = read(file, text, sizeof text - 1);
    if (length <= 0) return 1;
    text[length] = 0;
    const char *rss = strstr(text, "Rss:"), *anonymous = strstr(text, "Anonymous:");
    if (rss == NULL || anonymous == NULL) return 1;
    // Both lines unchanged: "Rss:    1234 kB".
    write(1, rss, strchr(rss, '\n') + 1 - rss);
    write(1, anonymous, strchr(anonymous, '\n') + 1 - anonymous);
    return 0;
}
