// Does nothing, successfully. Statically linked, so nothing can be preloaded.
int main(void) { return 0; }
