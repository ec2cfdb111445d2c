#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace headloom {

/// The files behind the given paths: a file is itself, a folder every regular file below it whose
/// name does not start with a dot, in the order of their paths. Errors: a path that does not exist,
/// or no file with any text.
std::vector<std::filesystem::path> corpus_files(const std::vector<std::string>& paths);

/// Calls `visit` with the text of each file, one document each, in order. The files are mapped, so
/// memory stays bounded whatever their size.
void for_each_document(const std::vector<std::filesystem::path>& files,
                       const std::function<void(std::string_view)>& visit);

/// Sum of the sizes of the files.
std::int64_t corpus_bytes(const std::vector<std::filesystem::path>& files);

/// Changes whenever a byte or the order of the documents does.
std::uint64_t corpus_fingerprint(const std::vector<std::filesystem::path>& files);

}  // namespace headloom
