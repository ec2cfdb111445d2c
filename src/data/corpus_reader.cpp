#include "data/corpus_reader.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/files.h"

namespace headloom {

namespace fs = std::filesystem;

std::vector<fs::path> corpus_files(const std::vector<std::string>& paths) {
  std::vector<fs::path> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (fs::is_directory(path, error)) {
      std::vector<fs::path> found;
      for (auto entry = fs::recursive_directory_iterator(path);
           entry != fs::recursive_directory_iterator(); ++entry) {
        const bool hidden = entry->path().filename().string().starts_with(".");
        if (hidden && entry->is_directory()) entry.disable_recursion_pending();
        if (!hidden && entry->is_regular_file() && !entry->is_symlink()) {
          found.push_back(entry->path());
        }
      }
      std::sort(found.begin(), found.end());
      files.insert(files.end(), found.begin(), found.end());
    } else if (fs::is_regular_file(path, error)) {
      files.emplace_back(path);
    } else {
      fail("cannot read the corpus {}: no such file or folder", path);
    }
  }
  if (corpus_bytes(files) == 0) {
    fail("the corpus {} holds no text", fmt::join(paths, " "));
  }
  return files;
}

void for_each_document(const std::vector<fs::path>& files,
                       const std::function<void(std::string_view)>& visit) {
  for (const fs::path& file : files) {
    const MappedFile mapped(file);
    if (!mapped.text().empty()) visit(mapped.text());
  }
}

std::int64_t corpus_bytes(const std::vector<fs::path>& files) {
  std::int64_t bytes = 0;
  for (const fs::path& file : files) bytes += static_cast<std::int64_t>(fs::file_size(file));
  return bytes;
}

std::uint64_t corpus_fingerprint(const std::vector<fs::path>& files) {
  std::uint64_t hash = 0;
  for_each_document(files, [&](std::string_view text) { hash = hash_bytes(text, hash + 1); });
  return hash;
}

}  // namespace headloom
