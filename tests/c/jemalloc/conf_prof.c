// A program that carries its own configuration, with a profile.
#include "door.h"

#include <stdbool.h>

const char *malloc_conf = "prof:true";

CASE(the_programs_profile_counts) {
    bool active;
    READ("prof.active", &active);
    CHECK(active == (getenv("TAKEN_BACK") == NULL), "%d", active);
}
