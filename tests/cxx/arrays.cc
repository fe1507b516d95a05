// Arrays that are not deleted as arrays, and single objects that are.
#include "../c/check.h"

#include <cstdlib>

// Arrays whose elements have destructors store their length before the first one; others do not.
struct with_destructor {
    long words[3];
    ~with_destructor() { words[0] = 0; }
};
struct without_destructor {
    long words[3];
};

CASE(an_array_with_its_length_is_freed) { free(hide(new with_destructor[5])); }
CASE(an_array_with_its_length_is_deleted_as_one) { delete static_cast<with_destructor *>(hide(new with_destructor[5])); }
CASE(a_long_array_is_deleted_as_one) { delete static_cast<without_destructor *>(hide(new without_destructor[500])); }

// Nothing tells these apart.
CASE(arrays_and_single_objects_that_look_alike) {
    free(hide(new without_destructor[500]));
    delete static_cast<without_destructor *>(hide(new without_destructor[5]));
    delete[] static_cast<without_destructor *>(hide(new without_destructor));
    delete[] static_cast<without_destructor *>(hide(malloc(500 * sizeof(without_destructor))));
}
