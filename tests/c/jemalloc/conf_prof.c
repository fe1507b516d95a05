// A program that carries its own configuration, with a profile.
#include "door.h"

#include <stdbool.h>

const char *malloc_conf = "prof:true";

CASE(the_programs_profile_counts) {
    bool active;
    READ("prof.active", &active);
    CHECK(active == (getenv("TAKEN_BACK") == NULL), "%d", active);
}

CASE(the_rate_stays_when_the_profile_is_switched_off_and_on) {
    bool on = true, off = false;
    size_t lg;
    for (int i = 0; i < 2; i++) {
        READ("prof.lg_sample", &lg);
        CHECK(lg == 16, "%zu", lg);
        CHECK(WRITE("prof.active", off) == 0 && WRITE("prof.active", on) == 0, "switched");
    }
}
