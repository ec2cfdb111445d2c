#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace headloom {

/// Text as people have it: where it lies and how it is read.
struct Corpus {
  std::vector<std::filesystem::path> files;
  std::string field = "text";  ///< of the objects in .jsonl files
};

/// A file that every run's folder holds: a run inside its own corpus is not part of it.
inline constexpr const char* kRunMarker = "headloom.lock";

/// The files behind the given paths. A file is itself; a folder is every regular file below it
/// whose name does not start with a dot, in the order of their paths, runs left out; a path with *
/// ? or [ that is no file is a pattern. Errors: a path or pattern that names nothing, or nothing
/// with any text.
std::vector<std::filesystem::path> corpus_files(const std::vector<std::string>& paths);

/// Calls `visit(part, last)` with every document in order, in parts of about a megabyte that end
/// where pieces of the tokenizer end, `last` with the document's last part. A file is one document;
/// each object of a .jsonl file is one, by its named field. A byte order mark is left out, CRLF
/// becomes LF, everything else (invalid UTF-8 too) comes through as it is; empty documents are
/// skipped. Memory stays bounded whatever the sizes: files are mapped. Errors: names file and line
/// of a .jsonl object without the field.
void for_each_part(const Corpus& corpus,
                   const std::function<void(std::string_view part, bool last)>& visit);

/// Sum of the sizes of the files.
std::int64_t corpus_bytes(const std::vector<std::filesystem::path>& files);

/// Changes whenever a byte of a file, their order or the field does.
std::uint64_t corpus_fingerprint(const Corpus& corpus);

}  // namespace headloom
