// Prints the size of a page, as the kernel, or what stands in for it, tells the program.
#include <stdio.h>
#include <unistd.h>

int main(void) {
    printf("%ld\n", sysconf(_SC_PAGESIZE));
    return 0;
}
