//! Names the package that carries the source; holds no code.
