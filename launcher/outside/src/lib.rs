//! The network's side of the wall: resolver, connections, gateway, retriever processes.
