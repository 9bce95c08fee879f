#include <algorithm>
#include <utility>

#include "shoal/autograd/module.h"
#include "shoal/runtime/base/error.h"

// Where a module's parameters lie: one behind the other in a vector of values, and alike in one of
// gradients.
namespace shoal::autograd {
namespace {

constexpr std::int64_t kAlignment = 64;  // bytes: a cache line, so that no two parameters share one

struct Place {
  Variable parameter;
  std::int64_t offset = 0;  // in elements

  [[nodiscard]] Tensor in(const Tensor& flat) const {
    const Tensor& value = parameter.value();
    return flat.slice(0, offset, offset + value.numel()).view(value.shape());
  }
};

struct Layout {
  DType dtype = DType::f32;
  std::vector<Place> places{};
  std::int64_t size = 0;  // with the last gap, so that rows of such vectors stay aligned as well
};

Layout layout_of(const Module& module) {
  Layout layout;
  for (const Variable& parameter : module.parameters()) {
    if (layout.places.empty()) layout.dtype = parameter.dtype();
    check(parameter.dtype() == layout.dtype, ErrorKind::invalid_argument, "Module::flatten",
          "parameters are ", to_string(layout.dtype), " and ", to_string(parameter.dtype()),
          "; a flat tensor has one dtype");
    layout.places.push_back({parameter, layout.size});
    const std::int64_t unit = kAlignment / static_cast<std::int64_t>(item_size(layout.dtype));
    layout.size += (parameter.value().numel() + unit - 1) / unit * unit;
  }
  return layout;
}

Layout layout_to_flatten(const Module& module, const char* call) {
  Layout layout = layout_of(module);
  check(!layout.places.empty(), ErrorKind::invalid_argument, call, "the module has no parameters");
  return layout;
}

void check_flat(const Tensor& flat, const Layout& layout, const char* what) {
  constexpr const char* kCall = "Module::flatten_into";
  check(flat.defined(), ErrorKind::invalid_argument, kCall, what, " are undefined");
  check(flat.dtype() == layout.dtype && flat.shape() == Shape{layout.size} && flat.is_contiguous(),
        ErrorKind::invalid_argument, kCall, what, " are ", to_string(flat.dtype()), " ",
        flat.shape(), flat.is_contiguous() ? "" : " with gaps", ", the module needs ",
        to_string(layout.dtype), " ", Shape{layout.size});
}

}  // namespace

std::int64_t Module::flat_size() const { return layout_of(*this).size; }

// A submodule may have been flattened by itself, so what was true once is looked up again.
bool Module::is_flat() const {
  if (!flat_.values.defined()) return false;
  const Layout layout = layout_of(*this);
  return layout.size == flat_.values.numel() && layout.dtype == flat_.values.dtype() &&
         std::all_of(layout.places.begin(), layout.places.end(), [this](const Place& place) {
           return place.parameter.is_bound_to(place.in(flat_.values), place.in(flat_.grads));
         });
}

FlatParameters Module::flatten() {
  if (is_flat()) return flat_;
  const Layout layout = layout_to_flatten(*this, "Module::flatten");
  const Tensor values = Tensor::zeros({layout.size}, layout.dtype);
  for (const Place& place : layout.places) place.in(values).copy_(place.parameter.value());
  flatten_into({values, {}});
  return flat_;
}

void Module::flatten_into(FlatParameters flat) {
  const Layout layout = layout_to_flatten(*this, "Module::flatten_into");
  check_flat(flat.values, layout, "values");
  const bool fresh = !flat.grads.defined();
  if (fresh) flat.grads = Tensor::zeros({layout.size}, layout.dtype);
  check_flat(flat.grads, layout, "grads");
  // What lay in the gaps is not of this module.
  for (std::size_t i = 0; i < layout.places.size() && !fresh; ++i) {
    const std::int64_t start = layout.places[i].offset + layout.places[i].parameter.value().numel();
    const bool is_last = i + 1 == layout.places.size();
    flat.grads.slice(0, start, is_last ? layout.size : layout.places[i + 1].offset).zero_();
  }
  for (const Place& place : layout.places) {
    place.parameter.bind(place.in(flat.values), place.in(flat.grads));
    place.parameter.sparse_grad().clear();
    if (fresh) place.parameter.zero_grad();  // so that it is known to be zero
  }
  flat_ = std::move(flat);
}

void Module::share_memory(SharingStrategy strategy) { flatten().values.share_memory(strategy); }

bool Module::is_shared() const {
  const std::vector<Variable> all = parameters();
  return !all.empty() && std::all_of(all.begin(), all.end(), [](const Variable& parameter) {
    return parameter.value().is_shared();
  });
}

}  // namespace shoal::autograd
