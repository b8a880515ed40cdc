// SPDX-License-Identifier: Apache-2.0
#include "synapse/harness.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>

namespace synapse_tests {

void* symbol(const char* name) {
  static void* library = dlopen(SYNAPSE_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    std::cerr << dlerror() << "\n";
    std::abort();
  }
  void* found = dlsym(library, name);
  if (!found) {
    std::cerr << "the library has no " << name << "\n";
    std::abort();
  }
  return found;
}

bool in_child(const Environment& environment, const std::function<void()>& body) {
  std::cout.flush();
  const pid_t child = fork();
  if (child == 0) {
    for (const auto& [name, text] : environment) setenv(name.c_str(), text.c_str(), 1);
    body();
    std::cout.flush();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::string scratch(const std::string& name) {
  const auto path = std::filesystem::temp_directory_path() / ("synapse-test-" + std::to_string(getpid()) + "-" + name);
  std::filesystem::remove(path);
  struct Files {  // those of the parent; children leave by _exit
    std::vector<std::filesystem::path> paths;
    ~Files() {
      std::error_code ignored;
      for (const auto& file : paths) std::filesystem::remove(file, ignored);
    }
  };
  static Files files;
  files.paths.push_back(path);
  return path;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

int count_of(const std::string& text, const std::string& piece) {
  int count = 0;
  for (size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1)) ++count;
  return count;
}

size_t size_of(synDataType type) {
  switch (type) {
    case syn_type_int8:
    case syn_type_uint8:
    case syn_type_fp8_143:
    case syn_type_fp8_152:
      return 1;
    case syn_type_bf16:
    case syn_type_fp16:
    case syn_type_int16:
    case syn_type_uint16:
      return 2;
    case syn_type_int64:
      return 8;
    default:
      return 4;
  }
}

size_t Value::elements() const {
  size_t count = 1;
  for (const uint64_t size : sizes) count *= size;
  return count;
}

namespace {

template <typename T>
void append(std::vector<char>& bytes, T number) {
  const char* begin = reinterpret_cast<const char*>(&number);
  bytes.insert(bytes.end(), begin, begin + sizeof number);
}
template <typename T>
T at(const std::vector<char>& bytes, size_t index) {
  T number;
  std::memcpy(&number, bytes.data() + index * sizeof number, sizeof number);
  return number;
}
uint16_t to_bf16(float number) {
  const auto bits = std::bit_cast<uint32_t>(number);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

}  // namespace

std::vector<double> Value::numbers() const {
  std::vector<double> result;
  for (size_t i = 0; i < elements(); ++i) {
    switch (type) {
      case syn_type_bf16:
        result.push_back(std::bit_cast<float>(uint32_t{at<uint16_t>(bytes, i)} << 16));
        break;
      case syn_type_int8:
        result.push_back(at<int8_t>(bytes, i));
        break;
      case syn_type_uint8:
      case syn_type_fp8_143:
      case syn_type_fp8_152:
        result.push_back(at<uint8_t>(bytes, i));
        break;
      case syn_type_int16:
        result.push_back(at<int16_t>(bytes, i));
        break;
      case syn_type_uint16:
      case syn_type_fp16:
        result.push_back(at<uint16_t>(bytes, i));
        break;
      case syn_type_int32:
        result.push_back(at<int32_t>(bytes, i));
        break;
      case syn_type_uint32:
        result.push_back(at<uint32_t>(bytes, i));
        break;
      case syn_type_int64:
        result.push_back(static_cast<double>(at<int64_t>(bytes, i)));
        break;
      default:
        result.push_back(at<float>(bytes, i));
    }
  }
  return result;
}

Value empty(const std::vector<uint64_t>& sizes, synDataType type) {
  Value result;
  result.sizes = sizes;
  result.type = type;
  result.bytes.resize(result.elements() * size_of(type));
  return result;
}

Value value(const std::vector<uint64_t>& sizes, const std::vector<double>& numbers, synDataType type) {
  Value result;
  result.sizes = sizes;
  result.type = type;
  for (const double number : numbers) {
    switch (type) {
      case syn_type_bf16:
        append(result.bytes, to_bf16(static_cast<float>(number)));
        break;
      case syn_type_int8:
        append(result.bytes, static_cast<int8_t>(number));
        break;
      case syn_type_uint8:
      case syn_type_fp8_143:
      case syn_type_fp8_152:
        append(result.bytes, static_cast<uint8_t>(number));
        break;
      case syn_type_int16:
        append(result.bytes, static_cast<int16_t>(number));
        break;
      case syn_type_uint16:
      case syn_type_fp16:
        append(result.bytes, static_cast<uint16_t>(number));
        break;
      case syn_type_int32:
        append(result.bytes, static_cast<int32_t>(number));
        break;
      case syn_type_uint32:
        append(result.bytes, static_cast<uint32_t>(number));
        break;
      case syn_type_int64:
        append(result.bytes, static_cast<int64_t>(number));
        break;
      default:
        append(result.bytes, static_cast<float>(number));
    }
  }
  EXPECT_EQ(result.bytes.size(), result.elements() * size_of(type));
  return result;
}

std::vector<double> some(size_t count, double low, double high, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<double> result;
  for (size_t i = 0; i < count; ++i) result.push_back(low + (high - low) * generator() / 4294967296.0);
  return result;
}

Card::Card() {
  EXPECT_EQ(SYN(synInitialize)(), 0);
  synDeviceId device = 9;
  EXPECT_EQ(SYN(synDeviceAcquire)(&device, nullptr), 0);
  EXPECT_EQ(device, 0u);
  synDeviceInfo info;
  EXPECT_EQ(SYN(synDeviceGetInfo)(0, &info), 0);
  type_ = info.deviceType;
  EXPECT_EQ(SYN(synStreamCreateGeneric)(&stream_, 0, 0), 0);
}

Card::~Card() {
  EXPECT_EQ(SYN(synStreamDestroy)(stream_), 0);
  EXPECT_EQ(SYN(synDeviceRelease)(0), 0);
  EXPECT_EQ(SYN(synDestroy)(), 0);
}

uint64_t Card::upload(const Value& value) {
  uint64_t address = 0;
  const uint64_t bytes = value.bytes.size();
  if (bytes == 0) return 0;
  EXPECT_EQ(SYN(synDeviceMalloc)(0, bytes, 0, 0, &address), 0);
  void* host = nullptr;
  EXPECT_EQ(SYN(synHostMalloc)(0, bytes, 0, &host), 0);
  std::memcpy(host, value.bytes.data(), bytes);
  EXPECT_EQ(SYN(synMemCopyAsync)(stream_, reinterpret_cast<uint64_t>(host), bytes, address, HOST_TO_DRAM), 0);
  EXPECT_EQ(SYN(synStreamSynchronize)(stream_), 0);
  EXPECT_EQ(SYN(synHostFree)(0, host, 0), 0);
  return address;
}

Value Card::download(uint64_t address, Value like) {
  const uint64_t bytes = like.bytes.size();
  if (bytes == 0) return like;
  void* host = nullptr;
  EXPECT_EQ(SYN(synHostMalloc)(0, bytes, 0, &host), 0);
  EXPECT_EQ(SYN(synMemCopyAsync)(stream_, address, bytes, reinterpret_cast<uint64_t>(host), DRAM_TO_HOST), 0);
  EXPECT_EQ(SYN(synStreamSynchronize)(stream_), 0);
  std::memcpy(like.bytes.data(), host, bytes);
  EXPECT_EQ(SYN(synHostFree)(0, host, 0), 0);
  return like;
}

void Card::free(uint64_t address) {
  if (address) {
    EXPECT_EQ(SYN(synDeviceFree)(0, address, 0), 0);
  }
}

synSectionHandle section(synGraphHandle graph, bool persistent) {
  synSectionHandle result = nullptr;
  EXPECT_EQ(SYN(synSectionCreate)(&result, 0, graph), 0);
  EXPECT_EQ(SYN(synSectionSetPersistent)(result, persistent), 0);
  return result;
}

synTensor tensor(synGraphHandle graph, const std::string& name, const Value& like, bool persistent,
                 synSectionHandle of) {
  synTensor result = nullptr;
  EXPECT_EQ(SYN(synTensorHandleCreate)(&result, graph, DATA_TENSOR, name.c_str()), 0);
  synTensorGeometry geometry = {};
  geometry.dims = static_cast<uint32_t>(like.sizes.size());
  for (size_t dim = 0; dim < like.sizes.size(); ++dim) geometry.sizes[dim] = like.sizes[dim];
  EXPECT_EQ(SYN(synTensorSetGeometry)(result, &geometry, synGeometryMaxSizes), 0);
  EXPECT_EQ(SYN(synTensorSetDeviceDataType)(result, like.type), 0);
  if (persistent) {
    EXPECT_EQ(SYN(synTensorAssignToSection)(result, of ? of : section(graph), 0), 0);
  }
  return result;
}

int Card::node(const std::string& guid, const std::vector<const Value*>& inputs, const std::vector<Value*>& outputs,
               const void* params, unsigned bytes) {
  const int status = run_node(stream_, guid, inputs, outputs, params, bytes);
  if (status != 0 || bytes == 0 || !damaged_.insert(guid).second) return status;
  for (unsigned at = 0; at<bytes; at += bytes> 200 ? 3 : 1)
    for (const int mask : {0x01, 0xFE}) {
      std::vector<char> changed(static_cast<const char*>(params), static_cast<const char*>(params) + bytes);
      changed[at] = static_cast<char>(changed[at] ^ mask);
      std::vector<Value> results;
      std::vector<Value*> places;
      for (const Value* output : outputs) results.push_back(output ? *output : Value());
      for (size_t i = 0; i < outputs.size(); ++i) places.push_back(outputs[i] ? &results[i] : nullptr);
      synStreamHandle stream = nullptr;  // which may fail
      EXPECT_EQ(SYN(synStreamCreateGeneric)(&stream, 0, 0), 0);
      run_node(stream, guid, inputs, places, changed.data(), bytes);
      EXPECT_EQ(SYN(synStreamDestroy)(stream), 0);
    }
  return status;
}

int Card::run_node(synStreamHandle stream, const std::string& guid, const std::vector<const Value*>& inputs,
                   const std::vector<Value*>& outputs, const void* params, unsigned bytes) {
  synGraphHandle graph = nullptr;
  EXPECT_EQ(SYN(synGraphCreate)(&graph, type_), 0);
  std::vector<synTensor> in, out;
  std::vector<std::string> names;
  std::vector<uint64_t> addresses;
  for (size_t i = 0; i < inputs.size(); ++i) {
    in.push_back(nullptr);
    if (!inputs[i]) continue;
    names.push_back("in" + std::to_string(i));
    in.back() = tensor(graph, names.back(), *inputs[i], true);
    addresses.push_back(upload(*inputs[i]));
  }
  const size_t first_output = names.size();
  for (size_t i = 0; i < outputs.size(); ++i) {
    out.push_back(nullptr);
    if (!outputs[i]) continue;
    names.push_back("out" + std::to_string(i));
    out.back() = tensor(graph, names.back(), *outputs[i], true);
    addresses.push_back(upload(*outputs[i]));
  }
  synNodeId id = 0;
  int status = SYN(synNodeCreateWithId)(graph, in.data(), out.data(), static_cast<uint32_t>(in.size()),
                                        static_cast<uint32_t>(out.size()), params, bytes, guid.c_str(), "node", &id,
                                        nullptr, nullptr);
  synRecipeHandle recipe = nullptr;
  if (status == 0) status = SYN(synGraphCompile)(&recipe, graph, "recipe", nullptr);
  EXPECT_EQ(SYN(synGraphDestroy)(graph), 0);
  if (status == 0) {
    uint64_t workspace_bytes = 0, workspace = 0;
    EXPECT_EQ(SYN(synWorkspaceGetSize)(&workspace_bytes, recipe), 0);
    if (workspace_bytes) {
      EXPECT_EQ(SYN(synDeviceMalloc)(0, workspace_bytes, 0, 0, &workspace), 0);
    }
    std::vector<const char*> pointers;
    for (const std::string& name : names) pointers.push_back(name.c_str());
    std::vector<uint64_t> ids(names.size());
    EXPECT_EQ(SYN(synTensorRetrieveIds)(recipe, pointers.data(), ids.data(), static_cast<uint32_t>(ids.size())), 0);
    std::vector<synLaunchTensorInfo> infos(names.size());
    for (size_t i = 0; i < names.size(); ++i) {
      infos[i] = {};
      infos[i].pTensorAddress = addresses[i];
      infos[i].tensorId = ids[i];
    }
    status = SYN(synLaunch)(stream, infos.data(), static_cast<uint32_t>(infos.size()), workspace, recipe, 0);
    if (status == 0) status = SYN(synStreamSynchronize)(stream);
    free(workspace);
    EXPECT_EQ(SYN(synRecipeDestroy)(recipe), 0);
  }
  size_t place = first_output;
  for (Value* output : outputs)
    if (output) *output = download(addresses[place++], *output);
  for (const uint64_t address : addresses) free(address);
  return status;
}

TEST(SynapseHarness, OpensTheLibrary) {
  EXPECT_TRUE(in_child({}, [] {
    const Card card;
    char version[128];
    EXPECT_EQ(SYN(synDriverGetVersion)(version, sizeof version), 0);
    EXPECT_NE(std::string(version).find("emulator"), std::string::npos) << version;
  }));
}

}  // namespace synapse_tests
