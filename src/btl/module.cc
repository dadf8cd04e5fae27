// Peers, their failure, and the end.
#include "btl/module.h"

#include <unistd.h>

#include <cstdio>
#include <exception>

#include "btl/messages.h"
#include "btl/settings.h"
#include "transport/counters.h"

namespace roce::btl {
namespace {

/// The endpoint of a process, made if this is the first time. Null: unreachable by roce.
mca_btl_base_endpoint_t* endpoint_for(Module& module, opal_proc_t& proc) {
  const transport::ProcessName name = process_name(proc.proc_name);
  transport::Endpoint* known = module.transport->find_peer(name);
  if (known != nullptr && module.transport->peer_context(known) != nullptr) {
    module.transport->set_peer_context(known, &proc);
    return handle_of(known);
  }
  // Our own blob is not in the modex yet when the first peers are added.
  const std::vector<uint8_t> blob = name == module.name
                                        ? module.transport->address()
                                        : fetch_address(component().btl_version, proc);
  if (blob.empty()) return nullptr;  // a process that runs without roce

  Result<transport::Endpoint*> added = module.transport->add_peer(name, blob, &proc);
  if (!added) {
    const std::string line = "no path to rank " + std::to_string(name.rank) + " on " +
                             peer_host_name(proc) + ": " + added.status().text();
    if (wants_reasons(module.params)) {
      say_once(line);
    } else {
      say_verbose(1, line);
    }
    return nullptr;
  }
  return handle_of(*added);
}

/// Counts as not added from now on, and is gone when this returns.
void remove(Module& module, transport::Endpoint* peer) {
  module.transport->set_peer_context(peer, nullptr);
  module.transport->remove_peer(peer);
}

/// Writes "name value" lines to PREFIX.HOST.PID.
void write_statistics(const Module& module) {
  const std::string& prefix = module.params.stats;
  if (prefix.empty()) return;
  const std::string path = prefix + "." + own_host_name() + "." + std::to_string(getpid());
  std::FILE* file = std::fopen(path.c_str(), "we");
  if (file == nullptr) {
    say("counters not written to " + path + ": " + std::strerror(errno));
    return;
  }
  const std::string text = module.transport->counters_text();
  const bool complete = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) != 0 || !complete) say("counters not completely written to " + path);
}

}  // namespace

Module::~Module() {
  // The cache deregisters what it still holds, so it goes first.
  if (rcache != nullptr) (void)mca_rcache_base_module_destroy(rcache);
  transport.reset();
}

int add_procs(mca_btl_base_module_t* btl, size_t count, opal_proc_t** procs,
              mca_btl_base_endpoint_t** endpoints, opal_bitmap_t* reachable) noexcept {
  Module& module = Module::of(btl);
  for (size_t i = 0; i < count; ++i) {
    endpoints[i] = nullptr;
    try {
      endpoints[i] = endpoint_for(module, *procs[i]);
    } catch (const std::exception& error) {
      say(std::string("peer not added: ") + error.what());
    }
    // `reachable` is null when a single peer is added at its first use.
    if (endpoints[i] != nullptr && reachable != nullptr) {
      (void)opal_bitmap_set_bit(reachable, static_cast<int>(i));
    }
  }
  return OPAL_SUCCESS;
}

int del_procs(mca_btl_base_module_t* btl, size_t count, opal_proc_t** procs,
              mca_btl_base_endpoint_t**) noexcept {
  Module& module = Module::of(btl);
  for (size_t i = 0; i < count; ++i) {
    transport::Endpoint* peer = module.transport->find_peer(process_name(procs[i]->proc_name));
    if (peer != nullptr) remove(module, peer);
  }
  return OPAL_SUCCESS;
}

int finalize(mca_btl_base_module_t* btl) noexcept {
  const std::unique_ptr<Module> module(&Module::of(btl));
  forget_module();
  for (transport::Endpoint* peer : module->transport->peers()) {
    if (module->transport->peer_context(peer) != nullptr) remove(*module, peer);
  }
  write_statistics(*module);
  return OPAL_SUCCESS;
}

int register_error(mca_btl_base_module_t* btl,
                   mca_btl_base_module_error_cb_fn_t callback) noexcept {
  Module::of(btl).error_callback = callback;
  return OPAL_SUCCESS;
}

void peer_failed(void* context, transport::Endpoint* peer, const std::string& text) {
  auto& module = *static_cast<Module*>(context);
  opal_proc_t* proc = nullptr;
  if (peer != nullptr) {
    proc = static_cast<opal_proc_t*>(module.transport->peer_context(peer));
    if (proc == nullptr) {
      // It has been given up by both sides: an acknowledgement lost in MPI_Finalize is no failure.
      say_verbose(1, text);
      return;
    }
  }
  std::string line = "btl roce: " + text;
  if (module.error_callback == nullptr) {
    say(text);
    abort_job(line);
  }
  if (!kErrorCallbackPrints) say(text);
  line = error_callback_text(line);
  module.error_callback(&module, MCA_BTL_ERROR_FLAGS_FATAL, proc, line.data());
}

void dump(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint, int verbose) noexcept {
  Module& module = Module::of(btl);
  say(module.transport->limits().device);
  const auto* proc =
      endpoint == nullptr
          ? nullptr
          : static_cast<opal_proc_t*>(module.transport->peer_context(peer_of(endpoint)));
  if (proc != nullptr) say("peer on " + peer_host_name(*proc));
  if (verbose > 0) say(module.transport->counters_text());
}

}  // namespace roce::btl
