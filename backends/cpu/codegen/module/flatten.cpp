// SPDX-License-Identifier: Apache-2.0
#include "cpu/codegen/module/flatten.h"

#include <llvm/BinaryFormat/ELF.h>
#include <llvm/Object/ELFObjectFile.h>

#include <cstring>
#include <map>

namespace transom::cpu::codegen {
namespace {

using Object = llvm::object::ELF64LEObjectFile;

// Where each section that is loaded lies in the flat code.
std::string place_sections(const Object& object, FlatCode& code, std::map<llvm::object::SectionRef, size_t>& places) {
  for (const llvm::object::SectionRef& section : object.sections()) {
    const llvm::object::ELFSectionRef elf(section);
    if (!(elf.getFlags() & llvm::ELF::SHF_ALLOC) || section.getSize() == 0) continue;
    if (elf.getFlags() & llvm::ELF::SHF_WRITE) return "writable data";
    auto contents = section.getContents();
    if (!contents) return llvm::toString(contents.takeError());
    const size_t alignment = section.getAlignment().value();
    if (alignment > 4096) return "an alignment beyond a page";
    code.bytes.resize((code.bytes.size() + alignment - 1) / alignment * alignment);
    places[section] = code.bytes.size();
    code.bytes.insert(code.bytes.end(), contents->begin(), contents->end());
  }
  return {};
}

std::string fill_in(const Object& object, const llvm::object::SectionRef& section, size_t base, FlatCode& code,
                    const std::map<llvm::object::SectionRef, size_t>& places) {
  for (const llvm::object::RelocationRef& relocation : section.relocations()) {
    const auto type = relocation.getType();
    if (type != llvm::ELF::R_X86_64_PC32 && type != llvm::ELF::R_X86_64_PLT32)
      return "relocation " + std::to_string(type);
    const auto symbol = relocation.getSymbol();
    if (symbol == object.symbol_end()) return "a relocation without a symbol";
    auto home = symbol->getSection();
    if (!home) return llvm::toString(home.takeError());
    const auto place = *home == object.section_end() ? places.end() : places.find(**home);
    if (place == places.end()) {
      auto name = symbol->getName();
      return "a call of " + (name ? name->str() : std::string("something without a name"));
    }
    auto value = symbol->getValue();
    auto addend = llvm::object::ELFRelocationRef(relocation).getAddend();
    if (!value || !addend) return "a symbol without a value";
    const size_t at = base + relocation.getOffset();
    if (at + 4 > code.bytes.size()) return "a relocation outside of its section";
    const int64_t distance = static_cast<int64_t>(place->second + *value) + *addend - static_cast<int64_t>(at);
    const int32_t narrow = static_cast<int32_t>(distance);
    if (narrow != distance) return "code beyond 2 GiB";
    std::memcpy(code.bytes.data() + at, &narrow, sizeof narrow);
  }
  return {};
}

}  // namespace

std::string flatten(const llvm::MemoryBuffer& buffer, FlatCode& code) {
  auto opened = llvm::object::ObjectFile::createELFObjectFile(buffer.getMemBufferRef());
  if (!opened) return llvm::toString(opened.takeError());
  const auto* object = llvm::dyn_cast<Object>(opened->get());
  if (!object || object->getArch() != llvm::Triple::x86_64) return "this machine's object format is not known here";
  std::map<llvm::object::SectionRef, size_t> places;
  if (std::string failure = place_sections(*object, code, places); !failure.empty()) return failure;
  for (const llvm::object::SectionRef& section : object->sections()) {
    auto target = section.getRelocatedSection();
    if (!target || *target == object->section_end()) continue;
    const auto place = places.find(**target);
    if (place == places.end()) continue;
    if (std::string failure = fill_in(*object, section, place->second, code, places); !failure.empty()) return failure;
  }
  for (const llvm::object::SymbolRef& symbol : object->symbols()) {
    auto name = symbol.getName();
    auto home = symbol.getSection();
    auto value = symbol.getValue();
    if (!name || *name != "kernel" || !home || !value) continue;
    const auto place = *home == object->section_end() ? places.end() : places.find(**home);
    if (place == places.end()) continue;
    code.entry = place->second + *value;
    return {};
  }
  return "no function named kernel";
}

}  // namespace transom::cpu::codegen
