// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/http/connection_stream.h"

namespace transom::serve {

std::shared_ptr<ConnectionBase> make_secure_connection(Socket socket, asio::ssl::context& context,
                                                       std::shared_ptr<ServerState> state) {
  return std::make_shared<Connection<SecureStream>>(std::move(state), std::move(socket), context);
}

}  // namespace transom::serve
