#include "data/corpus_reader.h"

#include <glob.h>

#include <algorithm>

#include "base/error.h"
#include "base/fields.h"
#include "base/files.h"
#include "tokenizer/pretokenize.h"

namespace headloom {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPart = std::size_t{1} << 20;

void add_folder(const fs::path& folder, std::vector<fs::path>& files) {
  std::vector<fs::path> found;
  for (auto entry = fs::recursive_directory_iterator(folder);
       entry != fs::recursive_directory_iterator(); ++entry) {
    const bool hidden = entry->path().filename().string().starts_with(".");
    const bool is_run = fs::exists(entry->path() / kRunMarker);
    if ((hidden || is_run) && entry->is_directory()) entry.disable_recursion_pending();
    if (!hidden && entry->is_regular_file() && !entry->is_symlink()) found.push_back(entry->path());
  }
  std::sort(found.begin(), found.end());
  files.insert(files.end(), found.begin(), found.end());
}

/// The files that a shell pattern names.
std::vector<std::string> expand_pattern(const std::string& pattern) {
  glob_t matches{};
  std::vector<std::string> paths;
  if (::glob(pattern.c_str(), 0, nullptr, &matches) == 0) {
    paths.assign(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  }
  ::globfree(&matches);
  return paths;
}

void add_path(const std::string& path, bool is_pattern, std::vector<fs::path>& files) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    add_folder(path, files);
  } else if (fs::is_regular_file(path, error)) {
    files.emplace_back(path);
  } else if (!is_pattern && path.find_first_of("*?[") != path.npos) {
    const std::vector<std::string> matches = expand_pattern(path);
    if (matches.empty()) fail("no file matches the pattern {}", path);
    for (const std::string& match : matches) add_path(match, true, files);
  } else {
    fail("cannot read the corpus {}: no such file or folder", path);
  }
}

/// Where the first part of a long text ends: about kPart on, at the end of a piece.
std::size_t part_end(std::string_view text) {
  if (text.size() <= kPart) return text.size();
  // A space after a printable ASCII character begins a piece whatever comes next.
  for (std::size_t i = kPart; i > kPart / 2; --i) {
    if (text[i] == ' ' && text[i - 1] > ' ' && text[i - 1] < 0x7F) return i;
  }
  const std::string_view window = text.substr(0, 2 * kPart);
  std::size_t end = 0;
  while (end < kPart) {
    const std::size_t next = piece_end(window, end);
    if (next == window.size()) break;
    end = next;
  }
  return end > 0 ? end : kPart;  // One piece of more than a megabyte is cut where it is.
}

void visit_document(std::string_view text,
                    const std::function<void(std::string_view, bool)>& visit) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  while (!text.empty()) {
    const std::size_t end = part_end(text);
    const std::string_view part = text.substr(0, end);
    text.remove_prefix(end);
    if (part.find("\r\n") == part.npos) {
      visit(part, text.empty());
      continue;
    }
    std::string unix_lines;
    for (std::size_t i = 0; i < part.size(); ++i) {
      if (part[i] != '\r' || part.substr(i, 2) != "\r\n") unix_lines += part[i];
    }
    visit(unix_lines, text.empty());
  }
}

/// Visits the named field of each object, line by line.
void visit_json_lines(const fs::path& file, std::string_view text, const std::string& field,
                      const std::function<void(std::string_view, bool)>& visit) {
  std::int64_t line_number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line_number;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    const Json object = Json::parse(line, nullptr, false);
    if (object.is_discarded()) fail("{}:{}: not valid JSON in UTF-8", file.string(), line_number);
    if (!object.is_object() || !object.contains(field) || !object[field].is_string()) {
      fail("{}:{}: no object with a text field \"{}\"; choose another with --field", file.string(),
           line_number, field);
    }
    visit_document(object[field].get_ref<const std::string&>(), visit);
  }
}

}  // namespace

std::vector<fs::path> corpus_files(const std::vector<std::string>& paths) {
  std::vector<fs::path> files;
  for (const std::string& path : paths) add_path(path, false, files);
  if (corpus_bytes(files) == 0) {
    fail("the corpus {} holds no text", fmt::join(paths, " "));
  }
  return files;
}

void for_each_part(const Corpus& corpus,
                   const std::function<void(std::string_view part, bool last)>& visit) {
  for (const fs::path& file : corpus.files) {
    const MappedFile mapped(file);
    if (file.extension() == ".jsonl") {
      visit_json_lines(file, mapped.text(), corpus.field, visit);
    } else {
      visit_document(mapped.text(), visit);
    }
  }
}

std::int64_t corpus_bytes(const std::vector<fs::path>& files) {
  std::int64_t bytes = 0;
  for (const fs::path& file : files) bytes += static_cast<std::int64_t>(fs::file_size(file));
  return bytes;
}

std::uint64_t corpus_fingerprint(const Corpus& corpus) {
  std::uint64_t hash = hash_bytes(corpus.field);
  for (const fs::path& file : corpus.files) hash = hash_bytes(MappedFile(file).text(), hash + 1);
  return hash;
}

}  // namespace headloom
