// The component's MCA variables: those of the transport's parameter table and the generic ones of
// every BTL, with their ranges; and what the user said about roce.
#ifndef ROCE_BTL_SETTINGS_H_
#define ROCE_BTL_SETTINGS_H_

#include "btl/ompi_compat.h"
#include "roce/status.h"
#include "transport/params.h"

namespace roce::btl {

/// Registers every row of the parameter table as btl_roce_<name>, then the generic variables on
/// `values`, whose limits and functions must be set already.
int register_variables(const mca_base_component_t& component, mca_btl_base_module_t& values);

/// The transport's parameters as set by the user. A bad value: kInvalidArgument.
Result<transport::Params> read_parameters();

/// Checks the generic variables. A bad value: kInvalidArgument.
Status check_limits(const mca_btl_base_module_t& values);

/// Whether the variable btl_roce_NAME has another value than its default by the user's will.
bool set_by_user(const char* name);

/// Whether `roce` stands in the list that the user gave for `btl`.
bool named_by_user();
/// Whether the user wants to know why roce is not used: it was named, or told what to use.
bool wants_reasons(const transport::Params& params);

}  // namespace roce::btl

#endif  // ROCE_BTL_SETTINGS_H_
