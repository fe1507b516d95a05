"""conan create packaging/conan: the library as a package, built from the sources that this file lies in."""

import os

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import cross_building
from conan.tools.files import copy, rm, rmdir

required_conan_version = ">=2.0"


class Masu(ConanFile):
    name = "masu"
    version = "0.1.0"
    description = "A memory allocator for Linux that gives memory back"
    license = "MIT OR Apache-2.0"
    topics = ("allocator", "malloc", "memory")
    package_type = "library"
    settings = "os", "arch"
    options = {"shared": [True, False]}
    default_options = {"shared": True}

    def validate(self):
        if self.settings.os != "Linux" or str(self.settings.arch) not in ("x86_64", "armv8", "riscv64"):
            raise ConanInvalidConfiguration("masu runs on Linux, on x86-64, AArch64 and RISC-V with 64 bits")

    def validate_build(self):
        if cross_building(self):
            raise ConanInvalidConfiguration("build masu on the kind of machine that it is for")

    def export_sources(self):
        root = os.path.join(self.recipe_folder, "..", "..")
        for pattern in ("Cargo.*", "LICENSE-*", "crates/*", "tests/*", "tools/*"):
            copy(self, pattern, root, self.export_sources_folder, excludes=("*/target/*",))

    def build(self):
        self.run("cargo build --release --locked --package libmasu --target-dir '%s/target'" % self.build_folder,
                 cwd=self.source_folder)

    def package(self):
        self.run("crates/libmasu/install --prefix '%s' --from '%s/target/release'"
                 % (self.package_folder, self.build_folder), cwd=self.source_folder)
        # One of the two, so that `masu` is that one to every linker and generator.
        rm(self, "libmasu.a" if self.options.shared else "libmasu.so*", os.path.join(self.package_folder, "lib"))
        # Conan writes its own for the consumer, whose targets would be these.
        rmdir(self, os.path.join(self.package_folder, "lib", "cmake"))
        rmdir(self, os.path.join(self.package_folder, "lib", "pkgconfig"))
        copy(self, "LICENSE-*", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "masu")
        self.cpp_info.set_property("pkg_config_name", "masu")
        self.cpp_info.libs = ["masu"]
        if self.options.shared:
            self.cpp_info.set_property("cmake_target_name", "masu::masu")
        else:
            self.cpp_info.set_property("cmake_target_name", "masu::masu_static")
            # An archive gives its members to references that come before it: malloc is asked for first.
            self.cpp_info.exelinkflags = ["-Wl,-u,malloc"]
            self.cpp_info.system_libs = ["pthread"]
