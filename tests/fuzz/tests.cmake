foreach(target packet requester responder)
  roce_test(fuzz_${target} 90 fuzz ${ROCE_SRC_DIR}/tests/fuzz/run.sh ${target} 30)
  roce_test(fuzz_${target}_long 420 "fuzz;long" ${ROCE_SRC_DIR}/tests/fuzz/run.sh ${target} 300)
endforeach()
