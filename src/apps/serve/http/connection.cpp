// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/http/connection_stream.h"

namespace transom::serve {

std::shared_ptr<ConnectionBase> make_connection(Socket socket, std::shared_ptr<ServerState> state) {
  return std::make_shared<Connection<Socket>>(std::move(state), std::move(socket));
}

}  // namespace transom::serve
