// SPDX-License-Identifier: Apache-2.0
// This process as one of several: values of the host go over the store, those of the device over its communicator.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/distributed/store.h"

namespace transom {

class Device;
class FlightRecorder;

class ProcessGroup {
 public:
  // Returns when all processes of the launch have come and their devices are joined.
  ProcessGroup(const Launch& launch, const ProcessGroupOptions& options, std::shared_ptr<Device> device);
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int64_t rank() const { return launch_.rank; }
  int64_t size() const { return launch_.ranks; }
  bool is_main() const { return launch_.rank == 0; }

  // All processes call these together. By rank:
  std::vector<std::string> all_gather(const std::string& mine);
  double sum(double mine);
  void barrier() { all_gather(""); }
  // Throws an Error that names the first rank whose collectives so far are not those of the others of their group. Each
  // group is compared by itself: stages of a pipeline differ by design.
  void expect_equal_collectives();
  std::string from_main(const std::string& text);  // rank 0's
  // The same beside other calls, on any thread of each process; no two exchanges may have one name. On rank 0 what each
  // rank gave; elsewhere nothing.
  std::vector<std::string> gather_on_main(const std::string& name, const std::string& mine);
  std::string from_main_by_name(const std::string& name, const std::string& text);

  // Throws an Error that names a rank which is lost.
  void expect_all_there();

  // See report_failure.
  bool report_failure(ErrorKind kind, std::string& message);

 private:
  std::vector<std::string> exchange(const std::string& name, const std::vector<std::string>& parts);
  void leave_flight_file();

  Launch launch_;
  std::shared_ptr<Device> device_;
  std::unique_ptr<StoreServer> server_;
  std::shared_ptr<StoreClient> client_;  // also of what makes groups for the device
  std::shared_ptr<FlightRecorder> recorder_;
  std::string flight_directory_;
  std::once_flag left_file_;
  int64_t comparisons_ = 0;
  bool failed_ = false;
};

// The group that join_process_group made; null where this process is alone.
ProcessGroup* process_group();

}  // namespace transom
