//! Names the packages whose sources the peers are built from; holds no code.
