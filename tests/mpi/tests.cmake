# if(ROCE_HAVE_OMPI)
#   roce_test(mpi_sizes 60 mpi ${ROCE_SRC_DIR}/tests/mpi/run_sizes.sh)
# endif()
