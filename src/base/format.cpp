#include "base/format.h"

// Defines the functions that fmt/core.h declares, once for the whole program.
#include <fmt/format-inl.h>

// What {fmt}'s headers declare `extern template` and its own library would instantiate: formatting
// a floating point number needs them.
FMT_BEGIN_NAMESPACE
namespace detail {
template FMT_API auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl(locale_ref) -> char;
}  // namespace detail
FMT_END_NAMESPACE
