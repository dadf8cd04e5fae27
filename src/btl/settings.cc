#include "btl/settings.h"

#include <string_view>

namespace roce::btl {
namespace {

using transport::ParamInfo;
using transport::ParamType;

// The MCA keeps pointers to these from registration until the component is unloaded.
constexpr size_t kMaxRows = 64;
int integer_storage[kMaxRows];
char* string_storage[kMaxRows];

mca_base_var_info_lvl_t level_of(const ParamInfo& info) {
  switch (info.level) {
    case transport::ParamLevel::kUser:
      return OPAL_INFO_LVL_4;
    case transport::ParamLevel::kTuner:
      return OPAL_INFO_LVL_6;
    case transport::ParamLevel::kDeveloper:
      break;
  }
  return OPAL_INFO_LVL_9;
}

std::string help_of(const ParamInfo& info) {
  if (info.type == ParamType::kString) return info.help;
  return std::string(info.help) + " (range: " + param_range(info) + ")";
}

/// A sentence about a parameter, with the name that the user set.
Status with_variable_name(const Status& status) {
  constexpr std::string_view kStart = "parameter ";
  std::string text = status.text();
  if (text.starts_with(kStart)) text.insert(kStart.size(), "btl_roce_");
  return {status.code(), text};
}

Status limit_range(const char* name, size_t value, size_t min, size_t max) {
  if (value >= min && value <= max) return Status::ok();
  return {Code::kInvalidArgument, std::string("parameter btl_roce_") + name + ": " +
                                      std::to_string(value) + " is not in its range, " +
                                      std::to_string(min) + ".." + std::to_string(max)};
}

/// Whether a comma-separated list contains `word`.
bool list_contains(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    if (list.substr(0, comma) == word) return true;
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return false;
}

}  // namespace

int register_variables(const mca_base_component_t& component, mca_btl_base_module_t& values) {
  const auto table = transport::param_table();
  if (table.size() > kMaxRows) return OPAL_ERROR;
  const transport::Params defaults;
  for (size_t i = 0; i < table.size(); ++i) {
    const ParamInfo& info = table[i];
    const bool is_int = info.type == ParamType::kInt;
    std::string text;
    if (is_int) {
      integer_storage[i] = defaults.*info.int_field;
    } else {
      // The MCA copies the default and puts its own string here.
      text = defaults.*info.string_field;
      string_storage[i] = text.data();
    }
    const int index = mca_base_component_var_register(
        &component, info.name, help_of(info).c_str(),
        is_int ? MCA_BASE_VAR_TYPE_INT : MCA_BASE_VAR_TYPE_STRING, nullptr, 0,
        static_cast<mca_base_var_flag_t>(0), level_of(info), MCA_BASE_VAR_SCOPE_READONLY,
        is_int ? static_cast<void*>(&integer_storage[i]) : static_cast<void*>(&string_storage[i]));
    if (index < 0) return index;
  }
  // It asks for a component that it may change, but only reads the names.
  return mca_btl_base_param_register(const_cast<mca_base_component_t*>(&component), &values);
}

Result<transport::Params> read_parameters() {
  transport::Params params;
  const auto table = transport::param_table();
  for (size_t i = 0; i < table.size(); ++i) {
    const ParamInfo& info = table[i];
    if (info.type != ParamType::kInt) {
      params.*info.string_field = string_storage[i] != nullptr ? string_storage[i] : "";
      continue;
    }
    params.*info.int_field = integer_storage[i];
    // The MCA silently keeps the default where it cannot read a number. mpirun hands its --mca
    // options on in the environment, so there the text can be seen.
    const std::string name = std::string("OMPI_MCA_btl_roce_") + info.name;
    const char* text = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): set-up
    if (text == nullptr) continue;
    if (Status status = set_param(params, info, text); !status) return with_variable_name(status);
  }
  if (Status status = check_params(params); !status) return with_variable_name(status);
  return params;
}

Status check_limits(const mca_btl_base_module_t& values) {
  // ob1 puts its own headers (up to 56 bytes in 4.1, more later, plus a registration handle) into
  // these, and receive buffers have the size of max_send_size.
  constexpr size_t kMinEager = 256, kMaxSend = 4 << 20, kMinPipelineFragment = 4096;
  const size_t max_send = values.btl_max_send_size;
  if (Status s = limit_range("max_send_size", max_send, 1024, kMaxSend); !s) return s;
  if (Status s = limit_range("eager_limit", values.btl_eager_limit, kMinEager, max_send); !s) {
    return s;
  }
  if (Status s = limit_range("rndv_eager_limit", values.btl_rndv_eager_limit, 0, max_send); !s) {
    return s;
  }
  return limit_range("rdma_pipeline_frag_size", values.btl_rdma_pipeline_frag_size,
                     kMinPipelineFragment, SIZE_MAX);
}

bool set_by_user(const char* name) {
  const int index = mca_base_var_find("opal", "btl", "roce", name);
  if (index < 0) return false;
  mca_base_var_source_t source = MCA_BASE_VAR_SOURCE_DEFAULT;
  return mca_base_var_get_value(index, nullptr, &source, nullptr) == OPAL_SUCCESS &&
         source != MCA_BASE_VAR_SOURCE_DEFAULT;
}

bool named_by_user() {
  const int index = mca_base_var_find("opal", "btl", nullptr, nullptr);
  if (index < 0) return false;
  const mca_base_var_storage_t* storage = nullptr;
  mca_base_var_source_t source = MCA_BASE_VAR_SOURCE_DEFAULT;
  if (mca_base_var_get_value(index, &storage, &source, nullptr) != OPAL_SUCCESS) return false;
  if (source == MCA_BASE_VAR_SOURCE_DEFAULT || storage == nullptr) return false;
  // A list that begins with '^' excludes; then this component would not be loaded if it were in it.
  const char* list = storage->stringval;
  return list != nullptr && list[0] != '^' && list_contains(list, "roce");
}

bool wants_reasons(const transport::Params& params) {
  return named_by_user() || params.soft == "on" || !params.if_include.empty();
}

}  // namespace roce::btl
