# The CUDA executor: memwall_exec_cuda.so beside the binary, where there is a toolkit. Included by the top CMakeLists.txt.
#
#   MEMWALL_CUDA          OFF leaves it out; AUTO (default) builds what it finds; ON fails when it finds no toolkit
#   CMAKE_CUDA_COMPILER   nvcc; else looked for on the PATH and in the usual folders
#
# The toolkit brings runtime and cuBLAS; NCCL and MPI are optional. What was found stands in MEMWALL_CUDA_SUMMARY and in generated/executors_built.h
# (`memwall --version` prints it). The .cu is compiled by a plain call of nvcc: one file needs no CUDA language in CMake.
# Sets MEMWALL_CUDA_INCLUDE (for the tests' emulation) when there is a toolkit.
set(MEMWALL_CUDA AUTO CACHE STRING "Build the CUDA executor: AUTO, ON or OFF")
set(MEMWALL_CUDA_SUMMARY "no CUDA toolkit at build")
set(MEMWALL_CUDA_SOURCES ${PROJECT_SOURCE_DIR}/validate/exec_cuda)

function(memwall_find_cuda)
  if(CMAKE_CUDA_COMPILER)
    set(MEMWALL_NVCC ${CMAKE_CUDA_COMPILER} CACHE FILEPATH "nvcc" FORCE)
  endif()
  find_program(MEMWALL_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
  if(NOT MEMWALL_NVCC)
    return()
  endif()
  get_filename_component(real ${MEMWALL_NVCC} REALPATH)
  get_filename_component(root ${real} DIRECTORY)
  get_filename_component(root ${root} DIRECTORY)
  set(folders ${root} ${root}/targets/x86_64-linux ${root}/targets/sbsa-linux /usr/local/cuda)
  find_path(MEMWALL_CUDA_INCLUDE cublas_v2.h HINTS ${folders} PATH_SUFFIXES include)
  find_library(MEMWALL_CUDART cudart HINTS ${folders} PATH_SUFFIXES lib64 lib)
  find_library(MEMWALL_CUBLAS cublas HINTS ${folders} PATH_SUFFIXES lib64 lib)
  find_path(MEMWALL_NCCL_INCLUDE nccl.h HINTS ${folders} PATH_SUFFIXES include)
  find_library(MEMWALL_NCCL nccl HINTS ${folders} PATH_SUFFIXES lib64 lib)
endfunction()

# What stops a build with this toolkit, or "".
function(memwall_cuda_obstacle result)
  set(${result} "" PARENT_SCOPE)
  if(MEMWALL_CUDA STREQUAL "OFF")
    set(${result} "CUDA executor switched off at build" PARENT_SCOPE)
  elseif(NOT MEMWALL_NVCC)
    set(${result} "no CUDA toolkit at build" PARENT_SCOPE)
  elseif(NOT MEMWALL_CUDA_INCLUDE OR NOT MEMWALL_CUDART OR NOT MEMWALL_CUBLAS)
    set(${result} "CUDA toolkit at build lacks cuBLAS" PARENT_SCOPE)
  else()
    find_program(MEMWALL_CUDA_HOST_COMPILER NAMES g++ clang++ c++)
    if(NOT MEMWALL_CUDA_HOST_COMPILER)
      set(${result} "nvcc found at build, but no C++ compiler for it" PARENT_SCOPE)
    endif()
  endif()
endfunction()

# Machine code for the GPUs that this nvcc knows, of sm_70 to sm_120, and PTX of the newest for what comes.
function(memwall_cuda_architectures flags summary)
  execute_process(COMMAND ${MEMWALL_NVCC} --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
  set(list)
  set(all)
  foreach(architecture 70 75 80 86 89 90 100 120)
    if(known MATCHES "compute_${architecture}\n")
      list(APPEND list -gencode arch=compute_${architecture},code=sm_${architecture})
      list(APPEND all ${architecture})
    endif()
  endforeach()
  list(GET all 0 first)
  list(GET all -1 last)
  list(APPEND list -gencode arch=compute_${last},code=compute_${last})
  set(${flags} ${list} PARENT_SCOPE)
  set(${summary} "sm_${first}-sm_${last}" PARENT_SCOPE)
endfunction()

function(memwall_cuda_kernels object)
  memwall_cuda_architectures(flags architectures)
  set(host_flags -fPIC,-Wall,-Wextra,-fno-exceptions,-fno-rtti)
  set(errors)
  if(MEMWALL_WERROR)
    string(APPEND host_flags ",-Werror")
    set(errors -Werror all-warnings)
  endif()
  set(output ${PROJECT_BINARY_DIR}/gpu_kernels.o)
  add_custom_command(OUTPUT ${output}
    COMMAND ${MEMWALL_NVCC} -ccbin ${MEMWALL_CUDA_HOST_COMPILER} -O3 -std=c++17 --threads 2 -I${PROJECT_SOURCE_DIR} -Xcompiler=${host_flags}
      ${errors} ${flags} -c ${MEMWALL_CUDA_SOURCES}/gpu_kernels.cu -o ${output}
    DEPENDS ${MEMWALL_CUDA_SOURCES}/gpu_kernels.cu ${MEMWALL_CUDA_SOURCES}/gpu_kernels.h ${MEMWALL_CUDA_SOURCES}/gpu_pattern.h
      ${PROJECT_SOURCE_DIR}/sim/ir/kernel.h
    COMMENT "Compiling gpu_kernels.cu (${architectures})" VERBATIM)
  set(${object} ${output} PARENT_SCOPE)
endfunction()

memwall_find_cuda()
memwall_cuda_obstacle(MEMWALL_CUDA_OBSTACLE)
if(MEMWALL_CUDA_OBSTACLE)
  set(MEMWALL_CUDA_SUMMARY "${MEMWALL_CUDA_OBSTACLE}")
  if(MEMWALL_CUDA STREQUAL "ON")
    message(FATAL_ERROR "MEMWALL_CUDA is ON: ${MEMWALL_CUDA_OBSTACLE}")
  endif()
else()
  file(GLOB EXEC_CUDA_SOURCES CONFIGURE_DEPENDS ${MEMWALL_CUDA_SOURCES}/*.c)
  list(REMOVE_ITEM EXEC_CUDA_SOURCES ${MEMWALL_CUDA_SOURCES}/world_single.c ${MEMWALL_CUDA_SOURCES}/world_mpi.c)
  # The host's part of the work is the host executor's.
  foreach(shared host_cores host_optimizer host_meeting host_floats)
    list(APPEND EXEC_CUDA_SOURCES ${PROJECT_SOURCE_DIR}/validate/exec_host/${shared}.c)
  endforeach()
  # As the host executor is compiled: the optimizer's square roots become vector code.
  set_source_files_properties(${PROJECT_SOURCE_DIR}/validate/exec_host/host_optimizer.c PROPERTIES
    COMPILE_OPTIONS "-fno-math-errno;-fno-trapping-math")
  add_library(exec_cuda OBJECT ${EXEC_CUDA_SOURCES})
  set_target_properties(exec_cuda PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(exec_cuda SYSTEM PUBLIC ${MEMWALL_CUDA_INCLUDE})
  target_link_libraries(exec_cuda PUBLIC libmemwall Threads::Threads)

  execute_process(COMMAND ${MEMWALL_NVCC} --version OUTPUT_VARIABLE text)
  string(REGEX MATCH "release ([0-9.]+)" text "${text}")
  memwall_cuda_architectures(flags architectures)
  set(MEMWALL_CUDA_SUMMARY "CUDA ${CMAKE_MATCH_1} (${architectures})")

  if(MEMWALL_NCCL AND MEMWALL_NCCL_INCLUDE)
    target_compile_definitions(exec_cuda PUBLIC MEMWALL_HAVE_NCCL)
    target_include_directories(exec_cuda SYSTEM PUBLIC ${MEMWALL_NCCL_INCLUDE})
    file(STRINGS ${MEMWALL_NCCL_INCLUDE}/nccl.h lines REGEX "define NCCL_(MAJOR|MINOR|PATCH) ")
    string(REGEX REPLACE "[^0-9;]" "" lines "${lines}")
    string(REPLACE ";" "." lines "${lines}")
    string(APPEND MEMWALL_CUDA_SUMMARY ", NCCL ${lines}")
  else()
    string(APPEND MEMWALL_CUDA_SUMMARY ", no NCCL")
  endif()

  memwall_cuda_kernels(kernels)
  memwall_executor(exec_cuda)
  target_sources(memwall_exec_cuda PRIVATE ${kernels})
  target_link_libraries(memwall_exec_cuda PRIVATE ${MEMWALL_CUDART} ${MEMWALL_CUBLAS})
  if(MEMWALL_NCCL AND MEMWALL_NCCL_INCLUDE)
    target_link_libraries(memwall_exec_cuda PRIVATE ${MEMWALL_NCCL})
  endif()

  pkg_search_module(MPI_C QUIET IMPORTED_TARGET mpi-c ompi-c mpich)
  if(MPI_C_FOUND)
    add_library(exec_cuda_world OBJECT ${MEMWALL_CUDA_SOURCES}/world_mpi.c)
    target_include_directories(exec_cuda_world SYSTEM PRIVATE ${MPI_C_INCLUDE_DIRS})
    target_link_libraries(memwall_exec_cuda PRIVATE PkgConfig::MPI_C)
    string(APPEND MEMWALL_CUDA_SUMMARY ", MPI ${MPI_C_VERSION}")
  else()
    add_library(exec_cuda_world OBJECT ${MEMWALL_CUDA_SOURCES}/world_single.c)
    string(APPEND MEMWALL_CUDA_SUMMARY ", no MPI")
  endif()
  set_target_properties(exec_cuda_world PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(exec_cuda_world PRIVATE memwall_flags)
  target_sources(memwall_exec_cuda PRIVATE $<TARGET_OBJECTS:exec_cuda_world>)
  set_target_properties(memwall_exec_cuda PROPERTIES LINKER_LANGUAGE C)
  target_link_libraries(memwall_exec_cuda PRIVATE stdc++) # guards of statics in what nvcc generates
  target_link_options(memwall_exec_cuda PRIVATE -Wl,--no-undefined)
endif()

file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/executors_built.h CONTENT
  "/* What this build was made with; from validate/exec_cuda/cuda.cmake. */\n#define MEMWALL_EXECUTORS_BUILT \"${MEMWALL_CUDA_SUMMARY}\"\n" @ONLY)
message(STATUS "CUDA executor: ${MEMWALL_CUDA_SUMMARY}")
