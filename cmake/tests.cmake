# Defines the tests. Every *_test.c in src, cli and tests is a program, and so is every tests/*_test.cpp if there is a C++
# compiler. tests/*_test.sh and, with python3, tests/*_test.py are scripts with two arguments: the source folder and the
# build folder. A test starts its own ranks.
#
# Labels: fast (run by plain `make`) and slow (run only by `make check`). A line `/* test: slow timeout=SECONDS */` (or
# `# test: ...`) near the top of a file sets the label and the time that the test may need on two quiet cores. The time limit
# is four times as long, for slow machines, and longer with TEST_LONG. The word `waits` there is for a test that waits for most
# of its time: tools/run-tests runs two such tests instead of one.
function(describe_test name file)
  file(STRINGS ${file} directive REGEX "^(/\\*|#) test: " LIMIT_COUNT 1)
  set(label fast)
  if(directive MATCHES "slow")
    set(label slow)
  endif()
  set(timeout 180)
  if(directive MATCHES "timeout=([0-9]+)")
    set(timeout ${CMAKE_MATCH_1})
  endif()
  # Among tests without known times, those of higher cost begin first, so that no long test runs alone at the end.
  set(cost 0)
  if(timeout GREATER 180 OR label STREQUAL slow)
    set(cost ${timeout})
  endif()
  math(EXPR timeout "${timeout} * 4")
  if(DEFINED ENV{TEST_LONG})
    math(EXPR timeout "${timeout} * 8")
  endif()
  set(share 2)
  if(directive MATCHES " waits ")
    set(share 1)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT ${timeout} SKIP_RETURN_CODE 77
    PROCESSORS ${share} COST ${cost})
  # With sanitizers, slow tests are built by default only with TEST_LONG; otherwise build one by its name.
  if(TARGET ${name} AND label STREQUAL slow AND TUTTI_SANITIZE AND NOT DEFINED ENV{TEST_LONG})
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)
  endif()
endfunction()

file(GLOB_RECURSE tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/*_test.c ${CMAKE_SOURCE_DIR}/pto/*_test.c
  ${CMAKE_SOURCE_DIR}/cli/*_test.c ${CMAKE_SOURCE_DIR}/tests/*_test.c)
include(CheckLanguage)
# The C++ tests take long to compile and test little code besides templates. With sanitizers, they are built only with
# TEST_LONG.
if(NOT TUTTI_SANITIZE OR DEFINED ENV{TEST_LONG})
  check_language(CXX)
endif()
if(CMAKE_CXX_COMPILER)
  enable_language(CXX)
  set(CMAKE_CXX_STANDARD 17)
  set(CMAKE_CXX_STANDARD_REQUIRED ON)
  set(CMAKE_CXX_EXTENSIONS OFF)
  # Their code is mostly templates, and computes little. Warnings that need optimization come with TEST_LONG.
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O0 -g1")
  if(DEFINED ENV{TEST_LONG})
    set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
  endif()
  file(GLOB cpp_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/*_test.cpp)
  set_source_files_properties(${cpp_tests} PROPERTIES INCLUDE_DIRECTORIES ${CMAKE_SOURCE_DIR}/include/tutti)
  list(APPEND tests ${cpp_tests})
endif()
foreach(file ${tests})
  get_filename_component(name ${file} NAME_WE)
  add_executable(${name} ${file})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE $<TARGET_NAME_IF_EXISTS:tutti_assembler> tutti_static tutti_flags)
  target_compile_definitions(${name} PRIVATE BUILD_DIR="${CMAKE_BINARY_DIR}" SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_dependencies(${name} tutti_cli)
  add_test(NAME ${name} COMMAND ${name})
  describe_test(${name} ${file})
endforeach()

# The tests of files of the command, which is no library.
target_sources(tune_choose_test PRIVATE ${CMAKE_SOURCE_DIR}/cli/json.c ${CMAKE_SOURCE_DIR}/cli/units.c)
target_sources(units_test PRIVATE ${CMAKE_SOURCE_DIR}/cli/units.c)
target_sources(progress_lines_test PRIVATE ${CMAKE_SOURCE_DIR}/cli/progress.c)
target_sources(bench_sweep_test PRIVATE ${CMAKE_SOURCE_DIR}/cli/progress.c)

# Programs for tests: a switch between hosts that are namespaces, and what puts a rank on its host; a rank that calls until
# a call fails; ranks that are recorded, or get into trouble.
foreach(name tap place until_error traced troubled)
  add_executable(${name} ${CMAKE_SOURCE_DIR}/tests/${name}.c)
  target_link_libraries(${name} PRIVATE tutti_static tutti_flags)
  target_compile_definitions(${name} PRIVATE BUILD_DIR="${CMAKE_BINARY_DIR}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endforeach()

# The linker replaces the allocation functions of this test, so that it can make allocations fail.
target_link_options(refusal_test PRIVATE -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc)

# A library of the name libpmix.so.2, whose functions fail or hang.
add_library(fake_pmix SHARED ${CMAKE_SOURCE_DIR}/tests/fake_pmix.c)
set_target_properties(fake_pmix PROPERTIES OUTPUT_NAME pmix SOVERSION 2
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fake_pmix)
target_link_libraries(fake_pmix PRIVATE tutti_flags)
add_dependencies(pmix_test fake_pmix)

# A provider of libfabric in one process (tests/fake_fabric.h), and the tests that use it.
add_library(fake_fabric STATIC ${CMAKE_SOURCE_DIR}/tests/fake_fabric.c)
target_include_directories(fake_fabric PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(fake_fabric PRIVATE tutti_flags PUBLIC tutti_static)
foreach(name fake_fabric_test wire_test)
  target_link_libraries(${name} PRIVATE fake_fabric)
endforeach()

# The simulated world: a copy of the library for each rank. In a copy, atomic operations are switch points (points.h), and
# calls of the system lead to the world.
if(TUTTI_SANITIZE)
  set_tests_properties(sim_world_test PROPERTIES DISABLED TRUE)
  set_target_properties(sim_world_test PROPERTIES EXCLUDE_FROM_ALL TRUE)
else()
  set(world ${CMAKE_SOURCE_DIR}/tests/world)
  set(copied ${sources})
  list(FILTER copied EXCLUDE REGEX "/src/(draw|sim)/")
  add_library(world_copy MODULE ${copied} ${CMAKE_BINARY_DIR}/algo_table.c ${world}/copy.c ${world}/calls.c ${world}/onesided.c)
  target_include_directories(world_copy PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(world_copy PRIVATE -include ${world}/points.h -Wno-attributes)
  # Rings between hosts that programs of the world can fill, and messages that are long enough to be lent.
  target_compile_definitions(world_copy PRIVATE TU_OFI_SLOTS=4 TU_OFI_SLOT_BYTES=1024 TU_LENT_BYTES_MIN=64
    "TU_DIRECT_BYTES=world_direct_bytes()" "TU_READ_BYTES=(world_direct_bytes()/8)" TU_READ_SHARE=2
    TU_ONE_WAY_BYTES=TU_LINE_BYTES "TU_STAGING_PART=(2*TU_LINE_BYTES)" TU_POPULATED_RANKS=2)
  target_link_libraries(world_copy PRIVATE tutti_flags m EXPAT::EXPAT PkgConfig::HWLOC PkgConfig::YAML PkgConfig::SODIUM)
  # clang-tidy must read the commands of the library itself, which has the same files.
  set_target_properties(world_copy PROPERTIES EXPORT_COMPILE_COMMANDS OFF
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  foreach(call clock_gettime getrusage nanosleep sched_yield sched_getcpu sched_getaffinity sched_setaffinity sysconf syscall process_vm_readv prctl malloc calloc realloc free aligned_alloc abort __register_atfork
          epoll_create1 epoll_ctl epoll_wait poll close ioctl socket bind getsockname getsockopt setsockopt shutdown sendto sendmsg recv timerfd_create timerfd_settime getrandom tu_transport_release tu_transport_acquire)
    target_link_options(world_copy PRIVATE -Wl,--wrap=${call})
  endforeach()
  target_link_options(world_copy PRIVATE -Wl,-Bsymbolic -Wl,--gc-sections -Wl,-z,norelro)
  target_sources(sim_world_test PRIVATE ${world}/world.c ${world}/network.c ${world}/fabric.c ${world}/program.c ${world}/shrink.c ${world}/trace.c)
  target_link_libraries(sim_world_test PRIVATE fake_fabric ${CMAKE_DL_LIBS})
  # The copies find the world's functions in the program.
  set_target_properties(sim_world_test PROPERTIES ENABLE_EXPORTS TRUE)
  set_source_files_properties(${world}/world.c ${world}/network.c ${world}/fabric.c ${world}/program.c ${world}/shrink.c ${world}/trace.c ${CMAKE_SOURCE_DIR}/tests/sim_world_test.c PROPERTIES COMPILE_OPTIONS -fvisibility=default)
  add_dependencies(sim_world_test world_copy)
endif()

# Converts the rows of pto_cases.csv to C++: of the file in tests/data, and of the file in ../shared/seeds if that
# exists.
if(CMAKE_CXX_COMPILER)
  set(program ${CMAKE_SOURCE_DIR}/tests/pto_cases.awk)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/generated)
  foreach(folder data ../../shared/seeds)
    set(csv ${CMAKE_SOURCE_DIR}/tests/${folder}/pto_cases.csv)
    set(rows ${CMAKE_BINARY_DIR}/generated/pto_cases.inc)
    if(folder STREQUAL data)
      set(rows ${CMAKE_BINARY_DIR}/generated/pto_own_cases.inc)
    endif()
    if(EXISTS ${csv})
      add_custom_command(OUTPUT ${rows} COMMAND awk -f ${program} ${csv} > ${rows} DEPENDS ${program} ${csv} VERBATIM)
    else()
      file(WRITE ${rows} "")
    endif()
    target_sources(pto_cases_test PRIVATE ${rows})
  endforeach()
  target_include_directories(pto_cases_test PRIVATE ${CMAKE_BINARY_DIR}/generated)
endif()

file(GLOB scripts CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/*_test.sh)
foreach(file ${scripts})
  get_filename_component(name ${file} NAME_WE)
  add_test(NAME ${name} COMMAND bash ${file} ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
  describe_test(${name} ${file})
endforeach()

find_program(TUTTI_PYTHON python3)
if(TUTTI_PYTHON)
  file(GLOB scripts CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/*_test.py)
  foreach(file ${scripts})
    get_filename_component(name ${file} NAME_WE)
    add_test(NAME ${name} COMMAND ${TUTTI_PYTHON} ${file} ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
    describe_test(${name} ${file})
  endforeach()
endif()
