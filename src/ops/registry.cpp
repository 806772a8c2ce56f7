#include "ops/registry.hpp"

#include "ops/ops.hpp"

namespace nibble::ops {
namespace {

constexpr OpTraits kAlias{.alias = true};
constexpr std::string_view kAny = "any";
constexpr std::string_view kNumbers = "float32, float16, int32";

constexpr OpEntry kOps[] = {
    {"et_vk.embedding_q4gsw.default",
     embedding_q4gsw,
     {},
     "4-bit table, float32 or float16 scales and output, int32 ids",
     "both nibble orders; any even width, any group size that divides it; any rank of ids; tables of any size"},
    {"et_vk.prepack.default", prepack, kAlias, kAny, "folded into the constant at load"},
    {"aten.embedding.default", embedding, {}, "any table, int32 ids", "any rank of ids; tables of any size"},
    {"aten.add.Tensor", add, {}, kNumbers, "broadcasting, alpha, mixed types"},
    {"aten.sub.Tensor", sub, {}, kNumbers, "broadcasting, alpha, mixed types"},
    {"aten.mul.Tensor", mul, {}, kNumbers, "broadcasting, mixed types"},
    {"aten.div.Tensor", div, {}, kNumbers, "broadcasting; integers divide to float32"},
    {"aten.mean.dim", mean, {}, "float32, float16", "any dims"},
    {"aten.sum.dim_IntList", sum, {}, kNumbers, "any dims"},
    {"aten._to_copy.default", to_copy, kAlias, kAny, "all pairs of types; a view where the type stays"},
    {"dim_order_ops._to_dim_order_copy.default", to_dim_order_copy, kAlias, kAny, "as _to_copy; contiguous"},
    {"aten.clone.default", clone, kAlias, kAny, "a view"},
    {"dim_order_ops._clone_dim_order.default", clone_dim_order, kAlias, kAny, "a view; contiguous"},
    {"aten.alias_copy.default", prepack, kAlias, kAny, "a view"},
    {"aten.view_copy.default", view, kAlias, kAny, "a view; sizes may be SymInts or -1"},
    {"aten.squeeze_copy.dims", squeeze, kAlias, kAny, "a view"},
    {"aten.squeeze_copy.dim", squeeze_dim, kAlias, kAny, "a view"},
    {"aten.unsqueeze_copy.default", unsqueeze, kAlias, kAny, "a view"},
    {"et_vk.select_as_symint.default", select_as_symint, {.reads_data = true}, "int32", "x must be a program input"},
    {"sym_size.int", sym_size, {}, kAny, ""},
    {"add", sym_add, {}, "SymInt", ""},
    {"sub", sym_sub, {}, "SymInt", ""},
    {"mul", sym_mul, {}, "SymInt", ""},
    {"floordiv", sym_floordiv, {}, "SymInt", "rounds down; a zero divisor is an error"},
};

}  // namespace

Registry registry() { return kOps; }

}  // namespace nibble::ops
