# What packaging/vcpkg uses of vcpkg, so that CMake alone can run the port: cmake -P, with the variables that vcpkg sets.
function(vcpkg_execute_required_process)
  cmake_parse_arguments(PARSE_ARGV 0 process "" "WORKING_DIRECTORY;LOGNAME" "COMMAND")
  execute_process(COMMAND ${process_COMMAND} WORKING_DIRECTORY "${process_WORKING_DIRECTORY}" RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${process_COMMAND}: ${result}")
  endif()
endfunction()

function(vcpkg_replace_string file old new)
  file(READ "${file}" before)
  string(REPLACE "${old}" "${new}" after "${before}")
  if(after STREQUAL before)
    message(FATAL_ERROR "${file} has no ${old}")
  endif()
  file(WRITE "${file}" "${after}")
endfunction()

# The file's own prefix is the one that it is used in here.
function(vcpkg_fixup_pkgconfig)
endfunction()

function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 copyright "" "" "FILE_LIST")
  file(COPY ${copyright_FILE_LIST} DESTINATION "${CURRENT_PACKAGES_DIR}/share/masu")
endfunction()

include("${CURRENT_PORT_DIR}/portfile.cmake")
