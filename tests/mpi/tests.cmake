function(roce_mpi_test name timeout_seconds labels)
  roce_test(${name} ${timeout_seconds} "${labels}" ${ARGN})
  # Busy-polling ranks need the cores to themselves.
  set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
endfunction()

roce_test(capture_checker 60 mpi ${ROCE_SRC_DIR}/tests/mpi/check_capture.py --self-test)
roce_mpi_test(bench_udp 120 mpi ${ROCE_SRC_DIR}/tests/mpi/bench.sh)
if(ROCE_HAVE_OMPI)
  set(dir ${ROCE_SRC_DIR}/tests/mpi)
  roce_mpi_test(mpi_examples_detect 120 mpi ${dir}/examples_detect.sh)
  roce_mpi_test(mpi_examples_loopback 240 mpi ${dir}/examples_loopback.sh)
  roce_mpi_test(mpi_examples_hosts 240 "mpi;netns" ${dir}/examples_hosts.sh)
  roce_mpi_test(mpi_protocols 240 mpi ${dir}/protocols.sh)
  roce_mpi_test(mpi_netpipe 240 mpi ${dir}/netpipe.sh)
  roce_mpi_test(mpi_silent 120 mpi ${dir}/silent.sh)
  # Long while a handshake packet does not fit an interface MTU of 576.
  roce_mpi_test(mpi_bad_input 300 "mpi;netns;long" ${dir}/bad_input.sh)
  roce_mpi_test(mpi_capture 180 "mpi;netns" ${dir}/capture.sh)

  roce_mpi_test(mpi_examples_loopback_long 600 "mpi;long" ${dir}/examples_loopback.sh --long)
  roce_mpi_test(mpi_protocols_long 1200 "mpi;long" ${dir}/protocols.sh --long)
  roce_mpi_test(mpi_netpipe_long 900 "mpi;long" ${dir}/netpipe.sh --long)
  # With OSU_SRC=DIR in the environment, else skipped.
  roce_mpi_test(mpi_osu_long 3600 "mpi;long" ${dir}/osu.sh)
endif()
