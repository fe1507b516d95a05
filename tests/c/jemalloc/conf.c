// A program that carries its own configuration.
#include "door.h"

const char *malloc_conf = "dirty_decay_ms:777,background_thread:false,no_such_key:1";

CASE(the_programs_string_counts) {
    ssize_t decay;
    READ("opt.dirty_decay_ms", &decay);
    CHECK(decay == (getenv("EXPECTED") ? atol(getenv("EXPECTED")) : 777), "%zd", decay);
}
