#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace headloom {

/// Token ids of a run's held-out text, whole windows of its context, at most `limit` of them.
/// Errors: kFailed when the run holds nothing out or its tokens are gone.
std::vector<std::int32_t> held_out_tokens(const std::filesystem::path& run, std::int64_t limit);

}  // namespace headloom
