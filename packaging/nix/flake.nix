# nix build ./packaging/nix        (from a checkout)
# nix run ./packaging/nix -- run -- ruby app.rb
{
  description = "masu, a memory allocator that gives memory back";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      systems = [
        "x86_64-linux"
        "aarch64-linux"
      ];
      each = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
    in
    {
      packages = each (pkgs: {
        default = pkgs.callPackage ./package.nix { };
      });

      # environment.memoryAllocator knows a fixed list; this preloads masu into single services:
      #   services.masu.units = [ "redis" "postgresql" ];
      nixosModules.default =
        {
          config,
          lib,
          pkgs,
          ...
        }:
        let
          masu = self.packages.${pkgs.stdenv.hostPlatform.system}.default;
        in
        {
          options.services.masu.units = lib.mkOption {
            type = lib.types.listOf lib.types.str;
            default = [ ];
            description = "The systemd services that run on masu.";
          };
          config = {
            environment.systemPackages = [ masu ];
            systemd.services = lib.genAttrs config.services.masu.units (_: {
              environment.LD_PRELOAD = "${masu}/lib/libmasu.so.0";
            });
          };
        };
    };
}
