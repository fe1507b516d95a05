# What packaging/nix uses of nixpkgs, so that Nix can evaluate the flake without the network.
{
  outputs =
    { self }:
    let
      lib = {
        genAttrs =
          names: make:
          builtins.listToAttrs (
            map (name: {
              inherit name;
              value = make name;
            }) names
          );
        cleanSource = source: source;
        licenses = {
          mit = "MIT";
          asl20 = "Apache-2.0";
        };
        types = {
          str = "str";
          listOf = each: "list of ${each}";
        };
        mkOption = option: option;
      };
      systems = [
        "x86_64-linux"
        "aarch64-linux"
      ];
    in
    {
      inherit lib;
      legacyPackages = lib.genAttrs systems (system: {
        callPackage = file: more: import file (more // {
          inherit lib;
          gnumake = "/bin";
          # A derivation with the recipe's phases; nothing builds it.
          rustPlatform.buildRustPackage =
            recipe:
            derivation {
              inherit system;
              inherit (recipe) buildPhase installPhase checkPhase;
              name = "${recipe.pname}-${recipe.version}";
              builder = "/bin/sh";
              lock = builtins.readFile recipe.cargoLock.lockFile;
              makefile = builtins.readFile (recipe.src + "/Makefile");
            }
            // {
              # As a whole, or an unknown licence would not show.
              meta = builtins.deepSeq recipe.meta recipe.meta;
            };
        });
      });
    };
}
