/* masu under the path by which programs include jemalloc. */
#include "../../jemalloc.h"
