# An overlay port: vcpkg install masu --overlay-ports=packaging/vcpkg
#
# It builds the sources that it lies in; cargo has to be there.
set(VCPKG_BUILD_TYPE release)
find_program(CARGO cargo REQUIRED)
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../.." ABSOLUTE)

vcpkg_execute_required_process(
  COMMAND "${CARGO}" build --release --locked --package libmasu --target-dir "${CURRENT_BUILDTREES_DIR}/target"
  WORKING_DIRECTORY "${SOURCE_PATH}"
  LOGNAME build-${TARGET_TRIPLET})
vcpkg_execute_required_process(
  COMMAND "${SOURCE_PATH}/crates/libmasu/install" --prefix "${CURRENT_PACKAGES_DIR}"
          --from "${CURRENT_BUILDTREES_DIR}/target/release"
  WORKING_DIRECTORY "${SOURCE_PATH}"
  LOGNAME install-${TARGET_TRIPLET})
# One of the two, as the triplet says.
if(VCPKG_LIBRARY_LINKAGE STREQUAL "static")
  file(REMOVE "${CURRENT_PACKAGES_DIR}/lib/libmasu.so" "${CURRENT_PACKAGES_DIR}/lib/libmasu.so.0")
endif()
vcpkg_fixup_pkgconfig()
file(MAKE_DIRECTORY "${CURRENT_PACKAGES_DIR}/share/masu")
file(RENAME "${CURRENT_PACKAGES_DIR}/lib/cmake/masu/masu-config.cmake"
            "${CURRENT_PACKAGES_DIR}/share/masu/masu-config.cmake")
file(RENAME "${CURRENT_PACKAGES_DIR}/lib/cmake/masu/masu-config-version.cmake"
            "${CURRENT_PACKAGES_DIR}/share/masu/masu-config-version.cmake")
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/lib/cmake")
# From share/masu it is one step less up to the prefix.
vcpkg_replace_string("${CURRENT_PACKAGES_DIR}/share/masu/masu-config.cmake" "/../../..\"" "/../..\"")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE-MIT" "${SOURCE_PATH}/LICENSE-APACHE")
