// How long a program with a mistake may stand still.
#pragma once

#include <stdlib.h>
#include <unistd.h>

// Ends this process after so many seconds, or after MASU_TEST_PATIENCE times as many: on a slow machine, a program that
// is about to be stopped must not be taken for one that stands still.
static void end_after(unsigned seconds) {
    const char *times = getenv("MASU_TEST_PATIENCE");
    alarm(seconds * (times ? (unsigned)atoi(times) : 1));
}
