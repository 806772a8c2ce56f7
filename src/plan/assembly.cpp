#include "plan/assembly.hpp"

#include <algorithm>
#include <iterator>
#include <ranges>

#include "wgsl.hpp"

namespace nibble {
namespace {

// f16 is a storage type. What is only read is read as f16 where the device has shader-f16; else it is packed pairs.
// What is written always is: pack_half() says what becomes of numbers beyond float16, and a conversion need not.
bool is_native_half(const BindingFormat& b, const DeviceProfile& profile) {
  return b.elem == Elem::f16 && b.access == Access::read && profile.shader_f16;
}

/// One of the modules for one, two or four elements at a time.
const Shader& by_lanes(const BindingFormat& b, const Shader& one, const Shader& two, const Shader& four) {
  return b.lanes == 4 ? four : b.lanes == 2 ? two : one;
}

const Shader& loads_of(const BindingFormat& b, bool is_native) {
  switch (b.elem) {
    case Elem::f32:
    case Elem::i32: return by_lanes(b, wgsl::load_1, wgsl::load_2, wgsl::load_4);
    case Elem::f16:
      if (is_native) return by_lanes(b, wgsl::load_half_2, wgsl::load_half_2, wgsl::load_half_4);
      return by_lanes(b, wgsl::load_packed_2, wgsl::load_packed_2, wgsl::load_packed_4);
    case Elem::boolean:
    case Elem::u8: return wgsl::load_bytes;
    case Elem::i8: return wgsl::load_signed_bytes;
    case Elem::words: return wgsl::words;
    case Elem::words4: return wgsl::words4;
    case Elem::atomics: break;
  }
  return wgsl::atomics;
}

const Shader* stores_of(const BindingFormat& b) {
  if (b.access == Access::read) return nullptr;
  switch (b.elem) {
    case Elem::f32:
    case Elem::i32: return &by_lanes(b, wgsl::store_1, wgsl::store_2, wgsl::store_4);
    case Elem::f16: return &by_lanes(b, wgsl::store_packed_2, wgsl::store_packed_2, wgsl::store_packed_4);
    case Elem::boolean:
    case Elem::u8:
    case Elem::i8: return &wgsl::store_bytes;
    case Elem::words:
    case Elem::words4:
    case Elem::atomics: break;
  }
  return nullptr;
}

}  // namespace

Assembly::Assembly(const Kernel& kernel, std::string_view op) : kernel_(kernel), op_(op) {
  add(kernel.shader);
  if (kernel.tail.text.empty()) return;
  add(wgsl::tail);
  for (const Shader* module : kernel.tail.functions) add(*module);
}

bool Assembly::needs(bool Shader::* feature) const {
  return std::ranges::any_of(modules_, [feature](const Shader* module) { return module->*feature; });
}

const Shader* Assembly::fill_of(std::string_view slot) const {
  const auto* found = std::ranges::find(kernel_.slots, slot, &SlotFill::name);
  return found != kernel_.slots.end() ? found->module : nullptr;
}

void Assembly::add(const Shader& module) {
  if (std::ranges::find(modules_, &module) != modules_.end()) return;
  modules_.push_back(&module);
  for (const Shader* used : module.uses) add(*used);
  for (const auto& slot : module.slots) {
    if (const Shader* fill = fill_of(slot.name)) add(*fill);
  }
}

Status Assembly::check(const DeviceProfile& profile) const {
  if (kernel_.overflowed()) {
    return fail(ErrorCode::internal, "{}: kernel {} has more bindings, overrides or slots than there is room for", op_,
                name());
  }
  for (const Shader* module : modules_) {
    for (const auto& slot : module->slots) {
      if (!slot.optional && fill_of(slot.name) == nullptr) {
        return fail(ErrorCode::internal, "{}: kernel {} leaves the slot '{}' of {} open", op_, name(), slot.name,
                    module->name);
      }
    }
    if (!module->expression.empty() && kernel_.expression.empty()) {
      return fail(ErrorCode::internal, "{}: kernel {} has no expression", op_, name());
    }
  }
  for (const auto& fill : kernel_.slots) {
    const bool is_known = std::ranges::any_of(modules_, [&](const Shader* module) {
      return std::ranges::find(module->slots, fill.name, &Shader::Slot::name) != module->slots.end();
    });
    if (!is_known) {
      return fail(ErrorCode::internal, "{}: kernel {} fills a slot '{}' that it has not", op_, name(), fill.name);
    }
  }
  if (needs(&Shader::needs_subgroups) && !profile.subgroups) {
    return fail(ErrorCode::internal, "{}: kernel {} needs subgroups, which this device has not", op_, name());
  }
  if (needs(&Shader::needs_f16) && !profile.shader_f16) {
    return fail(ErrorCode::internal, "{}: kernel {} needs shader-f16, which this device has not", op_, name());
  }
  return {};
}

std::string Assembly::text(const DeviceProfile& profile) const {
  std::string out;
  const auto formats = kernel_.bind.all() | std::views::transform(&BufferArg::format);
  const bool has_halves = std::ranges::any_of(formats, [&](const auto& b) { return is_native_half(b, profile); });
  if (has_halves || needs(&Shader::needs_f16)) out += wgsl::enable_f16.body;
  if (profile.subgroups_need_enable && needs(&Shader::needs_subgroups)) out += wgsl::enable_subgroups.body;
  out += wgsl::prelude.body;
  // Before the result is put to memory it goes through the tail.
  const bool has_tail = !kernel_.tail.text.empty();
  std::uint32_t binding = 0;
  for (const auto& b : formats) {
    const auto number = std::to_string(++binding);
    const Word words[] = {{"NAME", b.name},
                          {"BINDING", number},
                          {"ACCESS", b.access == Access::read ? "read" : "read_write"},
                          {"SCALAR", b.elem == Elem::i32 ? "i32" : "f32"},
                          {"STORE", has_tail && b.name == "result" ? "put" : "store"}};
    write_words(out, loads_of(b, is_native_half(b, profile)).body, words);
    if (const Shader* stores = stores_of(b)) write_words(out, stores->body, words);
  }
  const bool packs = std::ranges::any_of(
      formats, [](const BindingFormat& b) { return b.elem == Elem::f16 && b.access == Access::read_write; });
  if (packs || has_tail) out += wgsl::pack_half.body;
  const bool reports = std::ranges::find(formats, Elem::atomics, &BindingFormat::elem) != formats.end();
  out += reports ? wgsl::report_faults.body : wgsl::report_no_faults.body;
  out += kernel_.tail.text;
  for (const Shader* module : modules_) {
    if (!module->expression.empty()) {
      fmt::format_to(std::back_inserter(out), "{} {{ return {}; }}\n", module->expression, kernel_.expression);
    }
    out += module->body;
  }
  return out;
}

}  // namespace nibble
