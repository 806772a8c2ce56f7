// .pte files that lie: each gives a sentence.
#include <cstring>

#include "program/program.hpp"
#include "program_generated.h"
#include "support/expect.hpp"
#include "support/pte_builder.hpp"
#include "support/small_programs.hpp"

namespace nibble::test {
namespace {

namespace et = executorch_flatbuffer;

template <class T>
Bytes field(std::size_t offset, T value) {
  auto file = make_pte(embedding_blob());
  std::memcpy(file.data() + offset, &value, sizeof(T));
  return file;
}

template <class Find>
Bytes forged_pte(Find vector, std::uint32_t length) {
  auto file = make_pte(embedding_blob());
  const void* target = vector(*et::GetProgram(file.data()));
  std::memcpy(const_cast<void*>(target), &length, sizeof(length));
  return file;
}

Bytes first(std::size_t bytes) {
  auto file = make_pte(embedding_blob());
  file.resize(bytes);
  return file;
}

/// Cuts the file `more` bytes after the place that the header names at `offset`.
Bytes cut_at(std::size_t offset, std::int64_t more) {
  const auto file = make_pte(embedding_blob());
  std::uint64_t at = 0;
  std::memcpy(&at, file.data() + offset, sizeof(at));
  return first(static_cast<std::size_t>(static_cast<std::int64_t>(at) + more));
}

/// Methods without instructions whose outputs are all one long list.
Bytes shared_outputs() {
  flatbuffers::FlatBufferBuilder fb;
  const auto list = et::CreateDoubleList(fb, fb.CreateVector(std::vector<double>(1000, 7)));
  const std::vector values{et::CreateEValue(fb, et::KernelTypes::DoubleList, list.Union())};
  const auto name = fb.CreateString("many");
  const auto all = fb.CreateVector(values);
  const auto outputs = fb.CreateVector(std::vector<std::int32_t>(1000, 0));
  et::ExecutionPlanBuilder plan(fb);
  plan.add_name(name);
  plan.add_values(all);
  plan.add_outputs(outputs);
  const std::vector plans{plan.Finish()};
  et::FinishProgramBuffer(fb, et::CreateProgram(fb, 0, fb.CreateVector(plans)));
  const auto* bytes = reinterpret_cast<const std::byte*>(fb.GetBufferPointer());
  return {bytes, bytes + fb.GetSize()};
}

PteTensor& input(Pte& pte) { return std::get<PteTensor>(pte.methods[0].values[0]); }

struct BrokenFile {
  const char* name;
  Bytes (*make)();
  const char* message;
};

const BrokenFile kBrokenFiles[] = {
    {"empty", [] { return Bytes{}; }, "the program file is empty"},
    {"seven_bytes", [] { return Bytes(7); }, "has 7 bytes, too few"},
    {"a_zip_file", [] { return field(0, std::uint64_t{0x0000001404034b50}); },
     "identifier ET12: its first bytes are 50 4b 03 04 14 00 00 00"},
    {"wrong_identifier", [] { return field(4, std::uint32_t{0x33315445}); }, "does not have the identifier ET12"},
    {"header_too_small", [] { return field(12, std::uint32_t{23}); }, "header says it has 23 bytes"},
    {"program_larger_than_the_file", [] { return field(16, ~std::uint64_t{0}); },
     "header says that the program alone has 18446744073709551615"},
    {"program_of_no_bytes", [] { return field(16, std::uint64_t{0}); }, "has 0 bytes, too few"},
    {"segments_inside_the_program", [] { return field(24, std::uint64_t{48}); },
     "segments start at byte 48, inside the program"},
    {"segments_past_the_end", [] { return field(24, ~std::uint64_t{0}); }, "but its header says that"},
    {"segment_bytes_past_the_end", [] { return field(32, ~std::uint64_t{0}); },
     "header says that 18446744073709551615 bytes of segments follow"},
    {"wrong_root", [] { return field(0, std::uint32_t{0x7fffffff}); }, "not a valid FlatBuffer"},
    {"cut_in_the_identifier", [] { return first(6); }, "has 6 bytes, too few"},
    {"cut_in_the_header", [] { return first(31); }, "not a valid FlatBuffer"},
    {"cut_after_the_header", [] { return first(40); }, "the file has 40 bytes, but its header says"},
    {"cut_in_the_program", [] { return cut_at(16, -1); }, "but its header says that the program alone has"},
    {"cut_after_the_program", [] { return cut_at(16, 0); }, "bytes of segments follow byte"},
    {"cut_in_the_delegate", [] { return cut_at(24, 40); }, "bytes of segments follow byte"},
    {"forged_methods_length", [] { return forged_pte([](auto& p) { return p.execution_plan(); }, 1U << 28); },
     "not a valid FlatBuffer"},
    {"forged_segments_length", [] { return forged_pte([](auto& p) { return p.segments(); }, 0xffffffff); },
     "not a valid FlatBuffer"},
    {"forged_named_length", [] { return forged_pte([](auto& p) { return p.named_data(); }, 1000); },
     "not a valid FlatBuffer"},
    {"forged_values_length",
     [] { return forged_pte([](auto& p) { return p.execution_plan()->Get(0)->values(); }, 1U << 20); },
     "not a valid FlatBuffer"},
    {"forged_inputs_length",
     [] { return forged_pte([](auto& p) { return p.execution_plan()->Get(0)->inputs(); }, 1U << 30); },
     "not a valid FlatBuffer"},
    {"outputs_that_share_one_list", [] { return shared_outputs(); }, "add up to more than 8 times"},
    {"one_value_very_often",
     [] {
       auto pte = describe(embedding_blob());
       pte.methods[0].inputs.assign(20000, 0);
       return write_pte(pte);
     },
     "add up to more than 8 times"},
};

struct BrokenProgram {
  const char* name;
  void (*change)(Pte&);
  const char* message;
};

const BrokenProgram kBrokenPrograms[] = {
    {"no_methods", [](Pte& p) { p.methods.clear(); }, "no method 'forward'; the methods that compute are: none"},
    {"method_without_name", [](Pte& p) { p.methods[0].name.clear(); }, "the name of method 0 is missing or empty"},
    {"delegate_of_another_backend", [](Pte& p) { p.methods[0].delegates[0].id = "XnnpackBackend"; },
     "was exported for XnnpackBackend, but Nibble runs programs for VulkanBackend"},
    {"delegate_index_out_of_range", [](Pte& p) { p.methods[0].calls[0].index = 1; },
     "calls delegate 1, but it has 1 delegates"},
    {"delegate_index_negative", [](Pte& p) { p.methods[0].calls[0].index = -1; }, "calls delegate -1"},
    {"operator_index_out_of_range",
     [](Pte& p) { p.methods[0].calls.push_back({.is_delegate = false, .index = 3, .args = {}}); },
     "calls operator 3, but the method has 0 operators"},
    {"delegate_segment_out_of_range", [](Pte& p) { p.methods[0].delegates[0].index = 2; },
     "the delegate blob is in segment 2, but the file has 2 segments"},
    {"delegate_inline_out_of_range", [](Pte& p) { p.methods[0].delegates[0].location = 0; },
     "the delegate blob is number 0 of 0"},
    {"delegate_at_an_unknown_place", [](Pte& p) { p.methods[0].delegates[0].location = 2; }, "unknown kind of place 2"},
    {"delegate_past_the_end", [](Pte& p) { p.segments[0].extra_size = 1U << 20; }, "the delegate blob has"},
    {"delegate_offset_wraps", [](Pte& p) { p.segments[0].extra_offset = ~std::uint64_t{0} - 7; },
     "the delegate blob has"},
    {"delegate_that_is_no_blob", [](Pte& p) { p.methods[0].delegates[0].index = 1; },
     "magic VH00: its first bytes are 00 00 00 3f"},
    {"segments_without_a_header", [](Pte& p) { p.extended_header = false; }, "names no place for segments"},
    {"named_data_past_the_end", [](Pte& p) { p.segments[1].extra_offset = 1U << 30; },
     "the data named 'scales' has 80 bytes from"},
    {"named_data_segment_out_of_range", [](Pte& p) { p.named[0].second = 9; },
     "the data named 'scales' is in segment 9"},
    {"named_data_of_another_length", [](Pte& p) { p.segments[1].bytes.resize(79); },
     "constant 1 has 80 bytes, but the data named 'scales' has 79"},
    {"named_data_missing", [](Pte& p) { p.named[0].first = "other"; }, "the file has no data named 'scales'"},
    {"named_data_without_key", [](Pte& p) { p.named[0].first.clear(); }, "the key of named data 0 is missing or empty"},
    {"input_out_of_range", [](Pte& p) { p.methods[0].inputs[0] = 2; },
     "input 0 of method 'forward' is value 2, but the method has 2 values"},
    {"output_negative", [](Pte& p) { p.methods[0].outputs[0] = -1; }, "output 0 of method 'forward' is value -1"},
    {"argument_out_of_range", [](Pte& p) { p.methods[0].calls[0].args[1] = 77; },
     "delegate argument 1 of method 'forward' is value 77"},
    {"input_of_a_wrong_kind", [](Pte& p) { p.methods[0].values[0] = std::string("x"); },
     "input 0 of method 'forward' is of kind String"},
    {"too_few_arguments", [](Pte& p) { p.methods[0].calls[0].args.pop_back(); },
     "passes 1 values to the delegate, which has 1 inputs and 1 outputs"},
    {"argument_that_is_no_input", [](Pte& p) { p.methods[0].inputs.clear(); },
     "input 0 of the delegate is neither an input of method 'forward' nor a constant that Nibble alone reads"},
    {"output_that_overwrites_an_input", [](Pte& p) { p.methods[0].inputs.push_back(1); },
     "output 0 of the delegate overwrites input 1"},
    {"output_that_nobody_writes",
     [](Pte& p) {
       p.methods[0].values.push_back(PteTensor{});
       p.methods[0].outputs.push_back(2);
     },
     "output 1 of method 'forward' is a constant tensor"},
    {"shape_that_differs", [](Pte& p) { input(p).sizes = {3, 2}; },
     "input 0 of the delegate has the shape [2, 3], but the method passes one of shape [3, 2]"},
    {"dtype_that_differs", [](Pte& p) { input(p).scalar_type = 6; },
     "input 0 of the delegate is int32, but the method passes float32"},
    {"integer_for_a_tensor", [](Pte& p) { p.methods[0].values[0] = std::int64_t{1}; },
     "but the method passes an integer"},
    {"dtype_unknown", [](Pte& p) { input(p).scalar_type = 100; }, "has the element type  (100)"},
    {"dtype_not_handled", [](Pte& p) { input(p).scalar_type = 15; }, "has the element type BFLOAT16 (15)"},
    {"negative_size", [](Pte& p) { input(p).sizes = {2, -3}; }, "has the negative dimension -3 at 1"},
    {"sizes_overflow_64_bits", [](Pte& p) { input(p).sizes.assign(8, 0x7fffffff); }, "does not fit 63 bits"},
    {"ten_thousand_dimensions", [](Pte& p) { input(p).sizes.assign(10000, 1); }, "with 10000 dimensions"},
    {"dimension_order_of_another_rank", [](Pte& p) { input(p).dim_order = {0}; },
     "has 2 dimensions, but an order of 1"},
    {"dimension_order_out_of_range", [](Pte& p) { input(p).dim_order = {0, 255}; },
     "wrong dimension order: its entry 1 is 255"},
    {"dimension_order_repeats", [](Pte& p) { input(p).dim_order = {1, 1}; }, "wrong dimension order: its entry 1 is 1"},
    {"column_major", [](Pte& p) { input(p).dim_order = {1, 0}; }, "is not stored row by row"},
};

class BrokenPteBytes : public testing::TestWithParam<BrokenFile> {};
class BrokenPteProgram : public testing::TestWithParam<BrokenProgram> {};

TEST_P(BrokenPteBytes, give_a_sentence) {
  EXPECT_TRUE(fails_with(read_program(GetParam().make()), GetParam().message));
}

TEST_P(BrokenPteProgram, gives_a_sentence) {
  auto pte = describe(embedding_blob());
  GetParam().change(pte);
  EXPECT_TRUE(fails_with(read_program(write_pte(pte)), GetParam().message));
}

const auto kPteName = [](const auto& param_info) { return std::string(param_info.param.name); };
INSTANTIATE_TEST_SUITE_P(files, BrokenPteBytes, testing::ValuesIn(kBrokenFiles), kPteName);
INSTANTIATE_TEST_SUITE_P(files, BrokenPteProgram, testing::ValuesIn(kBrokenPrograms), kPteName);

Pte small_file() {
  auto pte = describe(every_kind_blob());
  pte.methods.push_back(constant_method("size", {std::int64_t{3}, std::string("text"), std::vector<bool>{true}}));
  return pte;
}

TEST(DamagedPte, every_truncation_is_refused) {
  for (const auto& file : {make_pte(embedding_blob()), write_pte(small_file())}) {
    for (std::size_t size = 0; size < file.size(); ++size) {
      const Bytes cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_FALSE(read_program(cut)) << size;
    }
  }
}

TEST(DamagedPte, no_changed_byte_puts_a_constant_outside_the_file) {
  for (auto file : {make_pte(embedding_blob()), write_pte(small_file())}) {
    for (auto& byte : file) {
      const auto good = byte;
      for (int change = 1; change < 256; change = change < 128 ? change * 2 : change + 127) {
        byte = good ^ static_cast<std::byte>(change);
        const auto program = read_program(file);
        if (!program) continue;
        for (const auto& constant : program->graph.constants) {
          ASSERT_TRUE(constant.located);
          ASSERT_LE(constant.offset, file.size());
          ASSERT_LE(constant.length, file.size() - constant.offset);
        }
      }
      byte = good;
    }
  }
}

}  // namespace
}  // namespace nibble::test
