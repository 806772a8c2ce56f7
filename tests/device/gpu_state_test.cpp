#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "gpu_fixture.hpp"
#include "nibble/nibble.h"
#include "support/pte_builder.hpp"
#include "support/small_programs.hpp"

namespace nibble::test {
namespace {

constexpr std::uint32_t kPlaces = 10;

class StateTest : public GpuTest {
 protected:
  Status set_place(Session& session, std::int64_t place) {
    const HostTensor x = tensor(DType::f32, {1, 1, 4, 8}, ones_);
    const HostTensor at{.dtype = DType::i64, .shape = {1}, .data = &place};
    return session.set_inputs(std::array{x, x, x, at});
  }
  static Status run(Session& session) {
    const HostOutput none;
    return session.execute({&none, 1});
  }

  std::vector<float> ones_ = std::vector<float>(32, 1);
};

TEST_F(StateTest, a_session_tells_what_it_keeps) {
  auto loaded = load(cached_attention_blob(kPlaces));
  ASSERT_TRUE(succeeds(loaded));
  const auto states = loaded->session.states().value();
  ASSERT_EQ(states.size(), 2U);
  EXPECT_EQ(states[0].role, "key_cache");
  EXPECT_EQ(states[1].role, "value_cache");
  for (const auto& state : states) {
    EXPECT_EQ(state.dtype, DType::f32);
    EXPECT_EQ(state.shape, (Shape{1, kPlaces, 4, 8}));
    EXPECT_EQ(state.row_axis, 1U);
    EXPECT_EQ(state.rows, 0);
  }
  loaded = load(embedding());
  ASSERT_TRUE(succeeds(loaded));
  EXPECT_TRUE(loaded->session.states().value().empty());
}

TEST_F(StateTest, rows_in_use_are_those_of_the_last_call_that_ran) {
  auto loaded = load(cached_attention_blob(kPlaces));
  ASSERT_TRUE(succeeds(loaded));
  Session& session = loaded->session;
  const auto rows = [&] {
    const auto states = session.states().value();
    EXPECT_EQ(states[0].rows, states[1].rows);
    return states[0].rows;
  };
  ASSERT_TRUE(succeeds(set_place(session, 0)));
  EXPECT_EQ(rows(), 0) << "nothing ran yet";
  ASSERT_TRUE(succeeds(run(session)));
  EXPECT_EQ(rows(), 1);
  ASSERT_TRUE(succeeds(set_place(session, 5)));
  EXPECT_EQ(rows(), 1);
  ASSERT_TRUE(succeeds(run(session)));
  EXPECT_EQ(rows(), 6);
  EXPECT_FALSE(succeeds(set_place(session, kPlaces)));
  EXPECT_EQ(rows(), 6) << "a call that is refused changes nothing";
}

TEST_F(StateTest, a_session_of_a_lost_device_says_so_whatever_its_state_is) {
  auto loaded = load(cached_attention_blob(kPlaces));
  ASSERT_TRUE(succeeds(loaded));
  Session& session = loaded->session;
  for (std::int64_t place = 0; place < 3; ++place) {
    ASSERT_TRUE(succeeds(set_place(session, place)));
    ASSERT_TRUE(succeeds(run(session)));
  }
  auto incomplete = session.fork();
  ASSERT_TRUE(succeeds(incomplete));
  const std::string path = std::filesystem::temp_directory_path() / fmt::format("nibble_lost_{}.state", getpid());
  ASSERT_TRUE(succeeds(session.save(path)));
  set_stop_check([] { return true; });
  EXPECT_TRUE(fails_with(incomplete->restore(path), "cancelled"));
  set_stop_check(nullptr);
  EXPECT_TRUE(fails_with(set_place(*incomplete, 0), "this session's state is incomplete"));

  Internals::of(device)->gpu->destroy_for_test();
  EXPECT_TRUE(fails_with(load(embedding()), "is lost")) << "who notices it first";
  const auto unsaved = path + ".unsaved";
  for (Session* one : {&session, &*incomplete}) {
    const Status answers[] = {one->rewind(1), one->reset(), one->save(unsaved), one->restore(path), set_place(*one, 3)};
    for (const auto& answer : answers) {
      ASSERT_TRUE(fails_with(answer, "is lost"));
      EXPECT_EQ(answer.error().code, ErrorCode::device_lost);
    }
    EXPECT_TRUE(fails_with(one->fork(), "is lost"));
    EXPECT_EQ(one->states().value()[0].rows, 3) << "what is known can be read";
  }
  EXPECT_FALSE(std::filesystem::exists(unsaved));
  std::filesystem::remove(path);
}

TEST_F(StateTest, the_c_api_tells_states_as_json) {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("nibble_state_{}.pte", getpid());
  const Bytes bytes = make_pte(cached_attention_blob(kPlaces), {.wide_ints = true});
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  nibble_device* opened = nibble_device_open(nullptr, nullptr);
  nibble_model* model = nibble_model_load(opened, path.c_str(), nullptr);
  nibble_session* session = nibble_model_session(model);
  std::filesystem::remove(path);
  ASSERT_NE(session, nullptr) << nibble_error();
  const auto told = [](std::string_view role) {
    return fmt::format(R"({{"role":"{}","dtype":"float32","shape":[1,10,4,8],"row_axis":1,"rows":0}})", role);
  };
  EXPECT_EQ(nibble_session_states_json(session), fmt::format("[{},{}]", told("key_cache"), told("value_cache")));
  EXPECT_EQ(nibble_session_states_json(nullptr), nullptr);
  EXPECT_STREQ(nibble_error(), "the session is null");
  nibble_session_free(session);
  nibble_model_free(model);
  nibble_device_free(opened);
}

}  // namespace
}  // namespace nibble::test
