/* masu under the path from which programs include jemalloc. */
#include "../../jemalloc.h"
