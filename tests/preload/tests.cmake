set(dir ${ROCE_SRC_DIR}/tests/preload)
roce_test(preload_exports 20 preload ${dir}/exports.sh)
roce_test(preload_devices 20 preload ${dir}/devices.sh)
roce_test(preload_pingpong 60 preload ${dir}/pingpong.sh)
