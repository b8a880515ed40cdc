// SPDX-License-Identifier: Apache-2.0
// LLVM IR text to machine code by ORC's compiler for this processor.
#include <llvm/AsmParser/Parser.h>
#include <llvm/ExecutionEngine/Orc/CompileUtils.h>
#include <llvm/ExecutionEngine/Orc/JITTargetMachineBuilder.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <cstdio>
#include <memory>
#include <string>

#include "cpu/codegen/module/flatten.h"
#include "cpu/codegen/module/module.h"

namespace transom::cpu::codegen {
namespace {

// The processor and its features are asked for once.
const llvm::orc::JITTargetMachineBuilder& host() {
  static const llvm::orc::JITTargetMachineBuilder builder = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    auto found = llvm::cantFail(llvm::orc::JITTargetMachineBuilder::detectHost());
    found.setRelocationModel(llvm::Reloc::PIC_);
    found.setCodeModel(llvm::CodeModel::Small);
    found.setCodeGenOptLevel(llvm::CodeGenOptLevel::Default);
    found.getOptions().AllowFPOpFusion = llvm::FPOpFusion::Strict;  // each node is rounded by itself
    return found;
  }();
  return builder;
}

std::string assembly_of(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile))
    return "this target has no assembly printer\n";
  passes.run(module);
  return std::string(text);
}

std::string compile(const char* text, size_t count, const transom_codegen_result& result) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic diagnostic;
  const std::unique_ptr<llvm::Module> module =
      llvm::parseAssembly(llvm::MemoryBufferRef(llvm::StringRef(text, count), "kernel"), diagnostic, context);
  if (!module) return "line " + std::to_string(diagnostic.getLineNo()) + ": " + diagnostic.getMessage().str();
  llvm::orc::JITTargetMachineBuilder builder = host();
  auto machine = builder.createTargetMachine();
  if (!machine) return llvm::toString(machine.takeError());
  module->setDataLayout((*machine)->createDataLayout());
  module->setTargetTriple((*machine)->getTargetTriple().str());
  std::string problem;
  llvm::raw_string_ostream problems(problem);
  if (llvm::verifyModule(*module, &problems)) return problem;
  if (result.assembly) {
    const std::string lines = assembly_of(*module, **machine);
    result.assembly(result.user, lines.data(), lines.size());
  }
  if (!result.code) return {};
  llvm::orc::SimpleCompiler compiler(**machine);
  auto object = compiler(*module);
  if (!object) return llvm::toString(object.takeError());
  FlatCode code;
  if (std::string failure = flatten(**object, code); !failure.empty()) return failure;
  result.code(result.user, code.bytes.data(), code.bytes.size(), code.entry);
  return {};
}

}  // namespace
}  // namespace transom::cpu::codegen

extern "C" __attribute__((visibility("default"))) int transom_codegen_compile(const char* text, size_t count,
                                                                              const transom_codegen_result* result,
                                                                              char* error, size_t error_size) {
  std::string failure = transom::cpu::codegen::compile(text, count, *result);
  if (failure.empty()) return 0;
  if (const size_t end = failure.find('\n'); end != failure.npos) failure.resize(end);
  std::snprintf(error, error_size, "%s", failure.c_str());
  return 1;
}
