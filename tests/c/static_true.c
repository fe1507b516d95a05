// Does nothing, successfully. Linked statically, it can have nothing preloaded.
int main(void) { return 0; }
