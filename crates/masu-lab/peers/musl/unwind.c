/* Stands in for an unwinder in a static program that aborts when it panics: the standard library
 * refers to these functions, backtraces come out empty, and nothing is ever unwound. The C
 * compiler's own unwinder cannot be had here, since it needs a function that only glibc has. */
#include <stdlib.h>

enum { END_OF_STACK = 5 };

int _Unwind_Backtrace(void *visit, void *argument)
{
    (void)visit;
    (void)argument;
    return END_OF_STACK;
}

unsigned long _Unwind_GetIP(void *context)
{
    (void)context;
    return 0;
}

unsigned long _Unwind_GetIPInfo(void *context, int *before)
{
    (void)context;
    *before = 0;
    return 0;
}

unsigned long _Unwind_GetCFA(void *context)
{
    (void)context;
    return 0;
}

void *_Unwind_FindEnclosingFunction(void *address)
{
    (void)address;
    return NULL;
}

int _Unwind_RaiseException(void *exception)
{
    (void)exception;
    abort();
}

void _Unwind_Resume(void *exception)
{
    (void)exception;
    abort();
}

void _Unwind_DeleteException(void *exception)
{
    (void)exception;
}

unsigned long _Unwind_GetLanguageSpecificData(void *context)
{
    (void)context;
    return 0;
}

unsigned long _Unwind_GetRegionStart(void *context)
{
    (void)context;
    return 0;
}

unsigned long _Unwind_GetTextRelBase(void *context)
{
    (void)context;
    return 0;
}

unsigned long _Unwind_GetDataRelBase(void *context)
{
    (void)context;
    return 0;
}

void _Unwind_SetGR(void *context, int number, unsigned long value)
{
    (void)context;
    (void)number;
    (void)value;
}

void _Unwind_SetIP(void *context, unsigned long value)
{
    (void)context;
    (void)value;
}
