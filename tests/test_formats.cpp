// safetensors: what is written comes back, and every way of being damaged is refused.
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "base/temporary.h"
#include "formats/safetensors.h"

namespace headloom {
namespace {

/// A file with this header and this much data.
std::string file_of(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes + header + std::string(data_bytes, '\0');
}

class Safetensors : public testing::Test {
 protected:
  /// The message with which the bytes are refused; "" when they are accepted.
  std::string refused(const std::string& bytes) {
    write_file_atomic(path_, bytes);
    try {
      SafetensorsFile file(path_);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "x.safetensors";
};

TEST_F(Safetensors, ComesBackTheSame) {
  const std::vector<float> a = {1, 2, 3, 4, 5, 6}, b = {7};
  const std::uint64_t hash = write_safetensors(
      path_, {{"z", {2, 3}, a.data()}, {"scalar", {}, b.data()}, {"empty", {0, 4}, b.data()}},
      {{"format", "pt"}});
  const SafetensorsFile file(path_);
  EXPECT_EQ(hash_bytes(file.bytes()), hash);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  ASSERT_EQ(file.tensors().size(), 3U);
  std::vector<float> read(6);
  file.read_f32("z", {2, 3}, read.data());
  EXPECT_EQ(read, a);
  file.read_f32("scalar", {}, read.data());
  EXPECT_EQ(read[0], 7.0F);
  std::uint64_t length = 0;
  std::memcpy(&length, file.bytes().data(), sizeof(length));
  EXPECT_EQ(length % 8, 0U);
  EXPECT_EQ(file.bytes()[8], '{');
  EXPECT_THROW(file.read_f32("z", {3, 2}, read.data()), Error);
  EXPECT_THROW(file.read_f32("y", {2, 3}, read.data()), Error);
}

TEST_F(Safetensors, DamageIsRefused) {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(refused(file_of(good, 8)), "");
  const auto header = [&](const char* text, std::size_t data, const char* wanted) {
    const std::string message = refused(file_of(text, data));
    EXPECT_NE(message.find(wanted), std::string::npos) << text << "\n  gave: " << message;
    EXPECT_NE(message.find("x.safetensors"), std::string::npos) << message;
  };
  header(good.c_str(), 7, "do not fit");
  header(good.c_str(), 9, "1 bytes after the last tensor");
  header(R"({"a":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}})", 8, "unknown dtype F31");
  header(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8, "needs 12 bytes");
  header(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8, "not a list of sizes");
  header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8, "do not fit");
  header(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,8]}})", 8,
         "overflows");
  header(R"({"a":{"dtype":"F32","shape":[2]}})", 8, "wants dtype, shape and data_offsets");
  header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "hole");
  header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
         R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
         8, "overlap");
  header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
         R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
         8, "twice");
  header(R"( {"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8, "does not start with");
  header("{", 0, "not valid JSON");
  header("[]", 0, "does not start with");
  EXPECT_NE(refused(""), "");
  EXPECT_NE(refused("1234567"), "");
  EXPECT_NE(refused(std::string(8, '\xFF')), "");  // length near 2^64
  EXPECT_NE(refused(file_of(good, 8).substr(0, 30)), "");
}

TEST_F(Safetensors, TruncationAtEveryByteIsRefused) {
  const std::vector<float> numbers = {1, 2, 3};
  write_safetensors(path_, {{"a", {3}, numbers.data()}}, {});
  const std::string whole = read_file(path_);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(refused(whole.substr(0, size)), "") << size;
  }
}

}  // namespace
}  // namespace headloom
