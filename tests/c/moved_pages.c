// Whether memory whose pages were moved away by MREMAP_DONTUNMAP is still memory to system calls.
// It is on Linux. qemu-user 7.2 passes the move to the kernel but forgets that the old range stays
// mapped: calls refuse it, and `dc zva`, with which memset clears, faults there.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

int main(void) {
    const size_t size = 1 << 20;
    char *from = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (from == MAP_FAILED) return 2;
    memset(from, 7, size);
    char *to = from + size;
    if (mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) != to) {
        perror("mremap");
        return 2;
    }
    int ends[2];
    if (pipe(ends) != 0 || write(ends[1], to, 1) != 1) return 2;
    if (read(ends[0], from, 1) != 1) {
        perror("read into the range that the pages left");
        return 1;
    }
    return from[0] == 7 && from[1] == 0 ? 0 : 1;
}
