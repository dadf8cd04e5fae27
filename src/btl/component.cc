// What the MCA calls on the component itself.
#include <algorithm>
#include <cstdio>
#include <exception>

#include "btl/messages.h"
#include "btl/module.h"
#include "btl/settings.h"
#include "btl/version.h"

namespace roce::btl {
namespace {

/// Messages of 32 KiB with ob1's header. A rendezvous costs three crossings of the network more.
constexpr size_t kEagerBytes = 32 * 1024 + 256;
/// Data in the first fragment of a rendezvous, and the least that a small receive memory leaves of
/// the eager limit.
constexpr size_t kSmallEagerBytes = 12 * 1024;
constexpr size_t kMaxSendBytes = 64 * 1024;
constexpr size_t kPipelineBytes = 1024 * 1024;
/// Above openib and usnic (1024), so that a NIC is not shared with them; below vader and self.
constexpr uint32_t kExclusivity = 1040;
/// The same in every process and for every device: ob1 sends eager data only by modules of the
/// least latency.
constexpr uint32_t kLatencyMicroseconds = 5;

/// Values of the generic MCA variables; the module is a copy of it.
mca_btl_base_module_t module_template;
Module* the_module = nullptr;

mca_btl_base_module_t default_values() {
  mca_btl_base_module_t values = {};
  values.btl_component = &component();
  values.btl_eager_limit = kEagerBytes;
  values.btl_rndv_eager_limit = kSmallEagerBytes;
  values.btl_max_send_size = kMaxSendBytes;
  values.btl_rdma_pipeline_send_length = kPipelineBytes;
  values.btl_rdma_pipeline_frag_size = kPipelineBytes;
  // Every contiguous rendezvous then arrives as a get, which the receiver's scheduler can time,
  // whatever opal_leave_pinned says.
  values.btl_min_rdma_pipeline_size = SIZE_MAX;
  values.btl_exclusivity = kExclusivity;
  values.btl_latency = kLatencyMicroseconds;
  values.btl_bandwidth = 0;  // from the device
  values.btl_flags =
      MCA_BTL_FLAGS_SEND | MCA_BTL_FLAGS_PUT | MCA_BTL_FLAGS_GET | kAtomicFlags | kExtraFlags;
  values.btl_atomic_flags = MCA_BTL_ATOMIC_SUPPORTS_ADD | MCA_BTL_ATOMIC_SUPPORTS_CSWAP;
  values.btl_registration_handle_size = sizeof(transport::MemoryHandle);
  values.btl_get_limit = size_t{1} << 30;
  values.btl_put_limit = size_t{1} << 30;
  values.btl_add_procs = add_procs;
  values.btl_del_procs = del_procs;
  values.btl_finalize = finalize;
  values.btl_alloc = alloc;
  values.btl_free = free_descriptor;
  values.btl_prepare_src = prepare_src;
  values.btl_send = send;
  values.btl_sendi = sendi;
  values.btl_put = put;
  values.btl_get = get;
  values.btl_atomic_fop = atomic_fop;
  values.btl_atomic_cswap = atomic_cswap;
  values.btl_register_mem = register_mem;
  values.btl_deregister_mem = deregister_mem;
  values.btl_register_error = register_error;
  values.btl_dump = dump;
  return values;
}

/// Eager limits that the user left at their defaults follow a lower max_send_size.
void fit_eager_limits(mca_btl_base_module_t& values) {
  const auto fit = [&](const char* name, size_t& limit) {
    if (!set_by_user(name)) limit = std::min(limit, values.btl_max_send_size);
  };
  fit("eager_limit", values.btl_eager_limit);
  fit("rndv_eager_limit", values.btl_rndv_eager_limit);
}

/// Lowers limits to what the transport can and fills in what only it knows.
void apply_limits(Module& module) {
  const transport::Limits& limits = module.transport->limits();
  if (module.btl_get_limit > limits.max_get_bytes) module.btl_get_limit = limits.max_get_bytes;
  if (module.btl_put_limit > limits.max_put_bytes) module.btl_put_limit = limits.max_put_bytes;
  module.btl_get_local_registration_threshold = 0;
  module.btl_put_local_registration_threshold = limits.max_inline_bytes;
  if (!set_by_user("eager_limit")) {
    module.btl_eager_limit =
        std::min(module.btl_eager_limit, std::max(limits.eager_bytes, kSmallEagerBytes));
  }
  if (module.btl_bandwidth == 0) module.btl_bandwidth = limits.bandwidth_mbps;
  if (!limits.has_atomics) module.btl_flags &= ~kAtomicFlags;
  if (module.rcache == nullptr) {  // nothing can be put or got
    module.btl_flags &= ~(MCA_BTL_FLAGS_PUT | MCA_BTL_FLAGS_GET | kAtomicFlags);
  }
  if ((module.btl_flags & kAtomicFlags) == 0) {
    module.btl_atomic_flags = 0;
  } else if (limits.atomics_with_cpu) {
    module.btl_atomic_flags |= MCA_BTL_ATOMIC_SUPPORTS_GLOB;
    module.btl_flags |= kGlobalAtomicsFlag;
  }
  (void)mca_btl_base_param_verify(&module);
}

void log_line(void*, int verbosity, const std::string& text) {
  if (verbosity <= 0) {
    say(text);
  } else {
    say_verbose(verbosity, text);
  }
}

/// A module with an open transport whose address is published, or why there is none.
Result<std::unique_ptr<Module>> make_module(const transport::Params& params) {
  auto module = std::make_unique<Module>(module_template);
  fit_eager_limits(*module);
  if (Status status = check_limits(*module); !status) return status;
  const opal_process_name_t& name = opal_proc_local_get()->proc_name;
  module->params = params;
  module->name = process_name(name);

  transport::Options options;
  options.name = module->name;
  options.job_cookie = job_cookie(name);
  options.adapter_bytes = descriptor_bytes();
  options.max_message_bytes = module->btl_max_send_size;
  options.named_by_user = named_by_user();
  // The first cache of a process patches munmap() and others, which a thread inside them does not
  // survive.
  options.before_threads = open_registration_cache;
  options.receive = receive;
  options.error = peer_failed;
  options.log = log_line;
  options.context = module.get();
  auto opened = transport::Transport::open(params, options);
  if (!opened) return opened.status();
  module->transport = std::move(*opened);
  apply_limits(*module);

  const std::vector<uint8_t> blob = module->transport->address();
  if (const int rc = publish_address(component().btl_version, blob); rc != OPAL_SUCCESS) {
    return Status(Code::kUnavailable, "the runtime did not take the address to publish (error " +
                                          std::to_string(rc) + ")");
  }
  const transport::Limits& limits = module->transport->limits();
  say_verbose(1, "using " + limits.device + (limits.is_soft ? " (software device)" : "") + ", " +
                     std::to_string(limits.bandwidth_mbps) + " Mb/s");
  return module;
}

Module* init_module() {
  Result<transport::Params> params = read_parameters();
  if (!params) {
    // Whoever sets a parameter of roce wants to hear about it, named or not.
    say_once("not used: " + params.status().text());
    return nullptr;
  }
  Result<std::unique_ptr<Module>> module = make_module(*params);
  if (module) return module->release();
  const Status& status = module.status();
  if (status.code() == Code::kInvalidArgument) {
    say_once("not used: " + status.text());
  } else if (wants_reasons(*params)) {
    explain_not_usable(status.text());
  } else {
    say_verbose(1, "not used: " + status.text());
  }
  return nullptr;
}

// ---- called by the MCA ----

int register_component() noexcept {
  if (!same_series(opal_version_string, OPAL_MAJOR_VERSION, OPAL_MINOR_VERSION)) {
    // By standard output functions: nothing is known about the interfaces of this Open MPI.
    std::fprintf(stderr,
                 "btl roce: not used: this component was built for Open MPI %d.%d and is loaded "
                 "into Open MPI %s; build mpi-roce for it\n",
                 OPAL_MAJOR_VERSION, OPAL_MINOR_VERSION, opal_version_string);
    return OPAL_ERR_NOT_AVAILABLE;
  }
  add_help_directory();
  module_template = default_values();
  return register_variables(component().btl_version, module_template);
}

int open_component() noexcept { return OPAL_SUCCESS; }
int close_component() noexcept { return OPAL_SUCCESS; }

mca_btl_base_module_t** init(int* count, bool /*progress_threads*/, bool /*mpi_threads*/) noexcept {
  *count = 0;
  Module* module = nullptr;
  try {
    module = init_module();
  } catch (const std::exception& error) {
    explain_not_usable(error.what());
  }
  if (module == nullptr) return nullptr;
  // The array is freed by the caller.
  auto** modules =
      static_cast<mca_btl_base_module_t**>(std::malloc(sizeof(mca_btl_base_module_t*)));
  if (modules == nullptr) {
    (void)finalize(module);
    return nullptr;
  }
  modules[0] = module;
  *count = 1;
  the_module = module;
  return modules;
}

int progress() noexcept { return the_module != nullptr ? the_module->transport->progress() : 0; }

}  // namespace

void forget_module() { the_module = nullptr; }

}  // namespace roce::btl

extern "C" {
// The only symbol that the module exports. Its version is Open MPI's, as with Open MPI's own
// components: it is a part of the modex key, under which all processes must find each other.
__attribute__((visibility("default"))) mca_btl_base_component_3_0_0_t mca_btl_roce_component = {
    .btl_version = {MCA_BTL_DEFAULT_VERSION("roce"),
                    .mca_open_component = roce::btl::open_component,
                    .mca_close_component = roce::btl::close_component,
                    .mca_query_component = nullptr,
                    .mca_register_component_params = roce::btl::register_component,
                    .mca_component_flags = 0, .reserved = {}},
    .btl_data = {.param_field = MCA_BASE_METADATA_PARAM_NONE, .reserved = {}},
    .btl_init = roce::btl::init,
    .btl_progress = roce::btl::progress,
};
}

namespace roce::btl {
mca_btl_base_component_3_0_0_t& component() { return mca_btl_roce_component; }
}  // namespace roce::btl
