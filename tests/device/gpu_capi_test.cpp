#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>

#include "gpu_fixture.hpp"
#include "nibble/nibble.h"
#include "support/pte_builder.hpp"

namespace nibble::test {
namespace {

class CApiTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / fmt::format("nibble_capi_{}.pte", getpid());
    Pte pte = describe(embedding(), {.wide_ints = true, .dynamic = true});
    pte.methods.push_back(constant_method("get_vocab_size", {std::int64_t{50}}));
    const Bytes bytes = write_pte(pte);
    std::FILE* file = std::fopen(path_.c_str(), "wb");
    ASSERT_NE(file, nullptr);
    ASSERT_EQ(std::fwrite(bytes.data(), 1, bytes.size(), file), bytes.size());
    std::fclose(file);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::filesystem::path path_;
};

TEST_F(CApiTest, options_reach_the_plan) {
  nibble_device* device = nibble_device_open(nullptr, nullptr);
  ASSERT_NE(device, nullptr) << nibble_error();
  const auto complaint = [&](const nibble_load_options& options) -> std::string {
    nibble_model* model = nibble_model_load(device, path_.c_str(), &options);
    const std::string sentence = model == nullptr ? nibble_error() : "";
    nibble_model_free(model);
    return sentence;
  };
  nibble_load_options options{};
  EXPECT_EQ(complaint(options), "");
  options.without_passes = "views,nothing";
  EXPECT_NE(complaint(options).find("there is no pass 'nothing'"), std::string::npos);
  options = {};
  options.variants = "product=";
  EXPECT_NE(complaint(options).find("'product=' forces no variant"), std::string::npos);
  options = {};
  options.tuning = R"({"choices": [{"choice": "product", "variant": "tile", "rows": [2, 1]}]})";
  EXPECT_EQ(complaint(options), "choices[0] of the tuning is for rows from 2 to 1");
  options = {};
  options.method = "backward";
  EXPECT_NE(complaint(options).find("'backward'"), std::string::npos);
  nibble_device_free(device);
}

nibble_tensor input_of(std::vector<std::int64_t>& ids) {
  nibble_tensor input{};
  input.dtype = NIBBLE_INT64;
  input.rank = 2;
  input.shape[0] = 1;
  input.shape[1] = static_cast<std::int64_t>(ids.size());
  input.data = ids.data();
  input.bytes = ids.size() * sizeof(ids[0]);
  return input;
}

TEST_F(CApiTest, runs_a_file) {
  nibble_device* device = nibble_device_open(nullptr, nullptr);
  ASSERT_NE(device, nullptr) << nibble_error();
  EXPECT_NE(std::strstr(nibble_devices_json(nullptr), "\"index\":0"), nullptr);
  EXPECT_NE(std::strstr(nibble_device_json(device), "\"kind\""), nullptr);
  const auto objects = nibble_device_live_objects(device);

  nibble_model* model = nibble_model_load(device, path_.c_str(), nullptr);
  ASSERT_NE(model, nullptr) << nibble_error();
  EXPECT_STREQ(nibble_model_constants_json(model), "{\"get_vocab_size\":50}");
  ASSERT_EQ(nibble_model_input_count(model), 1U);
  ASSERT_EQ(nibble_model_output_count(model), 1U);
  nibble_tensor info{};
  ASSERT_TRUE(nibble_model_input(model, 0, &info));
  EXPECT_EQ(info.dtype, NIBBLE_INT64);
  EXPECT_EQ(info.rank, 2U);
  EXPECT_EQ(info.shape[1], 100);
  EXPECT_FALSE(nibble_model_output(model, 1, &info));
  EXPECT_STREQ(nibble_error(), "there is no output 1: the program has 1");

  nibble_session* session = nibble_model_session(model);
  ASSERT_NE(session, nullptr) << nibble_error();
  std::vector<std::int64_t> ids = {3, 49};
  nibble_tensor input = input_of(ids);
  ASSERT_TRUE(nibble_session_set_inputs(session, &input, 1)) << nibble_error();
  nibble_tensor output{};
  ASSERT_TRUE(nibble_session_output(session, 0, &output));
  ASSERT_EQ(output.rank, 3U);
  EXPECT_EQ(output.shape[1], 2);
  std::vector<float> out(2 * kWidth);
  output.data = out.data();
  output.bytes = out.size() * 4;
  ASSERT_TRUE(nibble_session_execute(session, &output, 1)) << nibble_error();
  EXPECT_TRUE(are_rows(out, ids));

  ids[1] = 50;
  EXPECT_FALSE(nibble_session_set_inputs(session, &input, 1));
  EXPECT_EQ(nibble_error_code(), static_cast<std::int32_t>(ErrorCode::out_of_range));
  EXPECT_NE(std::strstr(nibble_error(), "[0, 1] is 50"), nullptr);
  EXPECT_FALSE(nibble_session_set_inputs(session, nullptr, 0));
  EXPECT_STREQ(nibble_error(), "0 inputs are given, but the program takes 1");
  input.bytes = 15;
  EXPECT_FALSE(nibble_session_set_inputs(session, &input, 1));
  EXPECT_STREQ(nibble_error(), "input 0 has shape [1, 2] and takes 16 bytes as int64, but 15 are given");
  input.bytes = 16;
  input.rank = 9;
  EXPECT_FALSE(nibble_session_set_inputs(session, &input, 1));
  input.rank = 2;
  input.dtype = 12;
  EXPECT_FALSE(nibble_session_set_inputs(session, &input, 1));
  EXPECT_STREQ(nibble_error(), "input 0 has the unknown dtype number 12");

  nibble_model_free(model);
  nibble_session_free(session);
  EXPECT_EQ(nibble_device_live_objects(device), objects);
  nibble_device_free(device);
}

TEST_F(CApiTest, a_model_runs_by_itself) {
  nibble_device* device = nibble_device_open(nullptr, nullptr);
  ASSERT_NE(device, nullptr) << nibble_error();
  nibble_model* model = nibble_model_load(device, path_.c_str(), nullptr);
  ASSERT_NE(model, nullptr) << nibble_error();
  nibble_device_free(device);
  std::vector<std::int64_t> ids = {3, 49};
  nibble_tensor input = input_of(ids);
  nibble_tensor output{};
  for (const std::int64_t last : {49, 7}) {
    ids[1] = last;
    ASSERT_TRUE(nibble_model_run(model, &input, 1, &output, 1)) << nibble_error();
    EXPECT_EQ(output.dtype, NIBBLE_FLOAT32);
    EXPECT_EQ(output.shape[1], 2);
    ASSERT_EQ(output.bytes, 2 * kWidth * sizeof(float));
    const auto* elements = static_cast<const float*>(output.data);
    EXPECT_TRUE(are_rows(std::vector(elements, elements + 2 * kWidth), ids));
  }
  EXPECT_FALSE(nibble_model_run(model, &input, 1, nullptr, 0));
  EXPECT_STREQ(nibble_error(), "0 outputs are given, but the program has 1");
  EXPECT_FALSE(nibble_model_run(model, nullptr, 1, &output, 1));
  EXPECT_STREQ(nibble_error(), "the list of inputs is null");
  ids[0] = 50;
  EXPECT_FALSE(nibble_model_run(model, &input, 1, &output, 1));
  EXPECT_NE(std::strstr(nibble_error(), "[0, 0] is 50"), nullptr);
  EXPECT_FALSE(nibble_model_run(nullptr, &input, 1, &output, 1));
  nibble_model_free(model);
}

TEST_F(CApiTest, null_and_missing_things_are_errors) {
  EXPECT_STREQ(nibble_version(), version().data());
  EXPECT_EQ(nibble_device_open("no such thing", nullptr), nullptr);
  EXPECT_NE(std::strstr(nibble_error(), "no device matches"), nullptr);
  EXPECT_EQ(nibble_device_json(nullptr), nullptr);
  EXPECT_EQ(nibble_model_load(nullptr, "x", nullptr), nullptr);
  EXPECT_STREQ(nibble_error(), "the device is null");
  EXPECT_EQ(nibble_model_session(nullptr), nullptr);
  EXPECT_FALSE(nibble_session_execute(nullptr, nullptr, 0));
  nibble_session_free(nullptr);
  nibble_model_free(nullptr);
  nibble_device_free(nullptr);
  nibble_device* device = nibble_device_open("", "");
  ASSERT_NE(device, nullptr) << nibble_error();
  EXPECT_EQ(nibble_model_load(device, "/no/such/file.pte", nullptr), nullptr);
  EXPECT_EQ(nibble_error_code(), static_cast<std::int32_t>(ErrorCode::io));
  nibble_device_free(device);
}

}  // namespace
}  // namespace nibble::test
