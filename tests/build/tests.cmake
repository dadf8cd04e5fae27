roce_test(build_missing 120 build ${ROCE_SRC_DIR}/tests/build/missing_test.sh)
roce_test(build_scripts 60 build ${ROCE_SRC_DIR}/tests/build/scripts_test.sh)
roce_test(build_without_ompi 900 "build;long" ${ROCE_SRC_DIR}/tests/build/without_ompi_test.sh)
roce_test(build_dist 900 "build;long" ${ROCE_SRC_DIR}/tests/build/dist_test.sh)
