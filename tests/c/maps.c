// Prints whether the process runs on libmasu, and ends with the number that it is given.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char **arguments) {
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    int found = 0;
    while (maps && fgets(line, sizeof line, maps)) found |= strstr(line, "libmasu") != NULL;
    puts(found ? "on masu" : "elsewhere");
    return count > 1 ? atoi(arguments[1]) : 0;
}
