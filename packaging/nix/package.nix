{
  lib,
  rustPlatform,
  gnumake,
}:
rustPlatform.buildRustPackage {
  pname = "masu";
  version = "0.1.0";
  src = lib.cleanSource ../..;
  cargoLock.lockFile = ../../Cargo.lock;

  nativeBuildInputs = [ gnumake ];
  buildPhase = "make all CARGO='cargo --frozen'";
  installPhase = "patchShebangs crates/libmasu && make install PREFIX=$out";
  # The whole suite needs a machine of its own; see CONTRIBUTING.md.
  checkPhase = "target/release/masu run --lib target/release/libmasu.so -- true";

  meta = {
    description = "Memory allocator that gives memory back";
    license = with lib.licenses; [
      mit
      asl20
    ];
    platforms = [
      "x86_64-linux"
      "aarch64-linux"
    ];
    mainProgram = "masu";
  };
}
